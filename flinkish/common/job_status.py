"""JobStatus."""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """Where a job stands; Flink's states and numbers."""

    #: Newly made, no task has run.
    CREATED = 0
    RUNNING = 1
    #: Failed; waits until it is cleaned up.
    FAILING = 2
    #: Failed for good.
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    #: Between the failure of an attempt and the next attempt.
    RESTARTING = 7
    #: Stopped, but another process may go on with it.
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job has ended and nobody will go on with it."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether the job has ended in this process."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()
