"""The operator behind broadcast state in the graphs: one keyed edge (or not), one to all subtasks."""

from __future__ import annotations

from typing import Any, cast

from flinkish.graph.chaining import build_job_graph
from flinkish.graph.execution_plan import plan
from flinkish.graph.stream_graph_generator import generate
from flinkish.program.operators import BroadcastProcessConfig, KeyedBroadcastProcessConfig
from flinkish.program.transformations import Partitioning, TwoInputTransformation
from tests.unit.graph.programs import LONG, ProgramBuilder, by_value


def build(*, keyed: bool) -> Any:
    program = ProgramBuilder()
    regular, rules = program.source("Numbers"), program.source("Rules")
    kind: Any = KeyedBroadcastProcessConfig if keyed else BroadcastProcessConfig
    node = program._add(
        TwoInputTransformation,
        name="Both",
        first_input=program.key_by(regular) if keyed else regular,
        second_input=program.partition(rules, Partitioning.BROADCAST),
        operator=kind(function=cast(Any, None), state_descriptors=()),
        **({"first_key_selector": by_value, "key_type": LONG} if keyed else {}),
    )
    program.sink(node)
    return generate(program.build()), node


def test_a_keyed_one_reads_a_hash_edge_and_a_broadcast_edge() -> None:
    graph, node = build(keyed=True)

    edges = {edge.input_index: edge.partitioner.partitioning for edge in graph.edges if edge.target == node}
    assert edges == {0: Partitioning.HASH, 1: Partitioning.BROADCAST}
    assert graph.nodes[node].key_selectors == (by_value,)
    assert graph.nodes[node].key_type == LONG


def test_one_without_keys_reads_a_forward_edge_and_a_broadcast_edge() -> None:
    graph, node = build(keyed=False)

    edges = {edge.input_index: edge.partitioner.partitioning for edge in graph.edges if edge.target == node}
    assert edges == {0: Partitioning.FORWARD, 1: Partitioning.BROADCAST}
    assert graph.nodes[node].key_type is None


def test_it_is_the_head_of_its_vertex_one_level_below_the_broadcast_stream() -> None:
    graph, node = build(keyed=False)
    job_graph = build_job_graph(graph)

    assert job_graph.vertices[node].head.id == node
    assert [vertex.name for vertex in job_graph.vertices.values()] == [
        "Source: Numbers",
        "Source: Rules",
        "Both -> Sink: Print",
    ]
    assert plan(job_graph).level_of[node] == 1
