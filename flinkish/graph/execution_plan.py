"""The execution plan: which slot and which level each vertex runs in. This is what engines run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.graph.job_graph import JobGraph, VertexId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """A job graph laid out.

    A vertex without inputs, or whose inputs are all FORWARD from level 0, is at level 0. Else its level is the highest of: one
    more than the level of each input over the network, and the level of each FORWARD input (a forward edge between two vertices
    stays within the slot).

    Subtask i of a vertex runs in slot `slot_offsets[slot_sharing_group] + i`: groups do not share slots.
    """

    job_graph: JobGraph
    #: Vertices of each level, in topological order.
    levels: tuple[tuple[VertexId, ...], ...]
    level_of: Mapping[VertexId, int]
    slots: int
    slot_offsets: Mapping[str, int]

    def slot_of(self, vertex: VertexId, subtask: int) -> int:
        """Return the slot that a subtask runs in."""
        return self.slot_offsets[self.job_graph.vertices[vertex].slot_sharing_group] + subtask

    def subtask_in(self, vertex: VertexId, slot: int) -> int | None:
        """Return which subtask of a vertex runs in a slot, None if none does."""
        job_vertex = self.job_graph.vertices[vertex]
        subtask = slot - self.slot_offsets[job_vertex.slot_sharing_group]
        return subtask if 0 <= subtask < job_vertex.parallelism else None
