"""The state of a server: its jobs, including some that have ended, its operations, its settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import PurePath

from flinkish.common.clock import Clock
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.server.logs import Logs
from flinkish.server.metric_history import MetricHistory
from flinkish.server.operations import Operations
from flinkish.server.process_figures import ProcessFigures
from flinkish.server.server_settings import ServerSettings
from flinkish.server.views.job_view import JobView, look_at


class ServedJob:
    """One job: its client while it runs, its last view afterwards."""

    def __init__(self, client: EmbeddedJobClient, clock: Clock) -> None:
        self.job_id = str(client.get_job_id())
        #: None after the end of the job.
        self.client: EmbeddedJobClient | None = client
        self._clock = clock
        self._last: JobView | None = None
        #: Figures of the last hour.
        self.history = MetricHistory()
        #: When the job ended, in monotonic milliseconds; None = it runs.
        self.ended: int | None = None

    def view(self) -> JobView:
        """Return a view of the job as it is now; after its end, return the last one."""
        client = self.client
        if client is None:
            assert self._last is not None
            return self._last
        return look_at(client.job_master, clock=self._clock)

    def end(self) -> None:
        """Keep the last view instead of the job itself."""
        if self.client is not None:
            self._last = self.view()
            self.ended = self._clock.monotonic()
            self.client = None


class ServedJobs:
    """The jobs of a server by id; a listener of the process's list of jobs. May be used from any thread.

    Jobs that have ended are kept for `expiration` milliseconds, and at most `capacity` of them, as in Flink's job store.
    """

    def __init__(self, clock: Clock, *, expiration: int, capacity: int) -> None:
        self._clock = clock
        self._expiration = expiration
        self._capacity = capacity
        self._lock = threading.Lock()
        self._jobs: dict[str, ServedJob] = {}

    def job_started(self, job: EmbeddedJobClient) -> None:
        """Serve a job; a job that is started again under the same id replaces the earlier one."""
        served = ServedJob(job, self._clock)
        with self._lock:
            self._jobs.pop(served.job_id, None)
            self._jobs[served.job_id] = served

    def job_ended(self, job: EmbeddedJobClient) -> None:
        """Keep only the last view of a job."""
        with self._lock:
            served = self._jobs.get(str(job.get_job_id()))
            if served is not None and served.client is job:
                served.end()

    def get(self, job_id: str) -> ServedJob | None:
        """Return the job with this id; None if it is unknown."""
        with self._lock:
            self._forget()
            return self._jobs.get(job_id)

    def all(self) -> Sequence[ServedJob]:
        """Return all jobs, oldest first."""
        with self._lock:
            self._forget()
            return tuple(self._jobs.values())

    def sample(self) -> None:
        """Add the figures of all running jobs to their histories."""
        for job in self.all():
            if job.client is not None:
                job.history.add(job.view())

    def _forget(self) -> None:
        now = self._clock.monotonic()
        ended = [job for job in self._jobs.values() if job.ended is not None]
        for number, job in enumerate(sorted(ended, key=lambda job: -(job.ended or 0))):
            if number >= self._capacity or now - (job.ended or 0) > self._expiration:
                del self._jobs[job.job_id]


class ServerState:
    """The parts of a server that its handlers use."""

    def __init__(
        self,
        settings: ServerSettings,
        clock: Clock,
        *,
        address: str = "",
        logs: Logs | None = None,
        needing_savepoint: Callable[[PurePath], str | None] | None = None,
    ) -> None:
        """Make the state of a server that clients reach at `address` (host and port).

        `needing_savepoint` returns the id of a job that still needs the savepoint at a root, or None; without it, the jobs of
        this process are checked.
        """
        self.settings = settings
        self.clock = clock
        self.address = address
        self.jobs = ServedJobs(clock, expiration=settings.expiration, capacity=settings.capacity)
        self.operations = Operations(clock)
        self.logs = logs or Logs()
        self.processes = ProcessFigures()
        self.needing_savepoint = needing_savepoint
