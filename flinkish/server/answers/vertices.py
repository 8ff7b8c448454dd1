"""Answers about the vertices of a job and their subtasks."""

from __future__ import annotations

import msgspec

from flinkish.server.answers.jobs import Subtasks, UserAccumulator
from flinkish.server.answers.wire import Kebab, Wire


class Aggregated(Kebab, frozen=True, kw_only=True):
    """Statistics over subtasks by metric and by state: min, max, avg, sum, median, p25, p75, p95."""

    metrics: dict[str, dict[str, int]]
    status_duration: dict[str, dict[str, int]]


class SubtaskInfo(Subtasks, frozen=True, kw_only=True):
    """Flink's SubtaskExecutionAttemptDetailsInfo, which has the start under two names."""

    subtask: int
    attempt: int
    endpoint: str
    taskmanager_id: str
    #: Time in each state, in milliseconds.
    status_duration: dict[str, int]
    start_time_: int = msgspec.field(name="start_time")


class VertexInfo(Wire, frozen=True, kw_only=True):
    """Flink's JobVertexDetailsInfo."""

    id: str
    name: str
    parallelism: int
    maxParallelism: int
    now: int
    subtasks: tuple[SubtaskInfo, ...]
    aggregated: Aggregated


class SubtaskTime(Wire, frozen=True, kw_only=True):
    """When a subtask entered each state, in milliseconds since the epoch; 0 = never."""

    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]


class SubtaskTimes(Wire, frozen=True, kw_only=True):
    """Flink's SubtasksTimesInfo."""

    id: str
    name: str
    now: int
    subtasks: tuple[SubtaskTime, ...]


class VertexTaskManager(Subtasks, frozen=True, kw_only=True):
    """The subtasks of a vertex in one process."""

    endpoint: str
    status_counts: dict[str, int]
    taskmanager_id: str
    aggregated: Aggregated


class VertexTaskManagers(Wire, frozen=True, kw_only=True):
    """Flink's JobVertexTaskManagersInfo."""

    id: str
    name: str
    now: int
    taskmanagers: tuple[VertexTaskManager, ...]


class SubtaskBackPressure(Kebab, frozen=True, kw_only=True):
    """The shares of a subtask's time, from 0 to 1."""

    subtask: int
    backpressureLevel: str
    ratio: float
    idleRatio: float
    busyRatio: float
    backpressure_level: str


class BackPressure(Kebab, frozen=True, kw_only=True, omit_defaults=True):
    """Flink's JobVertexBackPressureInfo; for an unknown vertex only the status."""

    status: str
    backpressureLevel: str | None = None
    end_timestamp: int | None = None
    subtasks: tuple[SubtaskBackPressure, ...] | None = None
    backpressure_level: str | None = None


class VertexAccumulators(Kebab, frozen=True, kw_only=True):
    """Flink's JobVertexAccumulatorsInfo."""

    id: str
    user_accumulators: tuple[UserAccumulator, ...]


class AttemptAccumulators(VertexAccumulators, frozen=True, kw_only=True):
    """Flink's SubtaskExecutionAttemptAccumulatorsInfo."""

    subtask: int
    attempt: int


class SubtaskAccumulators(Kebab, frozen=True, kw_only=True):
    """The user metrics of a subtask."""

    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: tuple[UserAccumulator, ...]


class AllSubtaskAccumulators(Wire, frozen=True, kw_only=True):
    """Flink's SubtasksAllAccumulatorsInfo."""

    id: str
    parallelism: int
    subtasks: tuple[SubtaskAccumulators, ...]


class Metric(msgspec.Struct, frozen=True, omit_defaults=True):
    """The name of a metric, and its value as text if the request lists the metric."""

    id: str
    value: str | None = None


class FlameGraph(Wire, frozen=True, kw_only=True):
    """Flink's answer if flame graphs are disabled."""

    endTimestamp: int = -2


class AggregatedMetric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The requested statistics of one metric over subtasks, jobs or task managers."""

    id: str
    min: float | None = None
    max: float | None = None
    avg: float | None = None
    sum: float | None = None
    skew: float | None = None
