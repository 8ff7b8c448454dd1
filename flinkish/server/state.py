"""The state of a server: its jobs, including some that have ended, its operations, its settings."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import PurePath

from flinkish.common.clock import Clock
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.graph.job_graph import JobVertex
from flinkish.server import metrics
from flinkish.server.answers.jobs import MetricHistoryInfo, MetricSeries
from flinkish.server.logs import Logs
from flinkish.server.operations import Operations
from flinkish.server.process_figures import ProcessFigures
from flinkish.server.server_settings import ServerSettings
from flinkish.server.views.job_view import JobView, look_at, rest_id

#: Time between two samples, in milliseconds, and number of samples that are kept: one hour.
STEP_MS = 10_000
_CAPACITY = 360
#: Watermarks beyond this are no times: nothing has been received yet, or all input has ended.
_NO_TIME = 8 * 10**15
#: End of the names of the metric of sources that tells how many records they have not read yet.
_PENDING = ".pendingRecords"
_OF_JOB = ("lastCheckpointDuration", "lastCheckpointSize", "numRestarts")
#: Metrics of tasks, and how the values of the subtasks are combined.
_OF_VERTEX: Sequence[tuple[str, str, Callable[[Sequence[float]], float]]] = (
    ("numRecordsInPerSecond", "sum", sum),
    ("numRecordsOutPerSecond", "sum", sum),
    ("numBytesOutPerSecond", "sum", sum),
    ("numLateRecordsDropped", "sum", sum),
    ("busyTimeMsPerSecond", "max", max),
    ("backPressuredTimeMsPerSecond", "max", max),
)


class MetricHistory:
    """The figures of one job that the page plots, kept for an hour; may be used from any thread.

    So plots do not begin when somebody opens the page. A sample every ten seconds is a tuple of numbers: an hour of a job with
    10 vertices takes about 1 MB.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[tuple[int, tuple[float | None, ...]]] = deque(maxlen=_CAPACITY)

    def add(self, view: JobView) -> None:
        sample = tuple(value for *_, value in _figures(view))
        with self._lock:
            self._samples.append((view.now, sample))

    def answer(self, view: JobView) -> MetricHistoryInfo:
        """Return all samples, oldest first; `view` is one of the same job."""
        with self._lock:
            samples = list(self._samples)
        series = [
            MetricSeries(vertex=vertex, metric=name, aggregation=kind, values=tuple(values[index] for _, values in samples))
            for index, (vertex, name, kind, _) in enumerate(_figures(view))
        ]
        return MetricHistoryInfo(
            interval=STEP_MS,
            times=tuple(at for at, _ in samples),
            series=tuple(each for each in series if any(value is not None for value in each.values)),
        )


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


def _figures(view: JobView) -> list[tuple[str | None, str, str, float | None]]:
    """Return vertex, metric, aggregation and value of each figure; the figures of a job always have the same order."""
    of_job = metrics.job_metrics(view)
    found: list[tuple[str | None, str, str, float | None]] = [
        (None, name, "max", None if of_job[name] < 0 else of_job[name]) for name in _OF_JOB
    ]
    for vertex in view.vertices.values():
        subtasks = [metrics.task_metrics(view, vertex, index) for index in range(vertex.parallelism)]
        of_vertex = rest_id(vertex)
        found += [(of_vertex, name, kind, combine([each[name] for each in subtasks])) for name, kind, combine in _OF_VERTEX]
        found.append((of_vertex, "pendingRecords", "sum", _pending(view, vertex)))
        found.append((of_vertex, "watermark", "min", _watermark(view, vertex)))
    return found


def _pending(view: JobView, vertex: JobVertex) -> float | None:
    users = [view.subtask(vertex.id, index).user for index in range(vertex.parallelism)]
    values = [value for user in users for name, value in user.items() if name.endswith(_PENDING)]
    return sum(values) if values else None


def _watermark(view: JobView, vertex: JobVertex) -> float | None:
    """Return the lowest watermark that the subtasks have received; what a source sends counts, as it receives none."""
    subtasks = [view.subtask(vertex.id, index) for index in range(vertex.parallelism)]
    if view.setup.plan.job_graph.inputs(vertex.id):
        marks = [subtask.watermark for subtask in subtasks if subtask.watermark is not None]
        lowest = min(marks, default=None)
    else:
        # Operators before the one that makes watermarks have none.
        lowest = max(map(min, zip(*(subtask.watermarks for subtask in subtasks), strict=False)), default=None)
    return lowest if lowest is not None and abs(lowest) < _NO_TIME else None
