"""The execution plan, which engines run: the slot and the level in which each vertex runs, and how they are assigned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.graph.job_graph import JobEdge, JobGraph, JobVertex, VertexId
from flinkish.program.operators import SourceConfig
from flinkish.program.sources import NativeSource
from flinkish.program.transformations import Partitioning


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """A job graph with a level and a slot for each vertex.

    A vertex without inputs is at level 0, or at level 1 if the engine reads its source itself (NativeSource): what it reads
    reaches the slots over the network, so level 0 may be empty. Any other vertex has the highest level that one of its inputs
    demands: a FORWARD input that stays within the slot demands the level of its source, and an input over the network demands
    one level more.

    Subtask i of a vertex runs in slot `slot_offsets[slot_sharing_group] + i`: groups do not share slots.
    """

    job_graph: JobGraph
    #: Vertices of each level, in topological order.
    levels: tuple[tuple[VertexId, ...], ...]
    level_of: Mapping[VertexId, int]
    slots: int
    slot_offsets: Mapping[str, int]

    def slot_of(self, vertex: VertexId, subtask: int) -> int:
        return self.slot_offsets[self.job_graph.vertices[vertex].slot_sharing_group] + subtask

    def subtask_in(self, vertex: VertexId, slot: int) -> int | None:
        """Return the subtask of a vertex that runs in a slot; None if there is none."""
        job_vertex = self.job_graph.vertices[vertex]
        subtask = slot - self.slot_offsets[job_vertex.slot_sharing_group]
        return subtask if 0 <= subtask < job_vertex.parallelism else None


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
