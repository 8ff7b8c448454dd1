"""Calls user functions that are a CheckpointedFunction or CheckpointListener, and has the contexts for these calls."""

from __future__ import annotations

from typing import Any

from flinkish.common.errors import EngineError
from flinkish.runtime.operators.base import OperatorContext
from flinkish.runtime.protocol import Barrier
from flinkish.runtime.state import tables
from flinkish.runtime.state.level_state import OperatorState
from flinkish.udf.checkpoint import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinkish.udf.functions import KeyedStateStore
from flinkish.udf.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorStateStore,
    check_descriptor,
)


class _Store(OperatorStateStore):
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
        self._store = _Store(context.state)
        self._keyed = keyed

    def is_restored(self) -> bool:
        return self._restored is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._store

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._keyed


class _Snapshot(FunctionSnapshotContext):
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


def snapshot_state(function: Any, barrier: Barrier) -> None:
    """Call `snapshot_state` of a function that has it."""
    if isinstance(function, CheckpointedFunction):
        function.snapshot_state(_Snapshot(barrier))


def notify_complete(function: Any, checkpoint_id: int) -> None:
    """Notify a function that is a CheckpointListener of a completed checkpoint."""
    if isinstance(function, CheckpointListener):
        function.notify_checkpoint_complete(checkpoint_id)


def notify_aborted(function: Any, checkpoint_id: int) -> None:
    """Notify a function that is a CheckpointListener of an aborted checkpoint."""
    if isinstance(function, CheckpointListener):
        function.notify_checkpoint_aborted(checkpoint_id)
