"""Operators that process a stream together with a broadcast stream, with keys and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkish.common.errors import StateError
from flinkish.program.operators import BroadcastProcessConfig, KeyedBroadcastProcessConfig
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.base import Operator
from flinkish.runtime.operators.contexts import ElementContext, KeyedContext
from flinkish.runtime.operators.function import FunctionOperator
from flinkish.runtime.operators.results import results_emitter
from flinkish.runtime.operators.timed import UserTimerOperator
from flinkish.runtime.state.broadcast import ReadOnlyBroadcastStateView, TableBroadcastState
from flinkish.runtime.state.keyed import KeyedStateBackend, NoKey
from flinkish.runtime.state.timers import InternalTimerService
from flinkish.udf.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction, KeyedStateFunction
from flinkish.udf.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    State,
    StateDescriptor,
    check_descriptor,
)

#: Index of the broadcast input of an operator.
BROADCAST_INPUT = 1

_NO_KEY = NoKey("a broadcast element has no key, so there is no state or timer of one", "use ctx.apply_to_keyed_state().")


class _States:
    """The broadcast states of an operator by name, in writable and read-only form."""

    def __init__(self, operator: Operator, descriptors: Sequence[MapStateDescriptor]) -> None:
        self._operator = operator
        self._store = operator.context.state
        self._writable: dict[str, TableBroadcastState] = {}
        self._read_only: dict[str, ReadOnlyBroadcastStateView] = {}
        for descriptor in descriptors:
            state = self._writable[descriptor.get_name()] = self._store.broadcast_state(descriptor)
            self._read_only[descriptor.get_name()] = ReadOnlyBroadcastStateView(state.what, state.table)
        #: The checked descriptors, so that a check costs only one look-up per record.
        self._known: dict[int, MapStateDescriptor] = {id(descriptor): descriptor for descriptor in descriptors}

    def writable(self, descriptor: MapStateDescriptor) -> TableBroadcastState:
        if id(descriptor) not in self._known:
            self._check(descriptor)
        return self._writable[descriptor.name]

    def read_only(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastStateView:
        if id(descriptor) not in self._known:
            self._check(descriptor)
        return self._read_only[descriptor.name]

    def _check(self, descriptor: object) -> None:
        where = f"get_broadcast_state() of operator {self._operator.node.name!r}"
        if not isinstance(descriptor, MapStateDescriptor):
            raise StateError(f"{where} needs a MapStateDescriptor; got {descriptor!r}")
        if descriptor.get_name() not in self._writable:
            raise StateError(
                f"{where}: there is no broadcast state {descriptor.get_name()!r}; there are {sorted(self._writable)}",
                hint="give its descriptor to broadcast(...).",
            )
        self._store.broadcast_state(descriptor)  # compares the types
        if len(self._known) < 1_000:  # a function that makes a descriptor for each record should not fill the memory
            self._known[id(descriptor)] = descriptor


class _BroadcastContext(ElementContext):
    def __init__(self, operator: Operator, states: _States) -> None:
        super().__init__(operator)
        self._states = states

    def current_processing_time(self) -> int:
        return self._timer_service.current_processing_time()

    def current_watermark(self) -> int:
        return self._timer_service.current_watermark()


class _Writing(_BroadcastContext):
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        check_descriptor(state_descriptor, MapStateDescriptor, "get_broadcast_state")
        return self._states.writable(state_descriptor)


class _Reading(_BroadcastContext):
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        check_descriptor(state_descriptor, MapStateDescriptor, "get_broadcast_state")
        return self._states.read_only(state_descriptor)


class BroadcastContext(_Writing, BroadcastProcessFunction.Context):
    """The context of BroadcastProcessFunction.process_broadcast_element."""


class BroadcastReadOnlyContext(_Reading, BroadcastProcessFunction.ReadOnlyContext):
    """The context of BroadcastProcessFunction.process_element."""


class KeyedBroadcastContext(_Writing, KeyedBroadcastProcessFunction.Context):
    """The context of KeyedBroadcastProcessFunction.process_broadcast_element."""

    def __init__(self, operator: Operator, states: _States, backend: KeyedStateBackend) -> None:
        super().__init__(operator, states)
        self._backend = backend

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, State], None]
    ) -> None:
        call = function.process if isinstance(function, KeyedStateFunction) else function
        if not callable(call):
            raise StateError(f"apply_to_keyed_state() needs a KeyedStateFunction or a callable; got {function!r}")
        check_descriptor(state_descriptor, StateDescriptor, "apply_to_keyed_state")
        self._backend.apply_to_all_keys(state_descriptor, call)


class KeyedBroadcastReadOnlyContext(_Reading, KeyedContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """The context of process_element and on_timer of KeyedBroadcastProcessFunction."""

    def __init__(self, operator: Operator, states: _States, backend: KeyedStateBackend, timers: InternalTimerService) -> None:
        KeyedContext.__init__(self, operator, backend, timers)
        self._states = states


class BroadcastProcessOperator(FunctionOperator[BroadcastProcessConfig]):
    """Without keys."""

    def open(self) -> None:
        states = _States(self, self.config.state_descriptors)
        self._read_only = BroadcastReadOnlyContext(self, states)
        self._writable = BroadcastContext(self, states)
        self._emit_results = results_emitter(self)
        super().open()

    def process_records(self, input_index: int, records: Records) -> None:
        function: Callable[[Any, Any], Any]
        context: _BroadcastContext
        if input_index == BROADCAST_INPUT:
            function, context = self.function.process_broadcast_element, self._writable
        else:
            function, context = self.function.process_element, self._read_only
        emit_results = self._emit_results
        timestamps = records.timestamps if records.timestamps is not None else [None] * len(records.values)
        for value, timestamp in zip(records.values, timestamps, strict=True):
            context.element_timestamp = timestamp
            results = function(value, context)
            if results is not None:
                emit_results(results, timestamp)


class KeyedBroadcastProcessOperator(UserTimerOperator[KeyedBroadcastProcessConfig]):
    """Processes a keyed stream with a broadcast one; broadcast elements have no key, so no keyed state or timers."""

    def open(self) -> None:
        states = _States(self, self.config.state_descriptors)
        self.timer_context = KeyedBroadcastReadOnlyContext(self, states, self.backend, self.timers)
        self._writable = KeyedBroadcastContext(self, states, self.backend)
        self.emit_results = results_emitter(self)
        super().open()

    def process_records(self, input_index: int, records: Records) -> None:
        if input_index == BROADCAST_INPUT:
            self._process_broadcast(records)
        else:
            self.process_keyed(self.function.process_element, records)

    def _process_broadcast(self, records: Records) -> None:
        backend, context = self.backend, self._writable
        process, emit_results = self.function.process_broadcast_element, self.emit_results
        backend.current_key = _NO_KEY
        timestamps = records.timestamps if records.timestamps is not None else [None] * len(records.values)
        for value, timestamp in zip(records.values, timestamps, strict=True):
            context.element_timestamp = timestamp
            results = process(value, context)
            if results is not None:
                emit_results(results, timestamp)
