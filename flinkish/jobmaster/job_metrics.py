"""Figures of a running job, aggregated from the reports of its epochs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import JobGraph, VertexId
from flinkish.metrics.registry import merge
from flinkish.program.operators import SinkWriterConfig
from flinkish.runtime.protocol import MIN_WATERMARK, EpochReport, VertexMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexFigures:
    """Figures of a vertex: records since the job began in this process, over all attempts, and the least watermark."""

    vertex: VertexId
    name: str
    records_in: int
    records_out: int
    late_records: int
    busy_ms: float
    watermark: int
    #: Records that its sinks took, over all attempts.
    records_written: int
    #: The watermarks of the operators of its chain, by subtask.
    watermarks: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """Figures of a job at one moment; durations are in milliseconds."""

    epochs: int
    restarts: int
    #: Records that the sources read, and that the sinks took, over all attempts.
    records_read: int
    records_written: int
    #: Duration of the last epoch from command to reports, and the busy time of its busiest slot.
    last_epoch_ms: float
    last_busy_ms: float
    #: Maximum number of records that each source subtask may read in an epoch.
    credit: int
    #: When the running epoch began, in monotonic milliseconds; None between two epochs.
    epoch_began: int | None
    vertices: tuple[VertexFigures, ...]
    #: User metrics by name; `metrics.registry.merge` combines those of the subtasks.
    user: Mapping[str, Any]


@dataclass(slots=True)
class _Totals:
    records_in: int = 0
    records_out: int = 0
    late_records: int = 0
    busy_ms: float = 0.0
    records_written: int = 0
    watermarks: dict[int, int] = field(default_factory=dict)
    chains: dict[int, tuple[int, ...]] = field(default_factory=dict)


class JobMetrics:
    """Aggregates figures; the JobMaster's thread writes them, any thread may read them."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._totals = {vertex: _Totals() for vertex in plan.job_graph.vertices}
        self._user: dict[tuple[VertexId, int], Mapping[str, Any]] = {}
        self._epochs = 0
        self._restarts = 0
        self._read = 0
        #: Vertices whose sinks get the output of the sink's first stage instead of the program's records.
        self._second_stages = _second_stages(plan.job_graph)
        self._epoch_began: int | None = None
        self._elapsed = 0.0
        self._busy = 0.0
        self.credit = 0

    def restarted(self) -> None:
        """Reset watermarks and user metrics, because a new attempt begins after a failure."""
        with self._lock:
            self._restarts += 1
            self._user.clear()
            self._epoch_began = None
            for totals in self._totals.values():
                totals.watermarks.clear()
                totals.chains.clear()

    def epoch_begins(self, now: int, credit: int) -> None:
        """Record that a command is sent out at the given time, in monotonic milliseconds."""
        with self._lock:
            self._epoch_began, self.credit = now, credit

    def add(self, reports: Iterable[EpochReport], elapsed_ms: float) -> float:
        """Add the reports of an epoch; return the busy time of the busiest slot over all levels, in milliseconds."""
        busy: dict[int, float] = {}
        with self._lock:
            for report in reports:
                self._read += sum(reader.records for reader in report.readers.values())
                for metrics in report.metrics:
                    busy[report.slot] = busy.get(report.slot, 0.0) + metrics.busy_ms
                    self._add_vertex(metrics)
            self._epochs += 1
            self._epoch_began = None
            self._elapsed = elapsed_ms
            self._busy = max(busy.values(), default=0.0)
            return self._busy

    def _add_vertex(self, metrics: VertexMetrics) -> None:
        totals = self._totals[metrics.vertex]
        totals.records_in += metrics.records_in
        totals.records_out += metrics.records_out
        totals.late_records += metrics.late_records
        totals.busy_ms += metrics.busy_ms
        if metrics.vertex not in self._second_stages:
            totals.records_written += metrics.records_written
        totals.chains[metrics.subtask] = metrics.watermarks
        totals.watermarks[metrics.subtask] = metrics.watermark
        if metrics.user:
            self._user[metrics.vertex, metrics.subtask] = metrics.user

    def figures(self) -> JobFigures:
        """Return all current figures."""
        with self._lock:
            return JobFigures(
                epochs=self._epochs,
                restarts=self._restarts,
                records_read=self._read,
                records_written=sum(totals.records_written for totals in self._totals.values()),
                last_epoch_ms=self._elapsed,
                last_busy_ms=self._busy,
                credit=self.credit,
                epoch_began=self._epoch_began,
                vertices=tuple(self._vertex(vertex, totals) for vertex, totals in self._totals.items()),
                user=merge(self._user.values()),
            )

    def user_metrics(self) -> dict[str, Any]:
        """Return user metrics by name; `metrics.registry.merge` combines those of the subtasks."""
        with self._lock:
            return merge(self._user.values())

    def _vertex(self, vertex: VertexId, totals: _Totals) -> VertexFigures:
        return VertexFigures(
            vertex=vertex,
            name=self._plan.job_graph.vertices[vertex].name,
            records_in=totals.records_in,
            records_out=totals.records_out,
            late_records=totals.late_records,
            busy_ms=totals.busy_ms,
            watermark=min(totals.watermarks.values(), default=MIN_WATERMARK),
            records_written=totals.records_written,
            watermarks=dict(totals.chains),
        )


def _second_stages(graph: JobGraph) -> frozenset[VertexId]:
    nodes = (node for vertex in graph.vertices.values() for node in vertex.operators)
    writers = {node.id for node in nodes if isinstance(node.operator, SinkWriterConfig)}
    return frozenset(edge.target_vertex for edge in graph.edges if edge.source in writers)
