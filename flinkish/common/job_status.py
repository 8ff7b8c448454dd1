"""JobStatus."""

from __future__ import annotations

from enum import Enum


class JobStatus(Enum):
    """The status of a job, with Flink's names and numbers."""

    #: Created; no task has run yet.
    CREATED = 0
    RUNNING = 1
    #: Failed; waits for its cleanup.
    FAILING = 2
    #: Failed, and not restarted.
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    #: Between the failure of an attempt and the next attempt.
    RESTARTING = 7
    #: Stopped in this process; another process may resume it.
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job has ended and no process will resume it."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether the job has ended in this process."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()
