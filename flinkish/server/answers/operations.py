"""Requests that start long operations, and the results of these operations."""

from __future__ import annotations

from typing import Literal

import msgspec

from flinkish.server.answers.wire import Kebab, Wire


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
