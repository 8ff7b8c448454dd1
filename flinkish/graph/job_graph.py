"""The job graph: a vertex is a chain of operators that run in the same task; channels connect the vertices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from flinkish.graph.stream_graph import NodeId, StreamNode
from flinkish.program.transformations import Partitioner
from flinkish.udf.output_tag import OutputTag

VertexId = NewType("VertexId", int)
EdgeId = NewType("EdgeId", int)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEdge:
    """An edge within a chain: `source` calls `target` for each record of its main output, or of the given side output."""

    source: NodeId
    target: NodeId
    side_output: OutputTag | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEdge:
    """An edge between vertices: from an operator of the source's chain to the head of the target's chain."""

    id: EdgeId
    source_vertex: VertexId
    source: NodeId
    target_vertex: VertexId
    input_index: int
    partitioner: Partitioner
    side_output: OutputTag | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVertex:
    """A chain of operators: `operators[0]` is the head; the order is topological. A vertex id is its head's node id."""

    id: VertexId
    name: str
    operators: tuple[StreamNode, ...]
    chain_edges: tuple[ChainEdge, ...]
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str

    @property
    def head(self) -> StreamNode:
        return self.operators[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGraph:
    """Vertices in topological order."""

    job_name: str
    vertices: Mapping[VertexId, JobVertex]
    edges: tuple[JobEdge, ...]

    def inputs(self, vertex: VertexId) -> tuple[JobEdge, ...]:
        """Return the edges that lead to a vertex, in the order of its inputs."""
        return tuple(edge for edge in self.edges if edge.target_vertex == vertex)

    def outputs(self, vertex: VertexId) -> tuple[JobEdge, ...]:
        return tuple(edge for edge in self.edges if edge.source_vertex == vertex)

    def metric_scope(self, operator: StreamNode) -> tuple[str, ...]:
        """Return the prefix of an operator's metric names: its name, and also its uid if another operator has the same name."""
        names = [node.name for vertex in self.vertices.values() for node in vertex.operators]
        return (operator.name,) if names.count(operator.name) == 1 else (operator.name, operator.uid)
