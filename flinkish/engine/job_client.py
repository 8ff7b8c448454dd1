"""The client of a running job: PyFlink's JobClient for a JobMaster in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from typing import Any, TypeVar

from flinkish.checkpoint.statistics import CheckpointFigures
from flinkish.common.completable_future import LONGEST_WAIT_S, CompletableFuture
from flinkish.common.ids import CheckpointId
from flinkish.common.job_client import JobClient
from flinkish.common.job_execution_result import JobExecutionResult
from flinkish.common.job_id import JobID
from flinkish.common.job_status import JobStatus
from flinkish.jobmaster.execution_graph import JobDetails
from flinkish.jobmaster.job_master import JobMaster
from flinkish.jobmaster.job_metrics import JobFigures

T = TypeVar("T")


class _MainThreadFuture(CompletableFuture[T]):
    """A future for which the main thread waits: signals are handled meanwhile, and the former handlers restored after it."""

    def __init__(self, after_wait: Callable[[], None]) -> None:
        super().__init__()
        self._after_wait = after_wait

    def result(self, timeout: float | None = None) -> T:
        try:
            while timeout is None and not self.done():
                wait([self], LONGEST_WAIT_S)
            return super().result(timeout)
        finally:
            if self.done():
                self._after_wait()


class EmbeddedJobClient(JobClient):
    """The client of a JobMaster in this process; it can also be used after the job has ended."""

    def __init__(self, job_master: JobMaster, released: threading.Event, after_wait: Callable[[], None]) -> None:
        self.job_master = job_master
        self._released = released
        self._after_wait = after_wait

    def __repr__(self) -> str:
        setup = self.job_master.setup
        return f"<JobClient of job {setup.job_name!r} ({setup.job_id}): {self.job_master.status.name}>"

    # JobClient

    def get_job_id(self) -> JobID:
        return JobID(self.job_master.setup.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(self.job_master.status)

    def cancel(self) -> CompletableFuture[None]:
        done: _MainThreadFuture[None] = _MainThreadFuture(self._after_wait)
        self.job_master.cancel()
        self.job_master.result.add_done_callback(lambda _: done.set_result(None))
        return done

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        return self.job_master.checkpoints.trigger_savepoint(savepoint_directory, stop=True, drain=advance_to_end_of_event_time)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self.job_master.checkpoints.trigger_savepoint(savepoint_directory)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Request the user metrics of the job, by name.

        Differs from Flink: it returns the metrics of RuntimeContext, because Python functions have no accumulators.
        """
        return CompletableFuture.completed(dict(self.job_master.figures().user))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        result: _MainThreadFuture[JobExecutionResult] = _MainThreadFuture(self._after_wait)
        self.job_master.result.pass_on(result)
        return result

    # Additional methods

    def collect_results(self) -> Iterator[Any]:
        """Return the records of the job's CollectSink, in order; see `executor_loader.ExecutorJobClient`."""
        try:
            yield from self.job_master.results
        finally:
            if self._released.is_set():
                self._after_wait()

    def trigger_checkpoint(self, *, full: bool = False) -> CompletableFuture[CheckpointId]:
        """Take a checkpoint now; the future gets its id, or CheckpointError if it does not complete or the job takes none.

        With `full`, it contains no files of earlier checkpoints, also if checkpoints are incremental.
        """
        return self.job_master.checkpoints.trigger_checkpoint(full=full)

    def checkpoints(self) -> CheckpointFigures:
        """Return the figures of the job's checkpoints and savepoints."""
        return self.job_master.checkpoints.figures()

    def details(self) -> JobDetails:
        """Return the states of the job and of all its subtasks."""
        return self.job_master.details()

    def figures(self) -> JobFigures:
        """Return the job's figures: records, epochs, watermarks, user metrics."""
        return self.job_master.figures()

    # For signals

    def stop_for_signal(self, name: str) -> None:
        """End the job and keep its checkpoints, because the user may want to resume it."""
        self.job_master.cancel(suspend=True, why=f"it was stopped by {name}")

    def wait_released(self, timeout: float) -> bool:
        """Wait until the job has released everything, for at most `timeout` seconds; return whether it has."""
        return self._released.wait(timeout)
