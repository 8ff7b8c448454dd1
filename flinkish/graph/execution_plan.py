"""The execution plan, which engines run: the slot and the level in which each vertex runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.graph.job_graph import JobGraph, VertexId


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
        """Return the slot in which a subtask runs."""
        return self.slot_offsets[self.job_graph.vertices[vertex].slot_sharing_group] + subtask

    def subtask_in(self, vertex: VertexId, slot: int) -> int | None:
        """Return the subtask of a vertex that runs in a slot; None if there is none."""
        job_vertex = self.job_graph.vertices[vertex]
        subtask = slot - self.slot_offsets[job_vertex.slot_sharing_group]
        return subtask if 0 <= subtask < job_vertex.parallelism else None
