"""Finds the event time of a job, and the operator that holds it back, from the watermarks of all operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.graph.job_graph import JobGraph, VertexId
from flinkish.graph.stream_graph import NodeId, StreamNode
from flinkish.program.operators import SinkConfig, SinkWriterConfig, SourceConfig, TimestampsAndWatermarksConfig
from flinkish.program.sources import Source

#: By vertex and subtask: the watermarks of the operators of the chain, in their order.
Watermarks = Mapping[VertexId, Mapping[int, tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """The watermark that has passed the whole job, in milliseconds, and the operator that holds it back.

    `watermark` is MIN_WATERMARK if there is none yet, and MAX_WATERMARK when all input has ended.
    """

    watermark: int
    operator: str
    #: The subtasks of the operator that hold it back, counted from 0.
    subtasks: tuple[int, ...]
    parallelism: int


class EventTimeGraph:
    """The paths of watermarks through a job graph."""

    def __init__(self, graph: JobGraph) -> None:
        self._place: dict[NodeId, tuple[VertexId, int]] = {}
        self._nodes: dict[NodeId, StreamNode] = {}
        self._before: dict[NodeId, list[NodeId]] = {}
        for vertex in graph.vertices.values():
            for index, node in enumerate(vertex.operators):
                self._place[node.id] = (vertex.id, index)
                self._nodes[node.id] = node
                self._before[node.id] = []
            for chain_edge in vertex.chain_edges:
                self._before[chain_edge.target].append(chain_edge.source)
        for edge in graph.edges:
            self._before[graph.vertices[edge.target_vertex].head.id].append(edge.source)
        timed: set[NodeId] = set()
        for node_id in self._nodes:  # in topological order
            if _generates(self._nodes[node_id]) or not timed.isdisjoint(self._before[node_id]):
                timed.add(node_id)
        read = {source for sources in self._before.values() for source in sources}
        #: The ends of the paths: operators without a reader, if an operator before them generates watermarks.
        ends = tuple(node_id for node_id in self._nodes if node_id in timed and node_id not in read)
        # A sink that also takes a stream without watermarks has none until that stream ends, which holds nothing back.
        self._ends = tuple(node_id for node_id in ends if not self._is_mixed_sink(node_id, timed)) or ends

    def event_time(self, watermarks: Watermarks) -> EventTime | None:
        """Return the event time; None if the program has no watermarks, or not all ends have reported one.

        The operator that holds it back is found by going upstream from the slowest end, as long as an operator there has exactly
        the same watermark: idle inputs have another one.
        """
        found = {node_id: self._least(node_id, watermarks) for node_id in self._ends}
        least = {node_id: watermark for node_id, watermark in found.items() if watermark is not None}
        if not least or len(least) < len(found):
            return None
        slowest = min(least, key=least.__getitem__)
        watermark = least[slowest]
        while not _generates(self._nodes[slowest]):
            same = [node_id for node_id in self._before[slowest] if self._subtasks_at(node_id, watermark, watermarks)]
            if not same:
                break
            slowest = same[0]
        node = self._nodes[slowest]
        return EventTime(
            watermark=watermark,
            operator=node.name,
            subtasks=self._subtasks_at(slowest, watermark, watermarks),
            parallelism=node.parallelism,
        )

    def _is_mixed_sink(self, node_id: NodeId, timed: set[NodeId]) -> bool:
        is_sink = isinstance(self._nodes[node_id].operator, SinkConfig | SinkWriterConfig)
        return is_sink and not timed.issuperset(self._before[node_id])

    def _least(self, node_id: NodeId, watermarks: Watermarks) -> int | None:
        vertex, index = self._place[node_id]
        return min((subtask[index] for subtask in watermarks.get(vertex, {}).values()), default=None)

    def _subtasks_at(self, node_id: NodeId, watermark: int, watermarks: Watermarks) -> tuple[int, ...]:
        vertex, index = self._place[node_id]
        return tuple(sorted(subtask for subtask, each in watermarks.get(vertex, {}).items() if each[index] == watermark))


def _generates(node: StreamNode) -> bool:
    match node.operator:
        case TimestampsAndWatermarksConfig():
            return True
        case SourceConfig(source=source, watermarks=watermarks):
            own = isinstance(source, Source) and source.emits_watermarks
            return own or (watermarks is not None and watermarks.generates_watermarks)
        case _:
            return False
