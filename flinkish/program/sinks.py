"""Interfaces that sinks implement: FLIP-143, in Python.

A sink has writers in the tasks and, for two-phase commit, a committer on the driver. The committer gets the writers' commit
requests once the checkpoint that contains them is complete. Programs import these names from
`flinkish.datastream.connectors.base`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.columns import Columns
from flinkish.common.configuration import Configuration
from flinkish.common.limits import LONG_MAX
from flinkish.common.typeinfo import TypeInformation
from flinkish.metrics import MetricGroup
from flinkish.program.refused_records import RefusedRecords
from flinkish.udf.functions import Function
from flinkish.udf.state import ListState, ListStateDescriptor

__all__ = [
    "END_OF_INPUT_CHECKPOINT",
    "CommitRequest",
    "Committer",
    "DeliveryGuarantee",
    "RestoredCheckpoint",
    "Sink",
    "SinkWriter",
    "SinkWriterContext",
    "StreamTransformer",
    "SupportsPreprocessing",
    "WriteContext",
]

T = TypeVar("T")
WriterCommitT = TypeVar("WriterCommitT")

#: Destination of `SinkWriterContext.emit_to_driver` to which DataStream.print sends lines, without line ends.
PRINT: Final = "print"
#: Destination to which execute_and_collect sends records.
COLLECT: Final = "collect"


class DeliveryGuarantee(Enum):
    """The guarantee of a sink, with PyFlink's names."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


# One is made for each record with a timestamp: that takes 50 ns for a Struct, 360 ns for a frozen dataclass.
class WriteContext(msgspec.Struct, frozen=True, kw_only=True):
    """Timestamp and watermark of the record that is written."""

    timestamp: int | None
    watermark: int


class SinkWriterContext(Protocol):
    """The information and services that a writer has in its subtask."""

    configuration: Configuration
    #: Id of the job, the same after every restart. After a job has ended, or its checkpoints were removed, the next job with the
    #: same high-availability.cluster-id may get the same id.
    job_id: str
    #: Random id of the job's sequence of checkpoints: the same after every restart, a new one for a job that starts without state
    #: or from a savepoint. Within a lineage no checkpoint id is used twice.
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

        A writer keeps everything that it must remember in such state, and updates it in two places: in `end_epoch`, because
        another process may continue from that epoch, and in `flush` or `prepare_commit`, because a checkpoint stores the state
        right after them. The state must no longer contain what was returned for the commit, or it is written again after a
        restore.
        """

    def initialize_function(self, function: Function) -> None:
        """Register a user function that the writer calls for checkpoints, if it is a CheckpointedFunction or a listener.

        Call this before the function's `open`.
        """

    def processing_time(self) -> int:
        """Return the processing time of this epoch in milliseconds."""

    def emit_to_driver(self, destination: str, values: Sequence[Any], watermark: int | None = None) -> None:
        """Send values to the driver with this epoch's report; `destination`, such as PRINT, chooses their receiver there.

        `watermark` is the one that came before the values, in milliseconds; COLLECT merges the values of all subtasks by it.
        """

    def put_aside(self, value: Any, reason: str) -> None:
        """Make a dead letter of a record that `write` has taken before and that the target refuses; `value` is its content.

        For the record that `write` was called with, raise RecordRefusedError instead. Raises TargetRefusedError, with which the
        job ends, if the job keeps no dead letters.
        """


class SinkWriter(ABC, Generic[T, WriterCommitT]):
    """Writes in one subtask. Name its files and transactions so that an epoch can be repeated without harm."""

    @abstractmethod
    def write(self, value: T, context: WriteContext) -> None:
        """Write or buffer one record."""

    def write_columns(self, columns: Columns) -> bool:
        """Write or buffer a run of records that are columns; only called if the sink has no `why_records`.

        Return False, with nothing written, if the writer must look at these records one by one: `write` then gets them.
        """
        raise NotImplementedError

    def end_epoch(self) -> None:
        """Write all data that is not in state to storage; called at the end of each epoch."""

    def buffered_bytes(self) -> int:
        """Return the approximate bytes kept in memory until the end of the epoch; if they are many, the job's sources pause."""
        return 0

    def next_timer(self) -> int | None:
        """Return the processing time (milliseconds) at which the writer needs an epoch even if no records come; None = never.

        Called after `end_epoch`. A writer with a batch that must not wait too long returns when the batch is due, and sends it in
        `end_epoch`.
        """
        return None

    def flush(self, end_of_input: bool) -> None:
        """Write all buffered data; called before each checkpoint's barrier passes and at the end of the input.

        When a checkpoint is complete, everything that it covers was flushed, so a sink that sends its data here and in `write`
        writes at least once.
        """

    def prepare_commit(self) -> Sequence[WriterCommitT]:
        """Return the data to commit with this checkpoint, and forget it; called after `flush`."""
        return ()

    def close(self) -> None:
        """Release all resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest(Generic[WriterCommitT]):
    """Data that a writer prepared for a commit, with its origin."""

    committable: WriterCommitT
    #: Id of the job that prepared the data; in the first commit of a job started from a savepoint it is the savepoint's job.
    job_id: str
    #: Lineage in which the data was prepared; see SinkWriterContext.
    lineage: str
    sink_uid: str
    subtask_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCheckpoint:
    """Information for a committer on the checkpoint that an attempt starts from."""

    checkpoint_id: int
    #: Lineage of the checkpoint, and of all earlier commits of its job.
    lineage: str
    #: Lineage and id of the job that starts from the checkpoint.
    job_lineage: str
    job_id: str
    sink_uid: str
    #: The result of `Committer.snapshot_state` for the checkpoint; None, too, if the checkpoint is not trusted.
    state: bytes | None = None

    @property
    def own(self) -> bool:
        """Whether the checkpoint belongs to the job's own lineage; otherwise the job was started from another job's."""
        return self.lineage == self.job_lineage


class Committer(ABC, Generic[WriterCommitT]):
    """Commits on the driver. It must be idempotent: after a crash it gets the same requests again with the same checkpoint id."""

    #: Takes records that the target refuses; the job sets it. A committer that cannot tell such records apart raises an error.
    refused_records: RefusedRecords = RefusedRecords()

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        """Process the checkpoint that an attempt starts from; called once, before that checkpoint's requests are committed again.

        Raises ForeignCheckpointError if the sink does not fit the checkpoint, for example because later checkpoints were already
        committed to it, or SinkChangedError if what was committed before the checkpoint is lost: the job then fails without a
        restart.
        """

    def snapshot_state(self) -> bytes | None:
        """Return the state for `restore` in an attempt that starts from the checkpoint being taken.

        The requests prepared for this checkpoint are not committed yet; `commit` gets them later.
        """
        return None

    @abstractmethod
    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[WriterCommitT]]) -> None:
        """Commit the requests of all writers for one checkpoint; an error restarts the job, which repeats the commit.

        A committer whose target remembers its commits compares the target with its last commit, in the transaction that writes,
        and raises SinkChangedError if commits are lost: the job then fails without a restart.

        Called in the order of the checkpoints, even without requests. `checkpoint_id` is END_OF_INPUT_CHECKPOINT for the commit
        at the end of a bounded job without checkpoints.
        """

    def close(self) -> None:
        """Release all resources."""


#: Checkpoint id of the commit at the end of a bounded job without checkpoints; Flink's Long.MAX_VALUE.
END_OF_INPUT_CHECKPOINT = LONG_MAX


def checkpoint_name(checkpoint_id: int) -> str:
    """Return the words for a commit's checkpoint id in messages.

    >>> checkpoint_name(7), checkpoint_name(END_OF_INPUT_CHECKPOINT)
    ('checkpoint 7', 'the end of the input')
    """
    return "the end of the input" if checkpoint_id == END_OF_INPUT_CHECKPOINT else f"checkpoint {checkpoint_id}"


class Sink(ABC, Generic[T, WriterCommitT]):
    """A sink: immutable and picklable; it makes the writers and the committer."""

    #: Why its writers take records, in a line; None if they take columns, by `write_columns`.
    why_records: str | None = "the sink writes records"
    get_java_function = AbsentMember(JAVA_OBJECT)

    @abstractmethod
    def create_writer(self, context: SinkWriterContext) -> SinkWriter[T, WriterCommitT]:
        """Make a writer, in the task."""

    def create_committer(self, configuration: Configuration) -> Committer[WriterCommitT] | None:
        """Make the committer, on the driver; None for a sink without two-phase commit."""
        return None

    @property
    def committable_type(self) -> Any:
        """Type of the data that writers prepare for commits, as a type that msgspec decodes; needed if there is a committer."""
        return Any

    def validate(self, input_type: TypeInformation) -> None:
        """Raise an error if the sink, as configured, cannot write records of this type; called when the job is built."""


class StreamTransformer(ABC):
    """Changes the stream before a sink that SupportsPreprocessing; PyFlink's name."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the DataStream that the sink writes, made from the given one."""


class SupportsPreprocessing(ABC):
    """A sink that changes the stream before it writes it; PyFlink's name. Any sink with this method is treated as one."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return the transformer of the stream; None = the stream is not changed."""
