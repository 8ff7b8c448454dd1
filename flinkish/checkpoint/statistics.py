"""Figures about checkpoints, for people: REST, the command line, logs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.common.ids import CheckpointId
from flinkish.graph.job_graph import VertexId


class CheckpointStatus(Enum):
    """Flink's words."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskRecord:
    """What one subtask did for a checkpoint; times are milliseconds since the epoch, durations milliseconds, sizes bytes."""

    vertex: VertexId
    subtask: int
    acknowledged_at: int
    state_size: int
    #: The part of it that was written for this checkpoint; the rest is in files of earlier ones.
    checkpointed_size: int
    alignment_ms: float
    #: How long it processed no records.
    snapshot_ms: float
    #: How long its files were written afterwards.
    upload_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """One checkpoint; times are milliseconds since the epoch, durations milliseconds, sizes bytes."""

    checkpoint_id: CheckpointId
    kind: CheckpointKind
    status: CheckpointStatus
    trigger_time: int
    duration: int | None = None
    state_size: int = 0
    checkpointed_size: int = 0
    state_rows: int = 0
    files: int = 0
    acknowledged: int = 0
    subtasks: int = 0
    #: Longest alignment, and longest snapshot with its upload, of a subtask.
    alignment_ms: float = 0.0
    snapshot_ms: float = 0.0
    failure: str | None = None
    external_path: str | None = None
    #: When a checkpoint that did not complete was aborted or failed.
    failed_at: int | None = None
    #: The subtasks that have acknowledged.
    acknowledgements: tuple[SubtaskRecord, ...] = ()
    #: Number of subtasks of each vertex.
    parallelism: Mapping[VertexId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRecord:
    """The checkpoint that the current attempt started from; `restored_at` is milliseconds since the epoch."""

    checkpoint_id: CheckpointId
    restored_at: int
    is_savepoint: bool
    external_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCounts:
    """Numbers of checkpoints since this driver process took over the job."""

    triggered: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFigures:
    """A job's checkpoints at one moment. `history` has those in progress and the last ones that ended, newest first."""

    counts: CheckpointCounts = CheckpointCounts()
    latest_completed: CheckpointRecord | None = None
    latest_failed: CheckpointRecord | None = None
    latest_savepoint: CheckpointRecord | None = None
    restored: RestoredRecord | None = None
    history: tuple[CheckpointRecord, ...] = ()


class CheckpointStatistics:
    """Collects the figures; the coordinator holds its lock during every call."""

    def __init__(self, history: int) -> None:
        """Begin with none; `history` is the number of past checkpoints to keep."""
        self._in_progress: dict[CheckpointId, CheckpointRecord] = {}
        self._past: deque[CheckpointRecord] = deque(maxlen=history)
        #: Numbers, by the names of CheckpointCounts.
        self._counts: Counter[str] = Counter()
        #: The last checkpoint that completed or failed, and the last savepoint.
        self._latest: dict[str, CheckpointRecord] = {}

    def figures(self) -> CheckpointFigures:
        """Return all current figures."""
        in_progress = sorted(self._in_progress.values(), key=lambda record: -record.checkpoint_id)
        counts = CheckpointCounts(**self._counts, in_progress=len(in_progress))
        return CheckpointFigures(
            counts=counts,
            latest_completed=self._latest.get("completed"),
            latest_failed=self._latest.get("failed"),
            latest_savepoint=self._latest.get("savepoint"),
            history=(*in_progress, *self._past),
        )

    def triggered(self, record: CheckpointRecord) -> None:
        """Record a checkpoint that starts."""
        self._counts["triggered"] += 1
        self._in_progress[record.checkpoint_id] = record

    def progressed(self, checkpoint_id: CheckpointId, acknowledgements: tuple[SubtaskRecord, ...]) -> None:
        """Record the subtasks that have acknowledged."""
        self._in_progress[checkpoint_id] = replace(
            self._in_progress[checkpoint_id], acknowledged=len(acknowledgements), acknowledgements=acknowledgements
        )

    def ended(self, record: CheckpointRecord) -> None:
        """Record a checkpoint that completed or failed."""
        self._in_progress.pop(record.checkpoint_id, None)
        self._past.appendleft(record)
        outcome = "completed" if record.status is CheckpointStatus.COMPLETED else "failed"
        self._counts[outcome] += 1
        self._latest[outcome] = record
        if outcome == "completed" and record.kind.is_savepoint:
            self._latest["savepoint"] = record

    def exported(self, record: CheckpointRecord) -> None:
        """Record where the savepoint of a stop is, which ended as a checkpoint of the job."""

        def current(kept: CheckpointRecord) -> CheckpointRecord:
            return record if kept.checkpoint_id == record.checkpoint_id else kept

        self._past = deque(map(current, self._past), self._past.maxlen)
        self._latest = {name: current(kept) for name, kept in self._latest.items()}

    def restored(self) -> None:
        """Record that an attempt started from a checkpoint."""
        self._counts["restored"] += 1
