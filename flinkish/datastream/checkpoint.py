"""Functions that take part in checkpoints: Flink's org.apache.flink.streaming.api.checkpoint, which PyFlink does not have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkish.datastream.functions import KeyedStateStore
    from flinkish.datastream.state import OperatorStateStore

__all__ = ["CheckpointListener", "CheckpointedFunction", "FunctionInitializationContext", "FunctionSnapshotContext"]


class FunctionInitializationContext(ABC):
    """What `initialize_state` is called with."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether the job goes on from a checkpoint; the state may be empty all the same."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the checkpoint that the job goes on from, None if it starts anew."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return where state comes from that belongs to the subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return where keyed state comes from; without keys each of its methods raises StateError."""


class FunctionSnapshotContext(ABC):
    """What `snapshot_state` is called with."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the id of the checkpoint; ids grow, and are not used again after a restart."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return when the checkpoint was triggered, in milliseconds."""


class CheckpointedFunction(ABC):
    """A function that keeps something in attributes and hands it over when a checkpoint is taken.

    To be inherited beside the kind of function, of any operator but sources. `initialize_state` is called before `open`.

    A process that is lost takes the attributes with it. Other functions then go on in another process with the state of their
    last epoch; a job with such a function restarts from its last checkpoint, as any job does in Flink.

    Example:

        >>> from flinkish.common import Types
        >>> from flinkish.datastream.functions import FlatMapFunction
        >>> from flinkish.datastream.state import ListStateDescriptor
        >>> class Pairs(FlatMapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         self.stored = context.get_operator_state_store().get_list_state(ListStateDescriptor("open", Types.LONG()))
        ...         self.open_ones = list(self.stored.get())
        ...     def snapshot_state(self, context):
        ...         self.stored.update(self.open_ones)
        ...     def flat_map(self, value):
        ...         self.open_ones.append(value)
        ...         if len(self.open_ones) == 2:
        ...             yield tuple(self.open_ones)
        ...             self.open_ones.clear()
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the state handles, and take over what they hold if the job was restored."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the state up to date: a checkpoint is taken of it when this returns. Nothing can be emitted here."""


class CheckpointListener(ABC):
    """Something that learns of checkpoints; a function inherits it beside its kind.

    Each id is told at most once to every subtask, at the start of an epoch after the checkpoint was completed (or aborted); that
    of a job's last checkpoint when all else is done. After a failure an id may never be told: the next one stands for it.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete, and with it all before."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - optional
        """Learn that a checkpoint was given up; what it held is in a later one."""
