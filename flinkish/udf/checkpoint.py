"""Functions that take part in checkpoints: Flink's org.apache.flink.streaming.api.checkpoint, which PyFlink does not have."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flinkish.udf.functions import KeyedStateStore
from flinkish.udf.state import OperatorStateStore

__all__ = ["CheckpointListener", "CheckpointedFunction", "FunctionInitializationContext", "FunctionSnapshotContext"]


class FunctionInitializationContext(ABC):
    """The argument of `initialize_state`, which gives access to the function's state."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether the job was restored from a checkpoint; the state may be empty even then."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the checkpoint that the job was restored from, None if it starts without one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of operator state, which belongs to the subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state; if the stream is not keyed, each of its methods raises StateError."""


class FunctionSnapshotContext(ABC):
    """The argument of `snapshot_state`, which describes the checkpoint."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the id of the checkpoint; ids increase, and are not reused after a restart."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the time when the checkpoint was triggered, in milliseconds since 1970-01-01 UTC."""


class CheckpointedFunction(ABC):
    """A function that keeps data in attributes, and writes it to state when a checkpoint is taken.

    Inherit it in addition to the class of the function, such as MapFunction; it works for all operators except sources.
    `initialize_state` is called before `open`.

    If a process is lost, so are the attributes. Other functions then continue in another process with the state of their last
    epoch; a job with a CheckpointedFunction restarts from its last checkpoint, as any job does in Flink.

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
        """Get the state, and restore the attributes from it if the job was restored."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write the attributes to state, which is stored in the checkpoint afterwards. This method cannot emit records."""


class CheckpointListener(ABC):
    """A function that is notified of checkpoints; inherit it in addition to the class of the function.

    Every subtask is notified at most once of each id, at the start of an epoch after the checkpoint was completed (or aborted);
    of the job's last checkpoint at the very end. After a failure a notification may be missing: the next one covers it.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Process the notice that a checkpoint is complete, and so are all earlier ones."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - optional
        """Process the notice that a checkpoint was aborted; a later one covers its state."""
