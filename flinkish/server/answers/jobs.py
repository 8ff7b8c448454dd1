"""Answers about a job: /jobs, /jobs/overview, /jobs/:jobid and the paths below it, except for vertices and checkpoints."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from flinkish.server.answers.wire import Kebab, Wire


class JobIdWithStatus(Wire, frozen=True, kw_only=True):
    """A job's id and state."""

    id: str
    status: str


class JobIds(Wire, frozen=True, kw_only=True):
    """Flink's JobIdsWithStatusOverview."""

    jobs: tuple[JobIdWithStatus, ...]


class RestartsInfo(Kebab, frozen=True, kw_only=True, omit_defaults=True):
    """The restarts of a job and its last failure. Flink's answers lack this; here only those about a failed job have it.

    Times are milliseconds since the epoch.
    """

    #: Number of times that the job was started again.
    count: int
    #: The last failure in one line, and when it happened.
    last_failure: str
    last_failure_time: int
    #: Since when the job fails again and again; left out if it runs.
    restarting_since: int | None = None


class JobHead(Kebab, frozen=True, kw_only=True):
    """The part of JobSummary and JobInfo that is the same: times are milliseconds since the epoch, `end_time` may be -1."""

    jid: str
    name: str
    schedulerType: str = "Default"
    start_time: int
    end_time: int
    duration: int
    state: str
    pending_operators: int = 0
    restarts: RestartsInfo | msgspec.UnsetType = msgspec.UNSET


class JobSummary(JobHead, frozen=True, kw_only=True):
    """Flink's JobDetails."""

    jobType: str
    last_modification: int
    #: Number of subtasks in each state, in lower case, and their total.
    tasks: dict[str, int]


class JobSummaries(Wire, frozen=True, kw_only=True):
    """Flink's MultipleJobsDetails."""

    jobs: tuple[JobSummary, ...]


class JobStatusInfo(Wire, frozen=True, kw_only=True):
    """A job's state."""

    status: str


class IoMetrics(Kebab, frozen=True, kw_only=True):
    """Flink's IOMetricsInfo: records and bytes; accumulated times are milliseconds."""

    read_bytes: int
    read_bytes_complete: bool = True
    write_bytes: int
    write_bytes_complete: bool = True
    read_records: int
    read_records_complete: bool = True
    write_records: int
    write_records_complete: bool = True
    accumulated_backpressured_time: int
    accumulated_idle_time: int
    accumulated_busy_time: float


class Subtasks(Kebab, frozen=True, kw_only=True):
    """State, times and figures of one subtask, or of some subtasks together; unknown times are -1."""

    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: IoMetrics


class VertexSummary(Subtasks, frozen=True, kw_only=True):
    """Flink's JobVertexDetailsInfo in a job's details."""

    id: str
    slotSharingGroupId: str
    name: str
    maxParallelism: int
    parallelism: int
    tasks: dict[str, int]


class PlanInput(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """An edge of the plan."""

    id: str
    num: int | None = None
    exchange: str
    ship_strategy: str


class PlanNode(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A vertex of the plan; Flink's page requires `operator` and `operator_strategy`."""

    id: str
    operator: str | None = None
    parallelism: int
    operator_strategy: str | None = None
    description: str
    optimizer_properties: dict[str, Any] | None = None
    inputs: tuple[PlanInput, ...] = ()


class Plan(Wire, frozen=True, kw_only=True):
    """Flink's plan of a job, sinks first."""

    jid: str
    name: str
    type: str
    nodes: tuple[PlanNode, ...]


class JobPlan(Wire, frozen=True, kw_only=True):
    """Flink's JobPlanInfo."""

    plan: Plan


class JobInfo(JobHead, frozen=True, kw_only=True):
    """Flink's JobDetailsInfo."""

    application_id: str
    isStoppable: bool = False
    job_type: str
    maxParallelism: int = -1
    now: int
    #: When each state was last entered, in milliseconds since the epoch; 0 = never.
    timestamps: dict[str, int]
    vertices: tuple[VertexSummary, ...]
    #: Number of vertices in each state.
    status_counts: dict[str, int]
    plan: Plan
    #: A sentence about records that were dropped as too late; not a part of Flink's answers, and only if there are some.
    late_records: str | msgspec.UnsetType = msgspec.UNSET


class MetricSeries(Wire, frozen=True, kw_only=True):
    """One figure over time; null where it had no value. Without a vertex it is a figure of the job."""

    vertex: str | None
    metric: str
    #: How the subtasks are combined: min, max or sum.
    aggregation: str
    values: tuple[float | None, ...]


class MetricHistoryInfo(Wire, frozen=True, kw_only=True):
    """Figures of the last hour, every `interval` milliseconds; `times` are milliseconds since the epoch, oldest first."""

    interval: int
    times: tuple[int, ...]
    series: tuple[MetricSeries, ...]


class ExecutionConfigInfo(Kebab, frozen=True, kw_only=True):
    """The settings of the program."""

    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]


class JobConfigInfo(Kebab, frozen=True, kw_only=True):
    """Flink's JobConfigInfo."""

    jid: str
    name: str
    execution_config: ExecutionConfigInfo


class ExceptionInfo(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One failure; those on the driver have no task."""

    exceptionName: str
    stacktrace: str
    timestamp: int
    failureLabels: dict[str, str]
    taskName: str | None = None
    endpoint: str | None = None
    taskManagerId: str | None = None
    concurrentExceptions: tuple[ExceptionInfo, ...] | None = None


class ExceptionHistoryInfo(Wire, frozen=True, kw_only=True):
    """Failures, newest first; `truncated` = there were more."""

    entries: tuple[ExceptionInfo, ...]
    truncated: bool


class JobExceptions(Wire, frozen=True, kw_only=True):
    """Flink's JobExceptionsInfoWithHistory."""

    exceptionHistory: ExceptionHistoryInfo


class UserAccumulator(Wire, frozen=True, kw_only=True):
    """A user metric."""

    name: str
    type: str
    value: str


class JobAccumulators(Kebab, frozen=True, kw_only=True):
    """Flink's JobAccumulatorsInfo."""

    job_accumulators: tuple[msgspec.Raw, ...] = ()
    user_task_accumulators: tuple[UserAccumulator, ...] = ()
    serialized_user_task_accumulators: dict[str, str] = msgspec.field(default_factory=dict)


class FailureCause(Kebab, frozen=True, kw_only=True):
    """Why an operation failed; Flink's command line reads the Java form."""

    class_: str = msgspec.field(name="class")
    stack_trace: str
    serialized_throwable: str


class QueueStatus(Wire, frozen=True, kw_only=True):
    """Whether an operation, or a job, has ended; as in Flink, one that has failed is COMPLETED, too."""

    id: Literal["IN_PROGRESS", "COMPLETED"]


class OperationResult(Wire, frozen=True, kw_only=True):
    """Flink's AsynchronousOperationResult; `operation` is one of the structs below, or None while it runs."""

    status: QueueStatus
    operation: OperationInfo | None = None


class OperationInfo(Kebab, frozen=True, kw_only=True, omit_defaults=True):
    """The result of an operation: the path of a savepoint, the id of a checkpoint, an empty object, or the failure."""

    location: str | None = None
    checkpointId: int | None = None
    failure_cause: FailureCause | None = None


class Triggered(Kebab, frozen=True, kw_only=True):
    """Flink's TriggerResponse."""

    request_id: str


class SavepointRequest(Kebab, frozen=True, kw_only=True):
    """Flink's SavepointTriggerRequestBody."""

    target_directory: str | None = None
    cancel_job: bool = False
    formatType: Literal["CANONICAL", "NATIVE"] | None = None
    triggerId: str | None = None


class StopRequest(Wire, frozen=True, kw_only=True):
    """Flink's StopWithSavepointRequestBody."""

    targetDirectory: str | None = None
    drain: bool = False
    formatType: Literal["CANONICAL", "NATIVE"] | None = None
    triggerId: str | None = None


class CheckpointRequest(Wire, frozen=True, kw_only=True):
    """Flink's CheckpointTriggerRequestBody."""

    checkpointType: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = None
    triggerId: str | None = None


class DisposalRequest(Kebab, frozen=True, kw_only=True):
    """Flink's SavepointDisposalRequest."""

    savepoint_path: str | None = None


class HeartbeatRequest(Wire, frozen=True, kw_only=True):
    """Flink's JobClientHeartbeatRequestBody; milliseconds since the epoch."""

    expiredTimestamp: int


class ExecutionResult(Kebab, frozen=True, kw_only=True):
    """Flink's JobResult; `net_runtime` is milliseconds."""

    id: str
    name: str
    application_status: str
    accumulator_results: dict[str, str] = msgspec.field(default_factory=dict)
    net_runtime: int
    failure_cause: FailureCause | msgspec.UnsetType = msgspec.UNSET
    application_id: str
    start_time: int
    end_time: int


class JobExecutionResultInfo(Kebab, frozen=True, kw_only=True, omit_defaults=True):
    """Flink's JobExecutionResultResponseBody."""

    status: QueueStatus
    job_execution_result: ExecutionResult | None = None
