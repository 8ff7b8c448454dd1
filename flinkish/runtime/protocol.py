"""What the driver and the slots say to each other: commands down, reports up, frames between slots.

All of it is plain frozen data. It is pickled for transport (see common/pickling.py): it never leaves the trust domain of one
attempt.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flinkish.common.ids import AttemptId, CheckpointId, Epoch, LineageId, OperatorUid
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.dependencies import NO_DEPENDENCIES, Dependencies

if TYPE_CHECKING:
    from flinkish.common.configuration import Configuration

MIN_WATERMARK = LONG_MIN
MAX_WATERMARK = LONG_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgram:
    """All that a slot must know to run its part of one attempt; pickled by value once and sent to each slot host."""

    plan: ExecutionPlan
    configuration: Configuration
    job_id: str
    lineage: LineageId
    job_name: str
    attempt_id: AttemptId
    #: Segment files go here; every slot must reach it. Removed by the engine when the attempt ends.
    scratch: Path
    #: The same on disk, for records of a batch that do not fit into memory; None: they have to.
    spill: Path | None = None
    #: Files for user functions.
    dependencies: Dependencies = NO_DEPENDENCIES
    #: The Python interpreter of the tasks where they have processes of their own; None: that of the engine.
    python_executable: str | None = None

    def remove_folders(self) -> None:
        """Remove what the attempt has written; for the engine, when it has ended."""
        for folder in (self.scratch, self.spill):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


class Frame(NamedTuple):
    """One row between slots: a stretch of one channel.

    `slot` and `level` say where it goes, `edge` and `channel` (the sending subtask) where it comes from; frames of a channel are
    taken in the order of `seq`.
    """

    slot: int
    level: int
    edge: int
    channel: int
    seq: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitState:
    """A split at a position: `split` is MessagePack of the source's split type, `generator` its watermark generator's state."""

    split_id: str
    split: bytes
    generator: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCommand:
    """What one source subtask is to do in an epoch. `splits` are all that it owns, at their positions: the truth."""

    splits: tuple[SplitState, ...]
    #: At most about so many records.
    credit: int
    no_more_splits: bool
    #: The reader said END_OF_INPUT in an earlier epoch of this attempt.
    finished: bool = False
    #: How far its watermark may be when more is read, in milliseconds: that of the slowest reader of its alignment group and the
    #: allowed drift. None: any.
    max_watermark: int | None = None
    #: Records of a source that is read on the driver.
    records: tuple[Any, ...] = ()
    end_of_records: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """A checkpoint to take at the end of this epoch's input; state files go into `directory`, named uniquely by the writer."""

    checkpoint_id: CheckpointId
    timestamp: int
    directory: str
    #: What `StateFile.path` is relative to.
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A Parquet file of state rows, as listed in a checkpoint's manifest."""

    #: Relative to the root of the checkpoint's table.
    path: str
    size: int
    sha256: str
    rows: int
    #: Operators that have rows in it.
    operator_uids: tuple[str, ...]
    #: Smallest and largest key group in it, inclusive; (-1, -1) for operator state only.
    key_groups: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The checkpoint to restore from in the first epoch of an attempt; nobody verified its files yet: check before decoding."""

    checkpoint_id: CheckpointId
    root: str
    files: tuple[StateFile, ...]
    #: Whether the manifest's signature was good, so that pickled values may be decoded.
    pickle_allowed: bool
    #: Parallelism of each operator when the checkpoint was taken.
    parallelism: Mapping[OperatorUid, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommand:
    """What all slots are to do in one epoch."""

    attempt_id: AttemptId
    #: 0 for the first attempt of the job; what RuntimeContext.get_attempt_number shows.
    attempt_number: int
    epoch: Epoch
    #: Milliseconds; what every task takes for now, also when it is run again.
    processing_time: int
    #: Milliseconds of a clock that nobody sets, to be compared within one attempt only.
    steady_time: int = 0
    readers: Mapping[tuple[OperatorUid, int], ReaderCommand] = field(default_factory=dict)
    #: State of level 0 by slot: what its report of the epoch before carried.
    carry_over: Mapping[int, bytes] = field(default_factory=dict)
    barrier: Barrier | None = None
    completed_checkpoints: tuple[CheckpointId, ...] = ()
    aborted_checkpoints: tuple[CheckpointId, ...] = ()
    restore: Restore | None = None
    #: About so many of the records that a task of a batch holds back may go on in this epoch; None: all.
    release: int | None = None
    #: Stop-with-savepoint --drain: sources end here, as if their input had.
    drain: bool = False
    #: The last epoch of a job that has come to its end: nothing runs. Functions learn which checkpoints are complete, and all
    #: that was opened is closed; what a close() raises is a failure.
    farewell: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderReport:
    """Where a source subtask stands after an epoch."""

    splits: tuple[SplitState, ...]
    records: int
    #: The last answer of poll_next: True for MORE_AVAILABLE.
    more_available: bool
    finished: bool
    #: The reader has nothing left to read and asks for a split.
    wants_split: bool
    #: What it has emitted last, in milliseconds; None before the first watermark and while it is idle.
    watermark: int | None = None
    #: It did not read on because its watermark is further than `max_watermark`.
    held_back: bool = False
    #: It is not idle, and may fall idle by time alone: it has to be asked again.
    awaits_idleness: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """One subtask's part of a checkpoint."""

    checkpoint_id: CheckpointId
    vertex: VertexId
    subtask: int
    files: tuple[StateFile, ...]
    #: MessagePack of what each sink writer of the chain prepared, by operator.
    committables: Mapping[OperatorUid, tuple[bytes, ...]] = field(default_factory=dict)
    #: From the first barrier on a channel of the subtask to the last one; 0 for a source.
    alignment_ms: float = 0.0
    snapshot_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline:
    """A subtask could not take a checkpoint; the job goes on."""

    checkpoint_id: CheckpointId
    vertex: VertexId
    subtask: int
    reason: str
    #: As in Acknowledgement: writers have forgotten what they prepared, so it goes into the next checkpoint that completes.
    committables: Mapping[OperatorUid, tuple[bytes, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """User code, a source or a sink raised; the attempt fails. `error` is the exception itself if it pickles."""

    vertex: VertexId
    subtask: int
    operator_uid: OperatorUid
    operator_name: str
    #: With the frames of flinkish.
    traceback: str
    error: BaseException | None = None
    #: The same with the frames of the program only.
    shown: str = ""
    #: The record that was processed, or why there is none.
    at: str = ""
    #: `file:line` of the program that made the operator.
    made_at: str | None = None
    #: Raised by a close() in the last epoch, when everything else was done.
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
    #: About; on edges, and to the driver.
    bytes_out: int = 0
    #: What the sinks of the chain took.
    records_written: int = 0
    #: Of all operators of the chain, in their order; `watermark` is that of the first one.
    watermarks: tuple[int, ...] = ()
    late_records: int = 0
    #: All inputs have ended and everything was emitted.
    finished: bool = False
    #: User metrics by dotted name.
    user: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverValues:
    """What a sink writer sent to the driver: printed lines, collected records."""

    operator_uid: OperatorUid
    subtask: int
    #: What the driver does with them; see `SinkWriterContext.emit_to_driver`.
    destination: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """What one slot did at one level in one epoch."""

    epoch: Epoch
    level: int
    slot: int
    readers: Mapping[tuple[OperatorUid, int], ReaderReport] = field(default_factory=dict)
    acknowledgements: tuple[Acknowledgement, ...] = ()
    declines: tuple[Decline, ...] = ()
    #: Committables of sinks in a job without checkpoints, when the input has ended: operator, subtask, MessagePack of each.
    final_committables: tuple[tuple[OperatorUid, int, tuple[bytes, ...]], ...] = ()
    driver_values: tuple[DriverValues, ...] = ()
    metrics: tuple[VertexMetrics, ...] = ()
    #: Most records that a task of a batch held back before and handed on in this epoch.
    released: int = 0
    #: A task holds back records that may go on in the next epoch.
    holds: bool = False
    #: A function, reader or writer that is open has a close() of its own, so that the job needs a last epoch to call it.
    closes: bool = False
    #: When the earliest processing-time timer is due, in milliseconds.
    next_timer: int | None = None
    #: State of level 0, to be handed back in the next command.
    carry_over: bytes | None = None
    failure: TaskFailure | None = None
    #: Versions and sizes of the process, in the first report of a slot host.
    process: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """What a slot gives back for one level of one epoch."""

    frames: tuple[Frame, ...]
    state: bytes
    report: EpochReport
