"""Interfaces that sources implement: FLIP-27, in Python.

A source has an enumerator on the driver, which discovers and assigns splits, and readers in the tasks. A reader must be
deterministic: for the same splits (which contain their position) and the same number of records it must emit the same records.
Results are then exact when a task runs again after a lost process, and when a job restarts from a checkpoint.
Programs import these names from `flinkish.datastream.connectors.base`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.configuration import Configuration
from flinkish.common.typeinfo import TypeInformation
from flinkish.metrics import MetricGroup
from flinkish.program.dead_letters import BadRecord, DeadLetters
from flinkish.program.driver_objects import NeedsDataFrames
from flinkish.udf.output_tag import OutputTag

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BaseSource",
    "Boundedness",
    "DriverReader",
    "DriverSource",
    "InputStatus",
    "NativeSource",
    "ReaderOutput",
    "SideOutputRecord",
    "Source",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
]

T = TypeVar("T")
InT = TypeVar("InT", contravariant=True)


class Boundedness(Enum):
    """Whether the input of a source ends."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class InputStatus(Enum):
    """The result of `poll_next`."""

    #: More records are available: poll again while the output has credit.
    MORE_AVAILABLE = "MORE_AVAILABLE"
    #: No records are available now; the reader is polled again in a later epoch.
    NOTHING_AVAILABLE = "NOTHING_AVAILABLE"
    #: All assigned splits are finished, and no more will be assigned.
    END_OF_INPUT = "END_OF_INPUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSplit:
    """A part of a source, with the position up to which it was read.

    Subclass it as a frozen dataclass of plain data (numbers, text, bytes, tuples, dicts, nested dataclasses): splits are stored
    in checkpoints as MessagePack, by msgspec. The class may be defined in the job script; an msgspec.Struct must be in a module.
    """

    split_id: str

    @property
    def records_left(self) -> int | None:
        """How many records are left at most; None = not known. If it is known of all splits, a job ends one epoch sooner.

        Its last checkpoint is then taken in the epoch that reads the last records.
        """
        return None


@dataclass(frozen=True, slots=True)
class SideOutputRecord:
    """A value that a source reader emits to a side output; the runtime sends it to the streams that read the tag."""

    #: None for a bad record that is for the dead letters only.
    tag: OutputTag | None
    value: Any
    #: The record itself, if the source could not decode it: it goes to the dead letters if nobody reads the tag.
    bad: BadRecord | None = None


SplitT = TypeVar("SplitT", bound=SourceSplit)
AssignedSplitT = TypeVar("AssignedSplitT", bound=SourceSplit, contravariant=True)
CheckpointT = TypeVar("CheckpointT")


class ReaderOutput(Protocol[InT]):
    """Receives the records of a reader."""

    #: How many records the reader may still emit in this epoch. A few more, or fewer, are allowed.
    credit: int

    def collect(self, value: InT, timestamp: int | None = None) -> None:
        """Emit a record of the selected split, with its event time in milliseconds if the source knows it."""

    #: Whether records as columns are worth making, because they stay columns after the source.
    wants_columns: bool = False

    def collect_columns(self, batch: pa.RecordBatch, times: Callable[[], pa.Array] | None = None) -> None:
        """Emit the rows of a batch of Arrow as records, only if `wants_columns`.

        `times` returns their event times as an array of int64; it is not called if the program takes event times from a field.
        The schema of the batch must be exactly that of the records' type: see `Layout` in flinkish.common.column_layout.
        """
        raise NotImplementedError

    def collect_all(self, values: Iterable[InT]) -> None:
        """Emit records without timestamps; this takes two thirds of the time of separate calls of `collect`."""

    def select_split(self, split_id: str) -> None:
        """Select the split of the next records, as each split has its own watermarks. Only needed with several splits."""

    def split_finished(self, split_id: str) -> None:
        """Declare that a split is finished, so that it no longer holds back the watermark."""

    def emit_watermark(self, timestamp: int) -> None:
        """Declare that the selected split will emit no more records with an event time <= `timestamp` (milliseconds).

        Only for sources with `emits_watermarks`; others raise SourceError. If the program's WatermarkStrategy generates
        watermarks, too, the highest one is used. Without effect in batch mode. Source: Flink's SourceOutput.
        """

    def mark_idle(self) -> None:
        """Declare that the selected split is idle until its next watermark; see `emit_watermark`.

        Its next record makes it active, too, but only at the end of the epoch.
        """

    def mark_active(self) -> None:
        """Declare that the selected split is active, so it holds back the watermark again; see `emit_watermark`."""


def emit_read(output: ReaderOutput[Any], records: Any) -> None:
    """Emit what was read in one piece: a sequence of records, or a RecordBatch of Arrow."""
    if isinstance(records, Sequence):
        output.collect_all(records)
    else:
        output.collect_columns(records)


class SourceReaderContext(Protocol):
    """Information for a reader on its subtask."""

    configuration: Configuration
    subtask_index: int
    parallelism: int
    metric_group: MetricGroup
    #: For `RecordErrors`, which readers use for records that they cannot decode.
    dead_letters: DeadLetters

    def processing_time(self) -> int:
        """Return the processing time of this epoch in milliseconds; it is the same if the epoch is repeated."""


class SourceReader(ABC, Generic[T, SplitT]):
    """Reads splits in one subtask."""

    def start(self) -> None:
        """Prepare for reading; called once before any split is added."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Add splits to read; each is read from the position it contains.

        After a restore at a lower parallelism, a reader gets several unfinished splits, even if the enumerator assigns one at a
        time.
        """

    def set_split_limits(self, limits: Mapping[str, int]) -> None:
        """Learn, by split id, how far to read in this epoch; called before `poll_next` in each epoch that has limits.

        See SplitEnumerator.split_limits. A reader at its limits answers NOTHING_AVAILABLE.
        """

    def pause_or_resume_splits(self, splits_to_pause: Collection[str], splits_to_resume: Collection[str]) -> None:
        """Pause and resume splits, by their ids: those that are ahead of their alignment group are paused, as in Flink.

        Called before and during the polls of an epoch. A reader that has several splits at the same time should override this and
        emit nothing from paused splits; if only those have records, it answers NOTHING_AVAILABLE. By default only the reader as a
        whole is held back, by the lowest watermark of its splits.
        """

    def notify_no_more_splits(self) -> None:
        """Process the notice that no more splits will be added."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Emit one or more records, at most about `output.credit` of them."""

    @abstractmethod
    def snapshot_state(self) -> Sequence[SplitT]:
        """Return the unfinished splits with their current positions; called at the end of every epoch."""

    def close(self) -> None:
        """Release files and connections."""


class SplitEnumeratorContext(Protocol[AssignedSplitT]):
    """The services of the runtime for an enumerator."""

    parallelism: int
    configuration: Configuration

    def assign_split(self, split: AssignedSplitT, subtask: int) -> None:
        """Assign a split to the reader of a subtask (numbered from 0)."""

    def signal_no_more_splits(self, subtask: int) -> None:
        """Notify a reader that it gets no more splits."""

    def is_reading(self, subtask: int) -> bool:
        """Return whether a reader has unfinished splits, as of the end of the last epoch."""

    def assigned_splits(self) -> Sequence[SourceSplit]:
        """Return all splits that readers have not read to their end, at their positions after the last epoch."""

    def call_async(
        self,
        work: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        *,
        initial_delay: int = 0,
        period: int | None = None,
    ) -> None:
        """Run `work` in another thread, then call `handler` with its result or error in the coordinator's thread.

        The first call is made after `initial_delay` milliseconds. With a `period` (milliseconds) it is repeated. An error raised
        by the handler fails the job.
        """


class SplitEnumerator(ABC, Generic[SplitT, CheckpointT]):
    """Discovers and assigns splits; runs on the driver, which never calls it from two threads at the same time."""

    def start(self) -> None:
        """Start the discovery of splits; called once, after construction or restore."""

    def handle_split_request(self, subtask: int) -> None:
        """Handle a reader that has no unfinished splits; also called once at the start for each reader without splits."""

    def add_splits_back(self, splits: Sequence[SplitT], subtask: int) -> None:
        """Take back the splits of a reader, at the positions of the checkpoint, to assign them again.

        Called before `start` for all unfinished splits of a restored checkpoint.
        """
        raise NotImplementedError(f"{type(self).__name__} must take back splits to be restored from a checkpoint")

    def split_limits(self) -> Mapping[str, int] | None:
        """Return, by split id, how far splits may be read at present; None = the source has no such limits.

        For a source whose splits grow, such as a Kafka partition: limits make an epoch that is run again read the same, although
        more has arrived meanwhile. Readers are asked to read only when one of their limits has changed, or one had more. The
        numbers are the source's own. Called before each epoch; must not block.
        """
        return None

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> CheckpointT:
        """Return the state for a restore, such as unassigned splits and discovered files, as plain data, as splits are."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Process the notice that a checkpoint is complete; called at most once for each id."""

    def close(self) -> None:
        """Release all resources."""


class BaseSource(ABC, Generic[T]):
    """The base of all kinds of sources."""

    #: Whether records are new ones that nothing else refers to, so that an edge or a sink need not copy them.
    makes_new_records: bool = False
    #: Why records are made, in a line; None if columns can be: by `collect_columns` of a reader, or a NativeSource.
    why_records: str | None = "the source makes records"

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the input of the source ends."""

    def produced_type(self) -> TypeInformation | None:
        """Return the type of the records if the source knows it; None = the program declares it, or records are pickled."""
        return None

    def validate(self) -> None:
        """Raise an error if the source cannot work as configured; called when the job is built."""


class Source(BaseSource[T], Generic[T, SplitT, CheckpointT]):
    """A source: immutable and picklable; it makes the enumerator and the readers."""

    get_java_function = AbsentMember(JAVA_OBJECT)

    #: Whether its readers call `emit_watermark`, `mark_idle` or `mark_active`, because the source knows its own watermarks.
    emits_watermarks: bool = False
    #: Whether the records are a part of the program, so that there are few.
    is_in_program: bool = False
    #: Whether the order in which records are read says nothing about their event times, because another system has chosen it.
    #: Only a bounded source may say so: its watermark is held back until it has been read.
    unordered: bool = False

    @property
    @abstractmethod
    def split_type(self) -> type[SplitT]:
        """The dataclass of the splits; splits in checkpoints are decoded by it."""

    @property
    @abstractmethod
    def enumerator_checkpoint_type(self) -> Any:
        """The type of the enumerator's snapshot, in a form that msgspec can decode."""

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext[SplitT]) -> SplitEnumerator[SplitT, CheckpointT]:
        """Make the enumerator of a job that starts without a checkpoint."""

    @abstractmethod
    def restore_enumerator(
        self, context: SplitEnumeratorContext[SplitT], checkpoint: CheckpointT
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """Make the enumerator from its snapshot in a checkpoint."""

    def check_restored(self, splits: Sequence[SplitT], checkpoint: CheckpointT | None, *, trusted: bool) -> None:
        """Raise ForeignCheckpointError if a checkpoint contains splits that this source would never make, such as other files.

        Called on the driver before anything is restored. `splits` are the readers' splits. `trusted` says whether our key signed
        the checkpoint; otherwise it may be forged (execution.state-recovery.allow-untrusted).
        """

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, SplitT]:
        """Make a reader, in the task."""


class DriverReader(Protocol):
    """Reads input on the driver that cannot be read again, such as a socket; records are sent to subtask 0 with the commands."""

    def poll(self, limit: int) -> tuple[Sequence[Any], bool]:
        """Return up to `limit` available records, and whether the input has ended. Does not block."""

    def wait(self, timeout: int) -> None:
        """Block for at most `timeout` milliseconds until records may be available."""

    def close(self) -> None: ...


class DriverSource(BaseSource[T]):
    """A source that cannot be read twice, so one reader on the driver reads it. Records in flight at a failure are lost."""

    @abstractmethod
    def create_driver_reader(self, configuration: Configuration) -> DriverReader:
        """Make the reader, on the driver, when an attempt starts."""


class NativeSource(NeedsDataFrames, BaseSource[T]):
    """A source that the engine reads with its own means, which is a streaming DataFrame of Spark.

    There are no splits and no readers: in each epoch the engine sends the tasks what has arrived, as Arrow data, and says where
    its source stands. What a task gets in an epoch is processed before the next epoch begins. A watermark is made over all of
    the source: the driver combines what the tasks' generators say after an epoch, and sends it with the next one.
    """

    instead = "use a Source"
    #: It never ends by itself.
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @abstractmethod
    def frame(self) -> Any:
        """The object that the engine reads; on the driver only."""

    @property
    @abstractmethod
    def schema(self) -> str:
        """Columns and types, as text; a position is good for the same schema only."""

    @abstractmethod
    def create_decoder(self, context: SourceReaderContext, *, by_columns: bool = False) -> Callable[[bytes], Iterable[Any]]:
        """Make the function, in the task, that returns the records of a piece of Arrow's IPC stream format.

        It may return a SideOutputRecord in place of a record that cannot be decoded. With `by_columns`, which is only asked for
        if there is no `why_records`, it returns runs of records, for `emit_read`.
        """


#: A source that a program may read.
AnySource = Source[Any, Any, Any] | DriverSource[Any] | NativeSource[Any]
