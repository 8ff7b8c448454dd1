"""The plan as JSON, in the form that Flink's `get_execution_plan` returns and its plan visualizer reads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from flinkish.graph.chaining import build_job_graph
from flinkish.graph.stream_graph import NodeId, StreamGraph, StreamNode
from flinkish.program.operators import MapConfig, SinkConfig, SourceConfig, TimestampsAndWatermarksConfig

_PACTS: Mapping[type, str] = {SourceConfig: "Data Source", SinkConfig: "Data Sink"}


def plan_json(stream_graph: StreamGraph) -> str:
    """Return the nodes in topological order with their predecessors.

    As in PyFlink, operators between sources and sinks that are chained one to one are shown as one node, such as `Map, Filter`,
    with the id of the last operator. Projections and Timestamps/Watermarks are never merged, because PyFlink merges only
    operators that run in Python.
    """
    last_of = _merged(stream_graph)
    groups: dict[NodeId, list[StreamNode]] = {}
    for node in stream_graph.nodes.values():
        groups.setdefault(last_of[node.id], []).append(node)
    predecessors: dict[NodeId, list[dict[str, object]]] = {last: [] for last in groups}
    for edge in stream_graph.edges:
        if last_of[edge.source] != last_of[edge.target]:
            strategy = edge.partitioner.partitioning.value
            predecessors[last_of[edge.target]].append({"id": edge.source, "ship_strategy": strategy, "side": "second"})
    nodes = [_node_json(last, group, predecessors[last]) for last, group in groups.items()]
    return json.dumps({"nodes": nodes}, indent=2)


def _merged(stream_graph: StreamGraph) -> Mapping[NodeId, NodeId]:
    """Map each node to the last node of the group that it is shown in."""
    readers = Counter(edge.source for edge in stream_graph.edges)
    next_of: dict[NodeId, NodeId] = {}
    for vertex in build_job_graph(stream_graph).vertices.values():
        for edge in vertex.chain_edges:
            alone = any(map(_stands_alone, (stream_graph.nodes[edge.source], stream_graph.nodes[edge.target])))
            if readers[edge.source] == 1 and edge.side_output is None and not alone:
                next_of[edge.source] = edge.target
    last_of: dict[NodeId, NodeId] = {}
    for node in reversed(list(stream_graph.nodes)):
        last_of[node] = last_of[next_of[node]] if node in next_of else node
    return last_of


def _stands_alone(node: StreamNode) -> bool:
    """Tell whether PyFlink runs an operator in Java, so that it is not merged with others."""
    operator = node.operator
    if isinstance(operator, MapConfig):
        return operator.projects
    return isinstance(operator, SourceConfig | SinkConfig | TimestampsAndWatermarksConfig)


def _node_json(last: NodeId, group: list[StreamNode], predecessors: list[dict[str, object]]) -> dict[str, object]:
    name = ", ".join(node.name for node in group)
    described = [node.description for node in group if node.description != node.name]
    result: dict[str, object] = {
        "id": last,
        "type": name,
        "pact": _PACTS.get(type(group[0].operator), "Operator"),
        "contents": described[0] if described else name,
        "parallelism": group[0].parallelism,
    }
    if predecessors:
        result["predecessors"] = predecessors
    return result
