"""Builds the job graph from the stream graph: operators that can call each other directly become one vertex."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from flinkish.graph.job_graph import ChainEdge, EdgeId, JobEdge, JobGraph, JobVertex, VertexId
from flinkish.graph.stream_graph import NodeId, StreamEdge, StreamGraph, StreamNode
from flinkish.program.transformations import ChainingStrategy, Partitioning


def build_job_graph(stream_graph: StreamGraph) -> JobGraph:
    """Return the job graph: vertices in topological order, edges in the order of their target and its inputs."""
    in_edges = _by_target(stream_graph.edges)
    chained = [edge for edge in stream_graph.edges if is_chainable(edge, stream_graph, len(in_edges[edge.target]))]
    head_of = _heads(stream_graph, chained)
    members: dict[NodeId, list[StreamNode]] = defaultdict(list)
    for node in stream_graph.nodes.values():
        members[head_of[node.id]].append(node)
    chain_edges: dict[NodeId, list[ChainEdge]] = defaultdict(list)
    for edge in chained:
        chain_edges[head_of[edge.target]].append(ChainEdge(source=edge.source, target=edge.target, side_output=edge.side_output))
    vertices = {
        VertexId(head): JobVertex(
            id=VertexId(head),
            name=_chain_name(nodes, chain_edges[head]),
            operators=tuple(nodes),
            chain_edges=tuple(chain_edges[head]),
            parallelism=nodes[0].parallelism,
            # The head decides, because only the head of a chain can be keyed.
            max_parallelism=nodes[0].max_parallelism,
            slot_sharing_group=nodes[0].slot_sharing_group,
        )
        for head, nodes in members.items()
    }
    # Every unchained edge leads to a head: any other operator of a chain has one input only, the chained edge.
    network = [edge for head in members for edge in in_edges[head]]
    edges = tuple(
        JobEdge(
            id=EdgeId(number),
            source_vertex=VertexId(head_of[edge.source]),
            source=edge.source,
            target_vertex=VertexId(edge.target),
            input_index=edge.input_index,
            partitioner=edge.partitioner,
            side_output=edge.side_output,
        )
        for number, edge in enumerate(network)
    )
    return JobGraph(job_name=stream_graph.job_name, vertices=vertices, edges=edges)


def is_chainable(edge: StreamEdge, stream_graph: StreamGraph, inputs_of_target: int) -> bool:
    """Tell whether the source of an edge may call its target directly.

    Flink's rule: the target has this one input only; the edge is FORWARD; both have the same parallelism, slot sharing group
    and, if the configuration demands it, maximum parallelism; the source's chaining strategy is not NEVER, the target's is
    ALWAYS; chaining is enabled.
    """
    source, target = stream_graph.nodes[edge.source], stream_graph.nodes[edge.target]
    return (
        stream_graph.chaining_enabled
        and inputs_of_target == 1
        and edge.partitioner.partitioning is Partitioning.FORWARD
        and source.parallelism == target.parallelism
        and source.slot_sharing_group == target.slot_sharing_group
        and (stream_graph.chain_different_max_parallelism or source.max_parallelism == target.max_parallelism)
        and source.chaining_strategy is not ChainingStrategy.NEVER
        and target.chaining_strategy is ChainingStrategy.ALWAYS
    )


def _by_target(edges: Iterable[StreamEdge]) -> Mapping[NodeId, Sequence[StreamEdge]]:
    result: dict[NodeId, list[StreamEdge]] = defaultdict(list)
    for edge in edges:
        result[edge.target].append(edge)
    for read in result.values():
        read.sort(key=lambda edge: edge.input_index)
    return result


def _heads(stream_graph: StreamGraph, chained: Sequence[StreamEdge]) -> Mapping[NodeId, NodeId]:
    before = {edge.target: edge.source for edge in chained}
    head_of: dict[NodeId, NodeId] = {}
    for node in stream_graph.nodes:
        head_of[node] = head_of[before[node]] if node in before else node
    return head_of


def _chain_name(nodes: Sequence[StreamNode], edges: Sequence[ChainEdge]) -> str:
    """Return the name as Flink writes it: `A -> B`, with branches `A -> (B, C -> D)`."""
    after: dict[NodeId, list[NodeId]] = defaultdict(list)
    for edge in edges:
        after[edge.source].append(edge.target)
    names: dict[NodeId, str] = {}
    for node in reversed(nodes):  # the successors of a node are named before the node
        rest = [names[target] for target in dict.fromkeys(after[node.id])]
        match rest:
            case []:
                names[node.id] = node.name
            case [one]:
                names[node.id] = f"{node.name} -> {one}"
            case several:
                names[node.id] = f"{node.name} -> ({', '.join(several)})"
    return names[nodes[0].id]
