"""Metrics of a job by Flink's names: totals as they are, rates over the last seconds.

Rates come from totals that were kept at earlier looks, so they need somebody who looks; the first answer covers the whole job.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.common.limits import LONG_MIN
from flinkish.graph.job_graph import JobVertex, VertexId
from flinkish.jobmaster.job_metrics import SubtaskFigures
from flinkish.server.views.job_view import JobView

#: Rates cover at least and about at most this long, in milliseconds.
_SHORTEST, _LONGEST = 1_000, 10_000


@dataclass(frozen=True, slots=True)
class _Look:
    at: int
    subtasks: Mapping[tuple[VertexId, int], SubtaskFigures]


class Rates:
    """What happened in the last seconds of one job; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: deque[_Look] = deque()

    def look(self, view: JobView) -> None:
        """Keep the totals of a look, at most one a second."""
        now = view.now
        with self._lock:
            if self._looks and now - self._looks[-1].at < _SHORTEST:
                return
            self._looks.append(_Look(now, view.subtasks))
            while len(self._looks) > 2 and now - self._looks[1].at >= _LONGEST:
                self._looks.popleft()

    def since(self, view: JobView, vertex: VertexId, index: int) -> tuple[SubtaskFigures, float]:
        """Return the totals that the rates start from, and how many seconds ago that was."""
        with self._lock:
            for look in self._looks:
                if view.now - look.at >= _SHORTEST:
                    return look.subtasks.get((vertex, index), SubtaskFigures()), (view.now - look.at) / 1000
        return SubtaskFigures(), max(view.duration, _SHORTEST) / 1000


def shares(view: JobView, rates: Rates, vertex: JobVertex, index: int) -> tuple[float, float, float]:
    """Return the shares of a subtask's time in which it was back-pressured, idle and busy; together 1."""
    now = view.subtask(vertex.id, index)
    before, _ = rates.since(view, vertex.id, index)
    held = now.back_pressured_ms - before.back_pressured_ms
    idle = now.idle_ms - before.idle_ms
    busy = now.busy_ms - before.busy_ms
    whole = held + idle + busy
    return (round(held / whole, 3), round(idle / whole, 3), round(busy / whole, 3)) if whole > 0 else (0.0, 1.0, 0.0)


def subtask_metrics(view: JobView, rates: Rates, vertex: JobVertex, index: int) -> dict[str, Any]:
    """Return all metrics of a subtask: those of the task by their names, those of operators behind `operator.`."""
    now = view.subtask(vertex.id, index)
    before, seconds = rates.since(view, vertex.id, index)
    held, idle, busy = shares(view, rates, vertex, index)
    graph = view.setup.plan.job_graph
    metrics: dict[str, Any] = {
        "numRecordsIn": now.records_in,
        "numRecordsOut": now.records_out,
        "numBytesOut": now.bytes_out,
        "numRecordsInPerSecond": round((now.records_in - before.records_in) / seconds, 3),
        "numRecordsOutPerSecond": round((now.records_out - before.records_out) / seconds, 3),
        "numBytesOutPerSecond": round((now.bytes_out - before.bytes_out) / seconds, 3),
        "numLateRecordsDropped": now.late_records,
        "busyTimeMsPerSecond": round(1000 * busy),
        "idleTimeMsPerSecond": round(1000 * idle),
        "backPressuredTimeMsPerSecond": round(1000 * held),
    }
    if graph.inputs(vertex.id):
        metrics["currentInputWatermark"] = LONG_MIN if now.watermark is None else now.watermark
    for node, watermark in zip(vertex.operators, now.watermarks, strict=False):
        metrics[f"{_operator(node.name)}.currentOutputWatermark"] = watermark
    scopes = {".".join(graph.metric_scope(node)): node.name for node in vertex.operators}
    for name, value in now.user.items():
        scope = next((scope for scope in scopes if name.startswith(f"{scope}.")), None)
        if scope is not None:
            metrics[f"{_operator(scope)}.{name[len(scope) + 1 :]}"] = value
    return metrics


def job_metrics(view: JobView) -> dict[str, Any]:
    """Return the metrics of the job itself."""
    figures, checkpoints = view.figures, view.checkpoints
    latest = checkpoints.latest_completed
    running = view.now - view.started_at if view.ended_at < 0 else 0
    return {
        "numRestarts": figures.restarts,
        "fullRestarts": figures.restarts,
        "uptime": running,
        "numberOfCompletedCheckpoints": checkpoints.counts.completed,
        "numberOfFailedCheckpoints": checkpoints.counts.failed,
        "numberOfInProgressCheckpoints": checkpoints.counts.in_progress,
        "totalNumberOfCheckpoints": checkpoints.counts.triggered,
        "lastCheckpointDuration": -1 if latest is None else latest.duration or 0,
        "lastCheckpointSize": -1 if latest is None else latest.state_size,
        "lastCheckpointFullSize": -1 if latest is None else latest.state_size,
        "lastCheckpointExternalPath": "n/a" if latest is None else latest.external_path or "n/a",
        "lastCompletedCheckpointId": -1 if latest is None else latest.checkpoint_id,
    }


def text_of(value: Any) -> str:
    """Return a value as REST shows it."""
    return str(value["count"]) if isinstance(value, Mapping) and "count" in value else str(value)


def aggregate(values: Sequence[float], wanted: Sequence[str]) -> dict[str, float]:
    """Return statistics of one metric; `skew` is the mean deviation from the mean, in percent of it, as in Flink."""
    total = float(sum(values))
    mean = total / len(values)
    skew = 0.0 if not mean else 100 * sum(abs(value - mean) for value in values) / len(values) / mean
    all_of = {"min": float(min(values)), "max": float(max(values)), "avg": mean, "sum": total, "skew": round(skew, 3)}
    return {name: all_of[name] for name in (wanted or all_of)}


def _operator(name: str) -> str:
    """Return an operator's name as it stands in names of metrics."""
    return "".join("_" if character in " :,." else character for character in name)
