"""Builds the execution plan from the job graph: assigns levels and slots."""

from __future__ import annotations

from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import JobEdge, JobGraph, JobVertex, VertexId
from flinkish.program.operators import SourceConfig
from flinkish.program.sources import NativeSource
from flinkish.program.transformations import Partitioning


def plan(job_graph: JobGraph) -> ExecutionPlan:
    """Assign levels and slots to the vertices of a job graph; ExecutionPlan documents the rules."""
    level_of: dict[VertexId, int] = {}
    for vertex in job_graph.vertices:  # in topological order
        levels = [level_of[e.source_vertex] + (0 if stays_in_slot(e, job_graph) else 1) for e in job_graph.inputs(vertex)]
        level_of[vertex] = max(levels, default=1 if reads_natively(job_graph.vertices[vertex]) else 0)
    by_level: list[list[VertexId]] = [[] for _ in range(max(level_of.values(), default=-1) + 1)]
    for vertex, level in level_of.items():
        by_level[level].append(vertex)
    slot_offsets, slots = _slots(job_graph)
    return ExecutionPlan(
        job_graph=job_graph,
        levels=tuple(tuple(level) for level in by_level),
        level_of=level_of,
        slots=slots,
        slot_offsets=slot_offsets,
    )


def reads_natively(vertex: JobVertex) -> bool:
    """Tell whether a vertex begins with a source that the engine reads: what it reads comes to the slots by an exchange."""
    operator = vertex.head.operator
    return isinstance(operator, SourceConfig) and isinstance(operator.source, NativeSource)


def stays_in_slot(edge: JobEdge, job_graph: JobGraph) -> bool:
    """Tell whether the edge connects subtask i of the source to subtask i of the target only, and both run in the same slot."""
    source, target = job_graph.vertices[edge.source_vertex], job_graph.vertices[edge.target_vertex]
    return (
        edge.partitioner.partitioning is Partitioning.FORWARD
        and source.parallelism == target.parallelism
        and source.slot_sharing_group == target.slot_sharing_group
    )


def _slots(job_graph: JobGraph) -> tuple[dict[str, int], int]:
    """Return the first slot of each slot sharing group, and the number of all slots: a group needs its highest parallelism."""
    sizes: dict[str, int] = {}
    for vertex in job_graph.vertices.values():
        sizes[vertex.slot_sharing_group] = max(sizes.get(vertex.slot_sharing_group, 0), vertex.parallelism)
    offsets: dict[str, int] = {}
    total = 0
    for group, size in sizes.items():
        offsets[group] = total
        total += size
    return offsets, total
