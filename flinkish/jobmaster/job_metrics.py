"""Figures of a running job, aggregated from the reports of its epochs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from flinkish.common.clock import Clock
from flinkish.common.process_usage import ProcessUsage
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import JobGraph, VertexId
from flinkish.jobmaster.back_pressure import held_sources, waits
from flinkish.jobmaster.latency import LatencyKey, LatencySettings, LatencyTracker
from flinkish.jobmaster.program_parts import sources
from flinkish.jobmaster.rates import Rates, RateWindow, Totals
from flinkish.metrics.registry import Labelled, merge
from flinkish.metrics.samples import Histogram
from flinkish.program.operators import SinkWriterConfig, SourceConfig
from flinkish.program.sources import NativeSource
from flinkish.runtime.protocol import MIN_WATERMARK, EpochReport, VertexMetrics

#: Key in CoordinatorState.extra of the late records and all records of each vertex, by the uid of its first operator.
_LATE = "late_records"


@dataclass(slots=True, kw_only=True)
class SubtaskFigures(Totals):
    """Figures of a subtask since the job began in this process, over all attempts, and its current watermark.

    Durations are in milliseconds; back_pressure.py says what a subtask does while it is not busy.
    """

    late_records: int = 0
    #: None until the current attempt has reported it.
    watermark: int | None = None
    #: The watermarks of the operators of the chain, in their order.
    watermarks: tuple[int, ...] = ()
    #: User metrics by dotted name.
    user: Mapping[str, Any] = field(default_factory=dict)
    #: Names and labels of those in groups of a key and a value.
    labelled: Mapping[str, Labelled] = field(default_factory=dict)
    #: Its rates in the last seconds.
    rates: Rates = field(default_factory=Rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexFigures:
    """Figures of a vertex: records since the job began in this process, over all attempts, and the least watermark."""

    vertex: VertexId
    name: str
    records_in: int
    records_out: int
    #: Records that it dropped as too late, and all records that came in: since the job began in its first process, and each
    #: record once, even if a restart reads it again.
    late_records: int
    late_of: int
    busy_ms: float
    watermark: int
    #: Records that its sinks took, over all attempts.
    records_written: int
    #: The watermarks of the operators of its chain, by subtask.
    watermarks: Mapping[int, tuple[int, ...]]
    subtasks: Mapping[int, SubtaskFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotProcess:
    """The process that runs a slot, as its first report described it; `memory` is its machine's, in bytes."""

    host: str
    pid: int
    cpus: int
    memory: int
    #: The last measurement, at most a second older than the report.
    usage: ProcessUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """Figures of a job at one moment; durations are in milliseconds."""

    epochs: int
    restarts: int
    #: Records that the sources read, and that the sinks took, over all attempts.
    records_read: int
    records_written: int
    #: Duration of the last epoch from command to reports.
    last_epoch_ms: float
    #: Maximum number of records that each source subtask may read in an epoch.
    credit: int
    #: When the running epoch began, in monotonic milliseconds; None between two epochs.
    epoch_began: int | None
    vertices: tuple[VertexFigures, ...]
    #: User metrics by name; `metrics.registry.merge` combines those of the subtasks.
    user: Mapping[str, Any]
    #: Latencies in milliseconds; empty if they are not measured.
    latencies: Mapping[LatencyKey, Histogram] = field(default_factory=dict)
    #: The processes of the current attempt by slot; a slot that has not reported yet is missing.
    processes: Mapping[int, SlotProcess] = field(default_factory=dict)
    #: When the slots have reported last, in monotonic milliseconds; None if they have not yet.
    reported: float | None = None


class JobMetrics:
    """Aggregates figures; the JobMaster's thread writes them, any thread may read them."""

    def __init__(self, plan: ExecutionPlan, clock: Clock, latency: LatencySettings | None = None, *, restarts: int = 0) -> None:
        """Begin at zero, but with `restarts` before this process; `latency` is None if latencies are not measured."""
        self._plan = plan
        self._clock = clock
        self._lock = threading.Lock()
        vertices = plan.job_graph.vertices.values()
        self._totals = {vertex.id: [SubtaskFigures() for _ in range(vertex.parallelism)] for vertex in vertices}
        self._uids = {vertex.id: str(vertex.head.uid) for vertex in vertices}
        self._sources = {str(vertex.head.uid): vertex.id for vertex in vertices if isinstance(vertex.head.operator, SourceConfig)}
        #: Sources whose engine reads whatever is there when an epoch begins.
        self._native = {str(node.uid) for node in sources(plan.job_graph) if isinstance(node.source, NativeSource)}
        began = clock.monotonic()
        self._window = RateWindow(began)
        self._latency = None if latency is None else LatencyTracker(plan.job_graph, self._sources, latency, began)
        #: When the last epoch ended, in monotonic milliseconds.
        self._epoch_ended = began
        self._epochs = 0
        self._restarts = restarts
        self._read = 0
        #: Vertices whose sinks get the output of the sink's first stage instead of the program's records.
        self._second_stages = _second_stages(plan.job_graph)
        #: Late records and all records of each vertex that do not count, because the attempt reads them again. A number is
        #: negative if another process has counted records that the attempt does not read again.
        self._void = dict.fromkeys(self._totals, (0, 0))
        self._epoch_began: int | None = None
        self._processes: dict[int, SlotProcess] = {}
        self._elapsed = 0.0
        self.credit = 0

    def restarted(self) -> None:
        """Reset watermarks and user metrics, because a new attempt begins after a failure."""
        with self._lock:
            self._restarts += 1
            self._epoch_began = None
            if self._latency is not None:
                self._latency.restarted()
            self._processes.clear()
            for subtasks in self._totals.values():
                for totals in subtasks:
                    totals.watermark, totals.watermarks, totals.user, totals.labelled = None, (), {}, {}

    def snapshot(self) -> dict[str, bytes]:
        """Return the part of CoordinatorState.extra with the counts that `restore` takes."""
        with self._lock:
            return {_LATE: msgspec.msgpack.encode({self._uids[vertex]: self._late(vertex) for vertex in self._totals})}

    def restore(self, extra: Mapping[str, bytes]) -> None:
        """Take over the counts of the checkpoint that an attempt starts from; without a checkpoint, `extra` is empty."""
        kept = msgspec.msgpack.decode(extra[_LATE], type=dict[str, tuple[int, int]]) if _LATE in extra else {}
        with self._lock:
            for vertex, subtasks in self._totals.items():
                late, of = kept.get(self._uids[vertex], (0, 0))
                self._void[vertex] = (
                    sum(totals.late_records for totals in subtasks) - late,
                    sum(totals.records_in for totals in subtasks) - of,
                )

    def _late(self, vertex: VertexId) -> tuple[int, int]:
        """Return the late records and all records of a vertex, each of them once."""
        late, of = self._void[vertex]
        subtasks = self._totals[vertex]
        return sum(totals.late_records for totals in subtasks) - late, sum(totals.records_in for totals in subtasks) - of

    def introduce(self, reports: Iterable[EpochReport]) -> None:
        """Record from which processes these reports come."""
        with self._lock:
            for report in reports:
                if "pid" in report.process:
                    self._processes[report.slot] = SlotProcess(
                        **{field: report.process[field] for field in ("host", "pid", "cpus", "memory")},
                        usage=report.process.get("usage"),
                    )

    def process(self, slot: int) -> SlotProcess | None:
        """Return the process that runs a slot; None if it has not reported yet."""
        with self._lock:
            return self._processes.get(slot)

    def epoch_begins(self, now: int, credit: int, *, waited: bool = False) -> None:
        """Record that a command is sent out at the given time, in monotonic milliseconds.

        `waited` tells that there was nothing to do since the end of the last epoch.
        """
        with self._lock:
            if self._latency is not None:
                self._latency.epoch_begins(now, waited=waited)
            self._epoch_began, self.credit = now, credit

    def add(
        self, reports: Iterable[EpochReport], elapsed_ms: float, period_ms: float | None = None, *, client_waits: bool = False
    ) -> float:
        """Add the reports of an epoch; return the busy time of the busiest slot over all levels, in milliseconds.

        `elapsed_ms` is the duration of the epoch, `period_ms` the time since the end of the epoch before (default: the same).
        `client_waits` tells that sources were held back in that time, because the client did not take results.
        """
        reports = list(reports)
        busy: dict[int, float] = {}
        seen: list[VertexMetrics] = []
        with self._lock:
            for report in reports:
                self._read += sum(reader.records for reader in report.readers.values())
                for metrics in report.metrics:
                    busy[report.slot] = busy.get(report.slot, 0.0) + metrics.busy_ms
                    self._add_vertex(metrics)
                    seen.append(metrics)
            self._add_times(seen, elapsed_ms if period_ms is None else period_ms, self._held(reports), client_waits)
            if self._latency is not None:
                self._latency.add(reports)
            self._epochs += 1
            self._epoch_began = None
            self._epoch_ended = now = self._clock.monotonic()
            if self._window.due(now):
                self._window.mark(now, {key: subtask.totals() for key, subtask in self._subtasks()})
            self._elapsed = elapsed_ms
            return max(busy.values(), default=0.0)

    def _held(self, reports: Sequence[EpochReport]) -> set[VertexId]:
        """Return the vertices of sources that have more to read. Of one that the engine reads, more has probably come."""
        held = held_sources(reports)
        held |= {str(uid) for report in reports for (uid, _), reader in report.readers.items() if reader.records} & self._native
        return {self._sources[uid] for uid in held if uid in self._sources}

    def _subtasks(self) -> Iterable[tuple[tuple[VertexId, int], SubtaskFigures]]:
        return (((vertex, index), subtask) for vertex, subtasks in self._totals.items() for index, subtask in enumerate(subtasks))

    def _add_vertex(self, metrics: VertexMetrics) -> None:
        totals = self._totals[metrics.vertex][metrics.subtask]
        totals.records_in += metrics.records_in
        totals.records_out += metrics.records_out
        totals.bytes_in += metrics.bytes_in
        totals.bytes_out += metrics.bytes_out
        totals.late_records += metrics.late_records
        totals.busy_ms += metrics.busy_ms
        if metrics.vertex not in self._second_stages:
            totals.records_written += metrics.records_written
        totals.watermarks = metrics.watermarks
        totals.watermark = metrics.watermark
        if metrics.user:
            totals.user, totals.labelled = metrics.user, metrics.labelled

    def _add_times(self, seen: list[VertexMetrics], period: float, held: set[VertexId], client_waits: bool) -> None:
        """Add what the subtasks did while they were not busy; see back_pressure.py."""
        waiting = waits(self._plan.job_graph, seen, held)
        for metrics in seen:
            totals = self._totals[metrics.vertex][metrics.subtask]
            rest = max(0.0, period - metrics.busy_ms)
            back_pressured = rest if client_waits else min(rest, waiting.get(metrics.vertex, 0.0))
            totals.back_pressured_ms += back_pressured
            totals.idle_ms += rest - back_pressured

    def figures(self) -> JobFigures:
        with self._lock:
            # While an epoch runs, nobody knows what it does, so the rates are those up to its begin.
            end = self._clock.monotonic() if self._epoch_began is None else self._epoch_ended
            vertices = tuple(self._vertex(vertex, subtasks, end) for vertex, subtasks in self._totals.items())
            return JobFigures(
                epochs=self._epochs,
                restarts=self._restarts,
                records_read=self._read,
                records_written=sum(figures.records_written for figures in vertices),
                last_epoch_ms=self._elapsed,
                credit=self.credit,
                epoch_began=self._epoch_began,
                vertices=vertices,
                user=merge(totals.user for subtasks in self._totals.values() for totals in subtasks if totals.user),
                latencies={} if self._latency is None else self._latency.histograms(),
                processes=dict(self._processes),
                reported=self._epoch_ended if self._epochs else None,
            )

    def _vertex(self, vertex: VertexId, subtasks: Sequence[SubtaskFigures], end: int) -> VertexFigures:
        reported = [totals.watermark for totals in subtasks if totals.watermark is not None]
        late_records, late_of = self._late(vertex)
        return VertexFigures(
            vertex=vertex,
            name=self._plan.job_graph.vertices[vertex].name,
            records_in=sum(totals.records_in for totals in subtasks),
            records_out=sum(totals.records_out for totals in subtasks),
            late_records=late_records,
            late_of=late_of,
            busy_ms=sum(totals.busy_ms for totals in subtasks),
            watermark=min(reported, default=MIN_WATERMARK),
            records_written=sum(totals.records_written for totals in subtasks),
            watermarks={index: totals.watermarks for index, totals in enumerate(subtasks) if totals.watermark is not None},
            subtasks={
                index: replace(
                    totals,
                    rates=self._window.rates((vertex, index), totals, end, float(end - self._epoch_ended)),
                )
                for index, totals in enumerate(subtasks)
            },
        )


def _second_stages(graph: JobGraph) -> frozenset[VertexId]:
    nodes = (node for vertex in graph.vertices.values() for node in vertex.operators)
    writers = {node.id for node in nodes if isinstance(node.operator, SinkWriterConfig)}
    return frozenset(edge.target_vertex for edge in graph.edges if edge.source in writers)
