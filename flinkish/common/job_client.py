"""JobClient: what a program may do with a job that it started without waiting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkish.common.completable_future import CompletableFuture
from flinkish.common.job_execution_result import JobExecutionResult
from flinkish.common.job_id import JobID
from flinkish.common.job_status import JobStatus

__all__ = ["JobClient"]


class JobClient(ABC):
    """Speaks to one job."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Ask where the job stands. Differs from Flink: also answered after the job has ended."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; completes when it has ended."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Take a savepoint and end the job; completes with the savepoint's path.

        With `advance_to_end_of_event_time` the job is drained: a MAX watermark fires all timers before.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job goes on; completes with its path."""

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Ask for the user metrics of the job, by name."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return what completes with the result when the job has finished, or with its failure."""
