"""The contexts that user functions get in open(), and a CheckpointedFunction in its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkish.common import options
from flinkish.common.errors import EngineError, StateError
from flinkish.metrics import MetricGroup
from flinkish.runtime.protocol import Barrier
from flinkish.runtime.state import tables
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.level_state import OperatorState
from flinkish.udf.checkpoint import CheckpointedFunction, FunctionInitializationContext, FunctionSnapshotContext
from flinkish.udf.functions import KeyedStateStore, RuntimeContext
from flinkish.udf.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    OperatorStateStore,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
    check_descriptor,
)

if TYPE_CHECKING:
    from flinkish.runtime.operators.base import OperatorContext


class TaskRuntimeContext(RuntimeContext):
    """The RuntimeContext of one operator in one subtask."""

    def __init__(self, context: OperatorContext, backend: KeyedStateBackend | None) -> None:
        self._context = context
        self._backend = backend

    def get_task_name(self) -> str:
        return self._context.vertex.name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.vertex.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.vertex.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask_index

    def get_attempt_number(self) -> int:
        return self._context.attempt_number

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return (self._context.program.configuration.get(options.GLOBAL_JOB_PARAMETERS) or {}).get(key, default_value)

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


class SubtaskStateStore(OperatorStateStore):
    def __init__(self, state: OperatorState) -> None:
        self._state = state

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        check_descriptor(state_descriptor, MapStateDescriptor, "get_broadcast_state")
        return self._state.broadcast_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        check_descriptor(state_descriptor, ListStateDescriptor, "get_list_state")
        return self._state.list_state(state_descriptor)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        check_descriptor(state_descriptor, ListStateDescriptor, "get_union_list_state")
        return self._state.union_list_state(state_descriptor)

    def get_registered_state_names(self) -> set[str]:
        kinds = (tables.OPERATOR_LIST, tables.OPERATOR_UNION)
        return {name for name, kind in self._state.operator_states().items() if kind in kinds}

    def get_registered_broadcast_state_names(self) -> set[str]:
        return {name for name, kind in self._state.operator_states().items() if kind == tables.OPERATOR_BROADCAST}


class _Initialization(FunctionInitializationContext):
    def __init__(self, context: OperatorContext, keyed: KeyedStateStore) -> None:
        self._restored = context.restored_checkpoint
        self._store = SubtaskStateStore(context.state)
        self._keyed = keyed

    def is_restored(self) -> bool:
        return self._restored is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._store

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._keyed


class SnapshotContext(FunctionSnapshotContext):
    """The context of `snapshot_state`."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier

    def get_checkpoint_id(self) -> int:
        return int(self._barrier.checkpoint_id)

    def get_checkpoint_timestamp(self) -> int:
        return self._barrier.timestamp


def initialize_state(function: Any, context: OperatorContext, keyed: KeyedStateStore) -> None:
    """Call `initialize_state` of a function that has it, before `open`.

    Raises EngineError if the operator is built again in the middle of an attempt: the attributes that the function has changed
    since the last checkpoint are lost with its process, so the job has to go back to that checkpoint.
    """
    if not isinstance(function, CheckpointedFunction):
        return
    if context.rebuilt:
        raise EngineError(
            f"operator {context.node.name!r} (uid {context.node.uid}): the process of its {type(function).__name__} is lost, "
            "and with it what the function had not stored yet; the job has to go back to its last checkpoint",
            hint="turn checkpoints on; or keep what the function holds in keyed state, which needs no restart.",
        )
    function.initialize_state(_Initialization(context, keyed))
