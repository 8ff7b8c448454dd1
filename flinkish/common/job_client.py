"""JobClient: the handle of a job that a program started by execute_async()."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkish.common.completable_future import CompletableFuture
from flinkish.common.job_execution_result import JobExecutionResult
from flinkish.common.job_id import JobID
from flinkish.common.job_status import JobStatus


class JobClient(ABC):
    """The handle of one job; every request returns a future."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Ask for the job's status.

        Differs from Flink: the status is also available after the job has ended.
        """

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; the future completes when the job has ended."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Take a savepoint and stop the job; the future completes with the savepoint's path.

        With `advance_to_end_of_event_time` the job is drained first: a MAX watermark fires all event-time timers. The savepoint
        is written below `savepoint_directory`, by default below the folder of execution.checkpointing.savepoint-dir.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job continues; the future completes with the savepoint's path.

        It is written below `savepoint_directory`, by default below the folder of execution.checkpointing.savepoint-dir.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Ask for the user metrics of the job, by name."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return a future that completes with the job's result when it has finished, or with its error when it has failed."""
