"""Operators that process a stream together with a broadcast stream, with keys and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkish.common.errors import StateError
from flinkish.program.operators import BroadcastProcessConfig, KeyedBroadcastProcessConfig
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.base import Operator
from flinkish.runtime.operators.basic import ElementContext, KeyedContext
from flinkish.runtime.operators.function import ConfigT, ResultsOperator
from flinkish.runtime.operators.timed import UserTimerOperator
from flinkish.runtime.state.handles import OneAddress, ReadOnlyBroadcastStateView
from flinkish.runtime.state.keyed import KeyedStateBackend, NoKey
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
        self.writable = {descriptor.name: self._store.broadcast_state(descriptor) for descriptor in descriptors}
        self.read_only = {
            name: ReadOnlyBroadcastStateView(OneAddress(), state.what, state.table) for name, state in self.writable.items()
        }
        #: The checked descriptors, so that a check costs only one look-up per record.
        self._known: dict[int, MapStateDescriptor] = {id(descriptor): descriptor for descriptor in descriptors}

    def check(self, descriptor: MapStateDescriptor) -> None:
        if id(descriptor) in self._known:
            return
        check_descriptor(descriptor, MapStateDescriptor, "get_broadcast_state")
        if descriptor.name not in self.writable:
            raise StateError(
                f"get_broadcast_state() of operator {self._operator.node.name!r}: there is no broadcast state "
                f"{descriptor.name!r}; there are {sorted(self.writable)}",
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
        self._states.check(state_descriptor)
        return self._states.writable[state_descriptor.name]


class _Reading(_BroadcastContext):
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        self._states.check(state_descriptor)
        return self._states.read_only[state_descriptor.name]


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

    def __init__(self, operator: Operator, states: _States, backend: KeyedStateBackend) -> None:
        KeyedContext.__init__(self, operator, backend)
        self._states = states


class _BroadcastInput(ResultsOperator[ConfigT]):
    """Calls the function for the records of both streams; broadcast ones have no key."""

    _reading: ElementContext
    _writing: ElementContext

    def process_records(self, input_index: int, records: Records) -> None:
        if input_index == BROADCAST_INPUT:
            without_keys = records._replace(keys=[_NO_KEY] * len(records.values))
            self.process_each(self.function.process_broadcast_element, self._writing, without_keys)
        else:
            self.process_each(self.function.process_element, self._reading, records)


class BroadcastProcessOperator(_BroadcastInput[BroadcastProcessConfig]):
    """Without keys."""

    def open(self) -> None:
        states = _States(self, self.config.state_descriptors)
        self._reading = BroadcastReadOnlyContext(self, states)
        self._writing = BroadcastContext(self, states)
        super().open()


class KeyedBroadcastProcessOperator(_BroadcastInput[KeyedBroadcastProcessConfig], UserTimerOperator[KeyedBroadcastProcessConfig]):
    """Processes a keyed stream with a broadcast one."""

    def open(self) -> None:
        states = _States(self, self.config.state_descriptors)
        self._reading = self.timer_context = KeyedBroadcastReadOnlyContext(self, states, self.backend)
        self._writing = KeyedBroadcastContext(self, states, self.backend)
        super().open()
