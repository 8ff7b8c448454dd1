"""The RuntimeContext that user functions get in open()."""

from __future__ import annotations

from typing import Any

from flinkish.common.errors import StateError
from flinkish.metrics import MetricGroup
from flinkish.runtime.operators.base import OperatorContext
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.functions import RuntimeContext
from flinkish.udf.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)


class TaskRuntimeContext(RuntimeContext):
    """The RuntimeContext of one operator in one subtask."""

    def __init__(self, context: OperatorContext, backend: KeyedStateBackend | None) -> None:
        self._context = context
        self._backend = backend

    def get_task_name(self) -> str:
        return self._context.task_name

    def get_task_name_with_subtasks(self) -> str:
        context = self._context
        return f"{context.task_name} ({context.subtask_index + 1}/{context.parallelism})#{context.attempt_number}"

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask_index

    def get_attempt_number(self) -> int:
        return self._context.attempt_number

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._context.metrics

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._keyed("get_state").get_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._keyed("get_list_state").get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._keyed("get_map_state").get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._keyed("get_reducing_state").get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._keyed("get_aggregating_state").get_aggregating_state(state_descriptor)

    def _keyed(self, method: str) -> KeyedStateBackend:
        if self._backend is None:
            raise StateError(
                f"{method}() of operator {self._context.node.name!r}: keyed state can only be used on a keyed stream",
                hint="put key_by(...) before this operator.",
            )
        return self._backend
