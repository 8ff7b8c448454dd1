"""The figures that the page plots, kept for an hour for each job, so that plots do not begin when somebody opens the page.

A sample every ten seconds is a tuple of numbers: an hour of a job with 10 vertices takes about 1 MB.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from flinkish.graph.job_graph import JobVertex
from flinkish.server import metrics
from flinkish.server.answers.jobs import MetricHistoryInfo, MetricSeries
from flinkish.server.views.job_view import JobView, rest_id

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
    """The samples of one job; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[tuple[int, tuple[float | None, ...]]] = deque(maxlen=_CAPACITY)

    def add(self, view: JobView) -> None:
        """Keep the figures of a view of the job."""
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
