"""The messages between the driver and the slots: commands to slots, reports to the driver, frames between slots.

All of them are plain frozen data. They are pickled for transport (see common/pickling.py), which is safe because they never leave
the trust domain of one attempt.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from flinkish.common.configuration import Configuration
from flinkish.common.ids import AttemptId, CheckpointId, Epoch, LineageId, OperatorUid
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import VertexId
from flinkish.program.program import CachedFile, PythonArchive, PythonRequirements
from flinkish.program.sinks import Sink

MIN_WATERMARK = LONG_MIN
MAX_WATERMARK = LONG_MAX
NO_CHECKPOINT: Final = CheckpointId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The dependencies of a program; all paths are absolute paths on the driver's machine."""

    python_files: tuple[str, ...] = ()
    archives: tuple[PythonArchive, ...] = ()
    cached_files: tuple[CachedFile, ...] = ()
    #: A zip file with modules of the program that this process has on its sys.path; tasks on other machines need them, too.
    own_modules: str | None = None
    requirements: PythonRequirements | None = None
    #: Folder into which the required packages are installed; every slot must be able to access it.
    packages: str | None = None

    @property
    def files(self) -> Dependencies:
        """The dependencies that the driver copies to a folder that all slots can access: all but the program's own modules."""
        return replace(self, own_modules=None)

    @property
    def needs_working_folder(self) -> bool:
        """Whether tasks need a working folder: there are archives or cached files."""
        return bool(self.archives or self.cached_files)


NO_DEPENDENCIES: Final = Dependencies()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgram:
    """The program of one attempt, as slots need it to run their parts; pickled by value once and sent to each slot host."""

    plan: ExecutionPlan
    configuration: Configuration
    job_id: str
    lineage: LineageId
    job_name: str
    attempt_id: AttemptId
    #: Folder for segment files, which every slot must be able to access. The engine removes it when the attempt ends.
    scratch: Path
    #: Folder on disk for records of a batch that do not fit into memory, and for keyed state; None = it is all in memory.
    disk: Path | None = None
    #: Writes dead letters; None if the job has no table for them.
    dead_letters: Sink[Any, Any] | None = None
    #: Files that user functions need.
    dependencies: Dependencies = NO_DEPENDENCIES
    #: The Python interpreter of the tasks if they have their own processes; None = that of the engine.
    python_executable: str | None = None
    #: Whether every slot will need Arrow: for checkpoints or columns.
    uses_arrow: bool = False

    def moved_to(self, folder: Path) -> TaskProgram:
        """Return the program with all its folders in another one, for slots that cannot access those of the driver."""
        return replace(self, scratch=folder, disk=None if self.disk is None else folder / "disk")

    def remove_folders(self) -> None:
        """Remove the attempt's folders; called by the engine when the attempt has ended."""
        for folder in (self.scratch, self.disk):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


class Frame(NamedTuple):
    """One row between slots: consecutive elements of one channel.

    `slot` and `level` are the destination, `edge` and `channel` (the sending subtask) the origin; `seq` is the order of the
    frames of a channel.
    """

    slot: int
    level: int
    edge: int
    channel: int
    seq: int
    body: bytes


def native_edge(vertex: VertexId) -> int:
    """Return the `edge` of frames that bring a vertex what the engine read for its source; `channel` is Spark's partition.

    Their bodies are Arrow's IPC stream format. Ids of vertices begin at 1 and -1 has a meaning of its own (shim.py).
    """
    return -1 - vertex


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitState:
    """A split at a position: `split` is MessagePack of the source's split type, `generator` its watermark generator's state."""

    split_id: str
    split: bytes
    generator: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCommand:
    """The command to one source subtask for an epoch. `splits` has all of its splits, at their authoritative positions."""

    splits: tuple[SplitState, ...]
    #: Approximate maximum number of records to read.
    credit: int
    no_more_splits: bool
    #: Whether the reader reported END_OF_INPUT in an earlier epoch of this attempt.
    finished: bool = False
    #: The watermark up to which it may read more, in milliseconds: that of the slowest reader of its alignment group plus the
    #: allowed drift. None = no limit.
    max_watermark: int | None = None
    #: Records of a source that is read on the driver.
    records: tuple[Any, ...] = ()
    end_of_records: bool = False
    #: For a source that the engine reads: the watermark that all its subtasks have reached before this epoch (None = none yet),
    #: and whether all of them are idle.
    watermark: int | None = None
    idle: bool = False
    #: Limits up to which splits may be read, by their ids; None = no limits. See SplitEnumerator.split_limits.
    limits: dict[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """A checkpoint to take at the end of this epoch's input; state files go into `directory`, named uniquely by the writer."""

    checkpoint_id: CheckpointId
    timestamp: int
    directory: str
    #: The folder to which `StateFile.path` is relative.
    root: str
    #: Whether the epoch lasts until the state files are written, because no later epoch could acknowledge them.
    waits: bool = False
    #: Whether it may contain files of the checkpoint it is based on, and later ones may contain its files.
    incremental: bool = False
    #: The last completed checkpoint, on which an incremental one may be based; None if there is none.
    base: CheckpointId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A Parquet file of state rows, as listed in a checkpoint's manifest."""

    #: Relative to the root of the checkpoint's table.
    path: str
    size: int
    sha256: str
    rows: int
    #: The operators that have rows in the file.
    operator_uids: tuple[str, ...]
    #: Smallest and largest key group in it, inclusive; (-1, -1) for operator state only.
    key_groups: tuple[int, int]
    #: The checkpoint that it was written for: its rows replace equal ones in files of earlier checkpoints. 0: an earlier version
    #: of flinkish wrote it.
    checkpoint_id: CheckpointId = NO_CHECKPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The checkpoint to restore from in the first epoch of an attempt; its files must be verified before they are decoded."""

    checkpoint_id: CheckpointId
    root: str
    files: tuple[StateFile, ...]
    #: Whether the manifest's signature is valid, so that pickled values may be decoded.
    pickle_allowed: bool
    #: Parallelism of each operator when the checkpoint was taken.
    parallelism: Mapping[OperatorUid, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommand:
    """The command to all slots for one epoch."""

    attempt_id: AttemptId
    #: 0 for the first attempt of the job; the value of RuntimeContext.get_attempt_number.
    attempt_number: int
    epoch: Epoch
    #: The current time of every task in milliseconds, also when the epoch is run again.
    processing_time: int
    #: Milliseconds of a monotonic clock, to be compared within one attempt only.
    steady_time: int = 0
    readers: Mapping[tuple[OperatorUid, int], ReaderCommand] = field(default_factory=dict)
    #: State of level 0 by slot, from the reports of the epoch before.
    carry_over: Mapping[int, bytes] = field(default_factory=dict)
    barrier: Barrier | None = None
    #: The checkpoint whose barrier comes in this epoch or in the next one that has a barrier; None if the job takes none.
    next_checkpoint: CheckpointId | None = None
    completed_checkpoints: tuple[CheckpointId, ...] = ()
    aborted_checkpoints: tuple[CheckpointId, ...] = ()
    restore: Restore | None = None
    #: Approximate maximum of held-back records that a task of a batch may release in this epoch; None = no limit.
    release: int | None = None
    #: Stop-with-savepoint --drain: sources end now, as if their input had ended.
    drain: bool = False
    #: Whether it is the last epoch of a job that has ended, in which no records are processed: functions are notified of
    #: completed checkpoints, and everything that was opened is closed; an error of a close() is a failure.
    farewell: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderReport:
    """The status of a source subtask after an epoch."""

    splits: tuple[SplitState, ...] = ()
    records: int = 0
    #: Whether the last result of poll_next was MORE_AVAILABLE.
    more_available: bool = False
    finished: bool = False
    #: Whether the reader has nothing left to read and requests a split.
    wants_split: bool = False
    #: The last emitted watermark in milliseconds; None before the first watermark and while it is idle.
    watermark: int | None = None
    #: Whether it stopped because its watermark has passed `max_watermark`.
    held_back: bool = False
    #: The lowest watermark of the splits that are paused because they have passed `max_watermark`, if the reader itself has not.
    paused_from: int | None = None
    #: Whether it is active but may become idle just because time passes, so that it has to be polled again.
    awaits_idleness: bool = False
    #: For a source that the engine reads: whether this subtask got nothing for as long as its strategy allows.
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPart:
    """A subtask's answer to a checkpoint."""

    checkpoint_id: CheckpointId
    vertex: VertexId
    subtask: int
    #: The committables that each sink writer of the chain prepared, as MessagePack, by operator. Writers have forgotten them, so
    #: those of a declined checkpoint go into the next one that completes.
    committables: Mapping[OperatorUid, tuple[bytes, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement(CheckpointPart):
    """One subtask's part of a checkpoint."""

    files: tuple[StateFile, ...]
    #: Time between the first and the last barrier on the channels of the subtask; 0 for a source.
    alignment_ms: float = 0.0
    #: Time from the barrier until records were processed again, and from then on until the files were written.
    snapshot_ms: float = 0.0
    upload_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline(CheckpointPart):
    """States that a subtask could not take a checkpoint; the job continues."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """An error of user code, a source or a sink; the attempt fails. `error` is the exception itself if it can be pickled."""

    vertex: VertexId
    subtask: int
    operator_uid: OperatorUid
    operator_name: str
    #: The traceback including the frames of flinkish.
    traceback: str
    error: BaseException | None = None
    #: The traceback with the frames of the program only.
    shown: str = ""
    #: The record that was processed, or why there is none.
    at: str = ""
    #: `file:line` of the program that made the operator.
    made_at: str | None = None
    #: Whether a close() raised it in the last epoch, when everything else was done.
    in_close: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexMetrics:
    """Counts of one subtask in one epoch."""

    vertex: VertexId
    subtask: int
    records_in: int
    records_out: int
    busy_ms: float
    watermark: int
    #: When it ended, counted from the command's processing time, by the clock of its machine.
    ended_ms: float = 0.0
    #: Approximate number of bytes sent on edges and to the driver.
    bytes_out: int = 0
    #: Number of bytes of the frames that came in; of records that stay within a slot, the approximate number that were sent.
    bytes_in: int = 0
    #: Number of records that the sinks of the chain took.
    records_written: int = 0
    #: Watermarks of all operators of the chain, in their order; `watermark` is that of the first one.
    watermarks: tuple[int, ...] = ()
    late_records: int = 0
    #: Whether all inputs have ended and everything has been emitted.
    finished: bool = False
    #: User metrics by dotted name.
    user: Mapping[str, Any] = field(default_factory=dict)
    #: Names and labels of those in groups of a key and a value; see `metrics.registry.Labelled`.
    labelled: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=dict)


#: Destination on the driver of warnings about an operator, each a text; the driver logs the first of each operator.
WARNING: Final = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverValues:
    """Values that a sink writer sent to the driver: printed lines, or collected records."""

    operator_uid: OperatorUid
    subtask: int
    #: Decides what the driver does with the values; see `SinkWriterContext.emit_to_driver`.
    destination: str
    values: tuple[Any, ...]
    #: The watermark before the values, in milliseconds, if their order among those of all subtasks depends on it.
    watermark: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """The report of one slot about one level in one epoch."""

    epoch: Epoch
    level: int
    slot: int
    readers: Mapping[tuple[OperatorUid, int], ReaderReport] = field(default_factory=dict)
    acknowledgements: tuple[Acknowledgement, ...] = ()
    declines: tuple[Decline, ...] = ()
    #: The subtasks that still write their parts of checkpoints; the acknowledgements or declines come with later reports.
    uploading: tuple[CheckpointPart, ...] = ()
    #: Committables of sinks in a job without checkpoints, when the input has ended: operator, subtask, MessagePack of each.
    final_committables: tuple[tuple[OperatorUid, int, tuple[bytes, ...]], ...] = ()
    driver_values: tuple[DriverValues, ...] = ()
    metrics: tuple[VertexMetrics, ...] = ()
    #: Maximum number of held-back records that a task of a batch released in this epoch.
    released: int = 0
    #: Whether a task holds back records that may be released in the next epoch.
    holds: bool = False
    #: Whether an open function, reader or writer defines close(), so that the job needs a last epoch to call it.
    closes: bool = False
    #: When the earliest processing-time timer is due, in milliseconds.
    next_timer: int | None = None
    #: State of level 0, to be returned in the next command.
    carry_over: bytes | None = None
    failure: TaskFailure | None = None
    #: Where the process of the slot runs, and its versions.
    process: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """The result of running one level in one slot for one epoch."""

    frames: tuple[Frame, ...]
    state: bytes
    report: EpochReport
