"""Determines whether subtasks were back-pressured or idle while they were not busy in an epoch: pure functions on the reports.

Flink says that a task is back-pressured while it waits for room in its output buffers. Here nothing waits for buffers: the credit
limits what sources read, so that an epoch of the slowest vertex does not take too long. So the definition is:

A subtask is back-pressured while a busier vertex downstream runs, if a source that its records come from has more to read.
A source with more to read is back-pressured while any busier vertex runs, because all sources have one credit.
While the client of execute_and_collect() does not take results, every vertex is back-pressured.
The rest of its time, a subtask is idle: it waits for records, for vertices upstream, or for the engine.

The busiest vertex is never back-pressured, so it is where the chain of back-pressured vertices ends: the bottleneck.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from flinkish.graph.job_graph import JobGraph, VertexId
from flinkish.runtime.protocol import EpochReport, VertexMetrics


@dataclass(frozen=True, slots=True)
class _Load:
    """How busy a vertex was, in milliseconds.

    `busiest_ms` is the busy time of its busiest subtask; `running_ms` is the time from its first subtask's start to its last
    one's end.
    """

    busiest_ms: float
    running_ms: float


def held_sources(reports: Iterable[EpochReport]) -> set[str]:
    """Return the uids of sources that have more records to read, but no credit for them."""
    return {
        str(uid)
        for report in reports
        for (uid, _), reader in report.readers.items()
        if reader.more_available and not reader.finished and not reader.held_back
    }


def waits(graph: JobGraph, seen: Collection[VertexMetrics], held: Collection[VertexId]) -> Mapping[VertexId, float]:
    """Return the maximum time that the subtasks of each vertex were back-pressured in an epoch, in milliseconds.

    `held` contains the vertices of the sources that have more to read.
    """
    loads = _loads(seen)
    found: dict[VertexId, float] = {}
    below = downstream(graph)
    fed = set(held).union(*(below[vertex] for vertex in held)) if held else set()
    for vertex, load in loads.items():
        if vertex not in fed:
            continue
        others = loads.keys() if vertex in held else below[vertex]
        busier = [loads[other] for other in others if other in loads and loads[other].busiest_ms > load.busiest_ms]
        if busier:
            found[vertex] = max(other.running_ms for other in busier)
    return found


def _loads(seen: Collection[VertexMetrics]) -> dict[VertexId, _Load]:
    by_vertex: dict[VertexId, list[VertexMetrics]] = {}
    for metrics in seen:
        by_vertex.setdefault(metrics.vertex, []).append(metrics)
    loads = {}
    for vertex, subtasks in by_vertex.items():
        busiest = max(metrics.busy_ms for metrics in subtasks)
        began = min(metrics.ended_ms - metrics.busy_ms for metrics in subtasks)
        running = max(metrics.ended_ms for metrics in subtasks) - began
        # Clocks of different machines differ, so the times are bounded by what is known for certain.
        loads[vertex] = _Load(busiest, min(max(running, busiest), sum(metrics.busy_ms for metrics in subtasks)))
    return loads


def downstream(graph: JobGraph) -> dict[VertexId, frozenset[VertexId]]:
    """Map each vertex to all vertices to which records go from it."""
    found: dict[VertexId, frozenset[VertexId]] = {}
    for vertex in reversed(list(graph.vertices)):
        targets = {edge.target_vertex for edge in graph.outputs(vertex)}
        found[vertex] = frozenset(targets).union(*(found[target] for target in targets))
    return found
