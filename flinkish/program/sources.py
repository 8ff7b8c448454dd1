"""Interfaces that sources are written against: FLIP-27, in Python.

A source has an enumerator on the driver, which finds splits and hands them out, and readers in the tasks. A reader must be
deterministic: given the same splits (which carry their position) and asked for the same number of records, it emits the same
records. That is what lets a task run again after a lost process, and a job restart from a checkpoint, with exact results.
Programs import these names from `flinkish.datastream.connectors.base`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT

if TYPE_CHECKING:
    from flinkish.common.configuration import Configuration
    from flinkish.common.typeinfo import TypeInformation
    from flinkish.datastream.output_tag import OutputTag
    from flinkish.metrics import MetricGroup

T = TypeVar("T")
InT = TypeVar("InT", contravariant=True)


class Boundedness(Enum):
    """Whether a source ends by itself."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class InputStatus(Enum):
    """What a reader answers to `poll_next`."""

    #: There is more: poll again as long as the output has credit.
    MORE_AVAILABLE = "MORE_AVAILABLE"
    #: Nothing now, perhaps later: polled again in a later epoch.
    NOTHING_AVAILABLE = "NOTHING_AVAILABLE"
    #: All assigned splits are read to their end and no more will come.
    END_OF_INPUT = "END_OF_INPUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSplit:
    """A part of a source, with the position up to which it was read.

    Subclass it as a frozen dataclass of plain data (numbers, text, bytes, tuples, dicts, nested dataclasses): splits are stored
    in checkpoints as MessagePack, by msgspec. Classes of the job script will do; an msgspec.Struct has to be in a module.
    """

    split_id: str


@dataclass(frozen=True, slots=True)
class SideOutputRecord:
    """A value for a side output, as a source reader emits it; the runtime routes it to the readers of the tag."""

    tag: OutputTag
    value: Any


SplitT = TypeVar("SplitT", bound=SourceSplit)
AssignedSplitT = TypeVar("AssignedSplitT", bound=SourceSplit, contravariant=True)
CheckpointT = TypeVar("CheckpointT")


class ReaderOutput(Protocol[InT]):
    """Takes the records of a reader."""

    #: How many records the reader may still emit in this epoch. Emitting a few more is allowed, stopping early too.
    credit: int

    def collect(self, value: InT, timestamp: int | None = None) -> None:
        """Emit a record of the split that was selected last, with its event time in milliseconds if the source knows it."""
        ...

    def collect_all(self, values: Iterable[InT]) -> None:
        """Emit records without timestamps; takes two thirds of the time of as many calls of `collect`."""
        ...

    def select_split(self, split_id: str) -> None:
        """Say which split the next records belong to: watermarks are generated per split. Needed with several splits only."""
        ...

    def split_finished(self, split_id: str) -> None:
        """Say that a split is read to its end, so that it no longer holds back the watermark."""
        ...

    def emit_watermark(self, timestamp: int) -> None:
        """Say that no record of the split selected last with event time <= `timestamp` (milliseconds) is to come.

        Only for a source with `emits_watermarks`, else SourceError. It counts besides what the program's WatermarkStrategy
        generates; the highest one does. In batch mode nothing comes of it. Source: Flink's SourceOutput.
        """
        ...

    def mark_idle(self) -> None:
        """Say that the split selected last is idle; its next watermark makes it active, see `emit_watermark`.

        So does its next record, but at the end of the epoch only.
        """
        ...

    def mark_active(self) -> None:
        """Say that the split selected last holds back the watermark again; see `emit_watermark`."""
        ...


class SourceReaderContext(Protocol):
    """What a reader may know of the task it runs in."""

    configuration: Configuration
    subtask_index: int
    parallelism: int
    metric_group: MetricGroup

    def processing_time(self) -> int:
        """Return the processing time of this epoch in milliseconds; the same again if the epoch is run again."""
        ...


class SourceReader(ABC, Generic[T, SplitT]):
    """Reads splits in one subtask."""

    def start(self) -> None:
        """Get ready; called once before any split is added."""

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Take over splits, each to be read from the position it carries."""

    def notify_no_more_splits(self) -> None:
        """Learn that no split will be added any more."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        """Emit one or more records, at most about `output.credit`."""

    @abstractmethod
    def snapshot_state(self) -> Sequence[SplitT]:
        """Return the unfinished splits with their present positions; called at the end of every epoch."""

    def close(self) -> None:
        """Release files and connections."""


class SplitEnumeratorContext(Protocol[AssignedSplitT]):
    """What an enumerator may do."""

    parallelism: int
    configuration: Configuration

    def assign_split(self, split: AssignedSplitT, subtask: int) -> None:
        """Give a split to the reader of a subtask (0-based)."""
        ...

    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell a reader that it gets no more splits."""
        ...

    def is_reading(self, subtask: int) -> bool:
        """Return whether a reader has splits that it has not read to their end, as of the last epoch."""
        ...

    def call_async(
        self,
        work: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        *,
        initial_delay: int = 0,
        period: int | None = None,
    ) -> None:
        """Run `work` in another thread, then `handler` with its result or error in the coordinator's.

        Times are milliseconds; with a `period` again and again. An error raised by the handler fails the job.
        """
        ...


class SplitEnumerator(ABC, Generic[SplitT, CheckpointT]):
    """Finds splits and hands them out; runs on the driver, all calls from one thread at a time."""

    def start(self) -> None:
        """Begin; called once, after construction or restore."""

    def handle_split_request(self, subtask: int) -> None:
        """A reader has read all it was given (also called once for each reader at the start, if it has no split)."""

    def add_splits_back(self, splits: Sequence[SplitT], subtask: int) -> None:
        """Take back the splits of a reader, at the positions of the checkpoint, to hand them out anew.

        Called for every unfinished split of a checkpoint that is restored, before `start`.
        """
        raise NotImplementedError(f"{type(self).__name__} must take back splits to be restored from a checkpoint")

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> CheckpointT:
        """Return what is needed to go on: the splits not assigned yet and what was discovered; plain data as for splits."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete; at most once for each id."""

    def close(self) -> None:
        """Release what is held."""


class Source(ABC, Generic[T, SplitT, CheckpointT]):
    """A source: immutable and picklable; makes the working parts."""

    get_java_function = AbsentMember(JAVA_OBJECT)

    #: Whether its readers call `emit_watermark`, `mark_idle` or `mark_active`, because the source knows its watermarks itself.
    emits_watermarks: bool = False

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the source ends by itself."""

    @property
    @abstractmethod
    def split_type(self) -> type[SplitT]:
        """The dataclass of the splits, for decoding those of a checkpoint."""

    @property
    @abstractmethod
    def enumerator_checkpoint_type(self) -> Any:
        """The type of the enumerator's snapshot, as msgspec understands it."""

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext[SplitT]) -> SplitEnumerator[SplitT, CheckpointT]:
        """Make the enumerator of a fresh start."""

    @abstractmethod
    def restore_enumerator(
        self, context: SplitEnumeratorContext[SplitT], checkpoint: CheckpointT
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """Make the enumerator that goes on from a checkpoint."""

    def check_restored(self, splits: Sequence[SplitT], checkpoint: CheckpointT | None, *, trusted: bool) -> None:
        """Raise ForeignCheckpointError if a checkpoint holds what this source would never read, such as files elsewhere.

        Called on the driver before anything is restored. `splits` are those that readers had; `trusted` if our key signed the
        checkpoint, else somebody else may have made it up (execution.state-recovery.allow-untrusted).
        """

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, SplitT]:
        """Make a reader, in the task."""

    def produced_type(self) -> TypeInformation | None:
        """Type of the records if the source knows it; None: what the program declares, else pickled objects."""
        return None

    def validate(self) -> None:
        """Raise a named error if the source cannot work as configured; called when the job is built."""


class DriverReader(Protocol):
    """Reads on the driver what cannot be read again, such as a socket; its records travel with the commands to subtask 0."""

    def poll(self, limit: int) -> tuple[Sequence[Any], bool]:
        """Return up to `limit` records that are there now, and whether the input has ended. Does not block."""
        ...

    def wait(self, timeout: int) -> None:
        """Block for at most `timeout` milliseconds until `poll` may have something."""
        ...

    def close(self) -> None: ...


class DriverSource(ABC, Generic[T]):
    """A source that cannot be read twice: read on the driver, by one reader. Records in flight at a failure are lost."""

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the source ends by itself."""

    @abstractmethod
    def create_driver_reader(self, configuration: Configuration) -> DriverReader:
        """Make the reader, on the driver, when an attempt starts."""

    def produced_type(self) -> TypeInformation | None:
        """Type of the records if the source knows it."""
        return None

    def validate(self) -> None:
        """Raise a named error if the source cannot work as configured; called when the job is built."""
