"""The contexts of triggers, assigners, evictors and window functions; an operator has one object of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from flinkish.common.errors import StateError
from flinkish.common.limits import LONG_MAX
from flinkish.metrics import MetricGroup
from flinkish.runtime.operators.base import Operator
from flinkish.runtime.operators.runtime_context import TaskRuntimeContext
from flinkish.runtime.operators.timestamps import after_all_time
from flinkish.runtime.operators.window.namespaces import Namespace
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.evictors import Evictor
from flinkish.udf.functions import KeyedStateStore, ProcessAllWindowFunction, ProcessWindowFunction, RuntimeContext
from flinkish.udf.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
)
from flinkish.udf.window import Trigger, WindowAssigner


class _Times:
    """Processing time, watermark and metrics of an operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._now = operator.context.time.now

    def get_current_processing_time(self) -> int:
        return self._now()

    def get_current_watermark(self) -> int:
        return self._operator.current_watermark

    def get_metric_group(self) -> MetricGroup:
        return self._operator.context.metrics


class TriggerContext(_Times, Trigger.OnMergeContext):
    """State and timers of the current window, which the operator sets by `enter`."""

    def __init__(self, operator: Operator, backend: KeyedStateBackend) -> None:
        super().__init__(operator)
        self._timers = backend.timers()
        self._scope = backend.in_namespace()
        #: Windows that were merged into the current one.
        self.merged: Sequence[Namespace] = ()

    def enter(self, namespace: Namespace) -> None:
        self._scope.current_namespace = namespace

    def register_processing_time_timer(self, time: int) -> None:
        if not self._operator.quiesced:
            self._timers.processing_time.register(int(time), self._scope.address())

    def register_event_time_timer(self, time: int) -> None:
        if time > LONG_MAX:
            raise after_all_time(self._operator.node.name, time)
        if not self._operator.quiesced:
            self._timers.event_time.register(int(time), self._scope.address())

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.processing_time.delete(int(time), self._scope.address())

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.event_time.delete(int(time), self._scope.address())

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        state: State = self._scope.get(state_descriptor)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        if not isinstance(state_descriptor, (ListStateDescriptor, ReducingStateDescriptor, AggregatingStateDescriptor)):
            raise StateError(
                f"the state {state_descriptor.get_name()!r} of a trigger cannot be merged: it is given by a "
                f"{type(state_descriptor).__name__}",
                hint="use list, reducing or aggregating state in a trigger for windows that are merged.",
            )
        scope = self._scope
        scope.merge(scope.get(state_descriptor), scope.current_namespace, self.merged)


class AssignerContext(_Times, WindowAssigner.WindowAssignerContext):
    """The context of assigners; its state belongs to the record's key and to no window."""

    def __init__(self, operator: Operator, backend: KeyedStateBackend) -> None:
        super().__init__(operator)
        self._runtime_context = TaskRuntimeContext(operator.context, backend)

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context


class EvictorContext(_Times, Evictor.EvictorContext):
    """Times only."""


class NoWindowState(KeyedStateStore):
    """Refuses per-window state if windows are merged, because such state could not be merged with them."""

    def _refuse(self, state_descriptor: Any) -> NoReturn:
        raise StateError(
            "per-window state is not allowed when using merging windows",
            hint="use global_state(), or a trigger's state, which is merged.",
        )

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _refuse


class WindowFunctionContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """The context of process and clear, for keyed and non-keyed windows; the operator sets the window by `enter`."""

    def __init__(self, operator: Operator, backend: KeyedStateBackend, *, merging: bool) -> None:
        self._operator = operator
        self._now = operator.context.time.now
        self._scope = backend.in_namespace()
        self._window: Any = None
        self._window_state: KeyedStateStore = NoWindowState() if merging else self._scope
        self._global_state = backend

    def enter(self, window: Any, namespace: Namespace) -> None:
        self._window = window
        self._scope.current_namespace = namespace

    def window(self) -> Any:
        return self._window

    def current_processing_time(self) -> int:
        return self._now()

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def window_state(self) -> KeyedStateStore:
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._global_state
