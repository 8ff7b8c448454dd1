"""The list of jobs that run in this process, by id: for signals, a server and the command line.

A job is in the list from before its first attempt until it has released everything. Any thread may use its client, also after the
job has ended: status, details, figures, checkpoints, cancel, savepoint, stop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from flinkish.common.errors import JobNotFoundError
from flinkish.common.job_id import JobID
from flinkish.engine.job_client import EmbeddedJobClient

_log = logging.getLogger("flinkish.engine.job_list")


class JobListener(Protocol):
    """Is notified of jobs that start and end. Its errors are logged and do not affect the jobs."""

    def job_started(self, job: EmbeddedJobClient) -> None:
        """Handle a job that was added to the list; called by the thread that starts it, before its first attempt."""

    def job_ended(self, job: EmbeddedJobClient) -> None:
        """Handle a job that has released everything and left the list; called by the job's thread, before its result is set."""


class JobList:
    """Running jobs, oldest first; all methods may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The tuple is replaced, never changed, so readers need no lock: a signal handler may interrupt a thread that has it.
        self._jobs: tuple[EmbeddedJobClient, ...] = ()
        self._listeners: tuple[JobListener, ...] = ()

    def running(self) -> tuple[EmbeddedJobClient, ...]:
        """Return the clients of all running jobs, oldest first."""
        return self._jobs

    def get(self, job_id: JobID | str) -> EmbeddedJobClient:
        """Return the client of a running job.

        If two have the same id, because a program was started again under its cluster id, it is the one started last. Raises
        JobNotFoundError if none runs.
        """
        wanted = str(job_id)
        for job in reversed(self._jobs):
            if str(job.get_job_id()) == wanted:
                return job
        running = ", ".join(str(job.get_job_id()) for job in self._jobs) or "none"
        raise JobNotFoundError(f"no job {wanted} runs in this process", hint=f"running jobs: {running}.")

    def subscribe(self, listener: JobListener) -> None:
        """Notify a listener of all jobs that start or end from now on; call `running` afterwards for the other jobs."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def unsubscribe(self, listener: JobListener) -> None:
        with self._lock:
            self._listeners = tuple(known for known in self._listeners if known is not listener)

    def add(self, job: EmbeddedJobClient) -> None:
        with self._lock:
            self._jobs = (*self._jobs, job)
        for listener in self._listeners:
            _notify(listener.job_started, job, "start")

    def remove(self, job: EmbeddedJobClient) -> None:
        """Remove a job that has released everything; does nothing if it is not in the list."""
        with self._lock:
            known = job in self._jobs
            self._jobs = tuple(other for other in self._jobs if other is not job)
        for listener in self._listeners if known else ():
            _notify(listener.job_ended, job, "end")


def _notify(listen: Callable[[EmbeddedJobClient], None], job: EmbeddedJobClient, what: str) -> None:
    try:
        listen(job)
    except Exception:
        _log.warning("A listener failed at the %s of job %s.", what, job.get_job_id(), exc_info=True)


#: The jobs of this process.
RUNNING_JOBS = JobList()
