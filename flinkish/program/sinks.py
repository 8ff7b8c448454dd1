"""Interfaces that sinks are written against: FLIP-143, in Python.

A sink has writers in the tasks and, for two-phase commit, a committer on the driver, which gets what the writers prepared once
the checkpoint that holds it is complete. Programs import these names from `flinkish.datastream.connectors.base`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import msgspec

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.limits import LONG_MAX

if TYPE_CHECKING:
    from flinkish.common.configuration import Configuration
    from flinkish.common.typeinfo import TypeInformation
    from flinkish.datastream.functions import Function
    from flinkish.datastream.state import ListState, ListStateDescriptor
    from flinkish.metrics import MetricGroup

T = TypeVar("T")
WriterCommitT = TypeVar("WriterCommitT")

#: Destination of `SinkWriterContext.emit_to_driver` to which DataStream.print sends lines, without line ends.
PRINT: Final = "print"
#: Destination to which execute_and_collect sends records.
COLLECT: Final = "collect"


class DeliveryGuarantee(Enum):
    """What a sink promises; PyFlink's names."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


# A Struct takes 50 ns to make, a frozen dataclass 360: one is made for each record that has a timestamp.
class WriteContext(msgspec.Struct, frozen=True, kw_only=True):
    """About the record that is written."""

    timestamp: int | None
    watermark: int


class SinkWriterContext(Protocol):
    """What a writer may know and use in its subtask."""

    configuration: Configuration
    #: Id of the job, the same after every restart. A job that was ended, or whose checkpoints were removed, may lend it to the
    #: next one under its high-availability.cluster-id.
    job_id: str
    #: Random id of the course of checkpoints that the job is on: the same after every restart, another one when a job starts from
    #: nothing or from a savepoint. Within a lineage no checkpoint id is used twice.
    lineage: str
    sink_uid: str
    subtask_index: int
    parallelism: int
    attempt_id: str
    metric_group: MetricGroup
    #: Type of the records written.
    input_type: TypeInformation

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return operator state of this writer, redistributed round-robin when the parallelism changes.

        A writer keeps everything it has to remember in such state, and brings it up to date in two places: in `end_epoch`, for
        an epoch that another process goes on from, and in `flush` or `prepare_commit`, as a checkpoint takes it right after them.
        What was prepared to be committed must not be in it any more, or it is written a second time after a restore.
        """
        ...

    def initialize_function(self, function: Function) -> None:
        """Have a user function that the writer calls take part in checkpoints, if it is a CheckpointedFunction or a listener.

        To be called before its `open`.
        """
        ...

    def processing_time(self) -> int:
        """Return the processing time of this epoch in milliseconds."""
        ...

    def emit_to_driver(self, destination: str, values: Sequence[Any]) -> None:
        """Send values to the driver with this epoch's report; who takes them there goes by the destination, such as PRINT."""
        ...


class SinkWriter(ABC, Generic[T, WriterCommitT]):
    """Writes in one subtask. Files and transactions it opens must be named so that a second try of an epoch does no harm."""

    @abstractmethod
    def write(self, value: T, context: WriteContext) -> None:
        """Take one record."""

    def end_epoch(self) -> None:
        """Make sure that what is not in state is on storage; called at the end of each epoch."""

    def buffered_bytes(self) -> int:
        """Return about how many bytes are in memory until the end of the epoch; a source before it stops when they are many."""
        return 0

    def flush(self, end_of_input: bool) -> None:
        """Write out what is buffered; called before each checkpoint's barrier passes and at the end of the input."""

    def prepare_commit(self) -> Sequence[WriterCommitT]:
        """Return what is ready to be committed with the checkpoint, after `flush`. The writer forgets it."""
        return ()

    def close(self) -> None:
        """Release what is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest(Generic[WriterCommitT]):
    """What a writer prepared, with where it comes from."""

    committable: WriterCommitT
    #: Of the job that prepared it: of another one in the first commit of a job that was started from that one's savepoint.
    job_id: str
    #: In which it was prepared; see SinkWriterContext.
    lineage: str
    sink_uid: str
    subtask_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCheckpoint:
    """What a committer may know of the checkpoint that an attempt starts from."""

    checkpoint_id: int
    #: Of the checkpoint: of all that its job committed before.
    lineage: str
    #: Of the job that starts from it.
    job_lineage: str
    sink_uid: str
    #: What `Committer.snapshot_state` returned for the checkpoint; None also where the checkpoint is not trusted.
    state: bytes | None = None

    @property
    def own(self) -> bool:
        """Whether the job goes on in the checkpoint's lineage; else it is one that the job was started from."""
        return self.lineage == self.job_lineage


class Committer(ABC, Generic[WriterCommitT]):
    """Commits on the driver. Must be idempotent: after a crash the same requests come again with the same checkpoint id."""

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        """Learn which checkpoint an attempt starts from; called once, before what that checkpoint holds is committed again.

        Raises ForeignCheckpointError if the sink does not fit the checkpoint, for instance because later ones were committed
        to it: the job then fails for good.
        """

    def snapshot_state(self) -> bytes | None:
        """Return what `restore` is to get back in an attempt that starts from the checkpoint that is being taken.

        What was prepared for this checkpoint is not committed yet, and comes with it to `commit`.
        """
        return None

    @abstractmethod
    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[WriterCommitT]]) -> None:
        """Make visible what all writers prepared for one checkpoint; raises to have the job restarted and the commit repeated.

        Called in the order of the checkpoints, also with no requests. `checkpoint_id` is END_OF_INPUT_CHECKPOINT for what is
        committed at the end of a bounded job that makes no checkpoints.
        """

    def close(self) -> None:
        """Release what is held."""


#: Checkpoint id of the commit at the end of a bounded job without checkpoints; Flink's Long.MAX_VALUE.
END_OF_INPUT_CHECKPOINT = LONG_MAX


class Sink(ABC, Generic[T, WriterCommitT]):
    """A sink: immutable and picklable; makes the working parts."""

    get_java_function = AbsentMember(JAVA_OBJECT)

    @abstractmethod
    def create_writer(self, context: SinkWriterContext) -> SinkWriter[T, WriterCommitT]:
        """Make a writer, in the task."""

    def create_committer(self, configuration: Configuration) -> Committer[WriterCommitT] | None:
        """Make the committer, on the driver; None for a sink without two-phase commit."""
        return None

    @property
    def committable_type(self) -> Any:
        """Type of what writers prepare, as msgspec understands it; needed if there is a committer."""
        return Any

    def validate(self, input_type: TypeInformation) -> None:
        """Raise a named error if the sink cannot work as configured on such records; called when the job is built."""
