"""Answers about the checkpoints of a job; sizes are bytes, times and durations milliseconds, unknown times -1."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

from flinkish.server.answers.wire import Wire

T = TypeVar("T")


class Statistics(Wire, frozen=True, kw_only=True):
    """A distribution; percentiles without samples are the text "NaN"."""

    min: int
    max: int
    avg: int
    p50: float | str
    p90: float | str
    p95: float | str
    p99: float | str
    p999: float | str


class Counts(Wire, frozen=True, kw_only=True):
    """Numbers of checkpoints since this process took over the job."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class Summary(Wire, frozen=True, kw_only=True):
    """Distributions over the completed checkpoints of the history."""

    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    alignment_buffered: Statistics
    processed_data: Statistics
    persisted_data: Statistics


class VertexCheckpoint(Wire, frozen=True, kw_only=True):
    """Flink's TaskCheckpointStatistics: a checkpoint's part of one vertex."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int


class Checkpoint(VertexCheckpoint, frozen=True, kw_only=True):
    """Flink's CheckpointStatistics in its three forms, which `className` distinguishes: the same figures of all vertices."""

    className: Literal["completed", "failed", "in_progress"]
    is_savepoint: bool
    savepointFormat: str | None
    trigger_timestamp: int
    checkpoint_type: str
    tasks: dict[str, VertexCheckpoint]
    external_path: str | msgspec.UnsetType = msgspec.UNSET
    discarded: bool | msgspec.UnsetType = msgspec.UNSET
    failure_timestamp: int | msgspec.UnsetType = msgspec.UNSET
    failure_message: str | msgspec.UnsetType | None = msgspec.UNSET


class Restored(Wire, frozen=True, kw_only=True):
    """The checkpoint that the current attempt started from."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class Latest(Wire, frozen=True, kw_only=True):
    """The latest checkpoints of each kind."""

    completed: Checkpoint | None
    savepoint: Checkpoint | None
    failed: Checkpoint | None
    restored: Restored | None


class Checkpoints(Wire, frozen=True, kw_only=True):
    """Flink's CheckpointingStatistics; `history` has the newest first."""

    counts: Counts
    summary: Summary
    latest: Latest
    history: tuple[Checkpoint, ...]


class Externalization(Wire, frozen=True, kw_only=True):
    """Whether checkpoints outlive the job."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(Wire, frozen=True, kw_only=True):
    """Flink's CheckpointConfigInfo."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str = "HashMapStateBackend"
    checkpoint_storage: str
    unaligned_checkpoints: bool = False
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int = 0
    checkpoints_after_tasks_finish: bool = True
    state_changelog_enabled: bool = False
    changelog_periodic_materialization_interval: int = 0
    changelog_storage: str = "memory"


class SnapshotDuration(msgspec.Struct, Generic[T], frozen=True, kw_only=True, rename={"asynchronous": "async"}):
    """How long the parts of a snapshot took: those of one subtask, or their distributions."""

    sync: T
    asynchronous: T


class Alignment(Wire, Generic[T], frozen=True, kw_only=True):
    """How barriers were aligned: those of one subtask, or their distributions."""

    buffered: T
    processed: T
    persisted: T
    duration: T


class SubtaskSummary(Wire, frozen=True, kw_only=True):
    """Distributions over the subtasks of a vertex."""

    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    checkpoint_duration: SnapshotDuration[Statistics]
    alignment: Alignment[Statistics]
    start_delay: Statistics


class SubtaskCheckpoint(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Flink's SubtaskCheckpointStatistics; of a pending subtask only the first three fields."""

    className: Literal["completed", "pending"]
    index: int
    status: str
    ack_timestamp: int | None = None
    end_to_end_duration: int | None = None
    checkpointed_size: int | None = None
    state_size: int | None = None
    checkpoint: SnapshotDuration[int] | None = None
    alignment: Alignment[int] | None = None
    start_delay: int | None = None
    unaligned_checkpoint: bool | None = None
    aborted: bool | None = None


class VertexCheckpointDetails(VertexCheckpoint, frozen=True, kw_only=True):
    """Flink's TaskCheckpointStatisticsWithSubtaskDetails."""

    summary: SubtaskSummary
    subtasks: tuple[SubtaskCheckpoint, ...]
