from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import pickling
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.job_graph import JobGraph, VertexId
from flinkish.graph.stream_graph_generator import generate
from flinkish.program.transformations import ChainingStrategy, Partitioning
from tests.unit.graph.programs import ProgramBuilder


def job_graph(build: ProgramBuilder, **fields: Any) -> JobGraph:
    return build_job_graph(generate(build.build(**fields)))


def names(build: ProgramBuilder, **fields: Any) -> list[str]:
    return [vertex.name for vertex in job_graph(build, **fields).vertices.values()]


def test_forward_neighbours_of_the_same_parallelism_become_one_vertex() -> None:
    build = ProgramBuilder()
    source = build.source()
    build.sink(build.map(source))
    graph = job_graph(build)
    (vertex,) = graph.vertices.values()
    assert vertex.name == "Source: Numbers -> Map -> Sink: Print"
    assert vertex.id == source
    assert [(edge.source, edge.target) for edge in vertex.chain_edges] == [(1, 2), (2, 3)]
    assert graph.edges == ()


def test_branches_of_a_chain_are_named_in_brackets() -> None:
    build = ProgramBuilder()
    source = build.source()
    build.sink(source, "A")
    build.sink(build.map(source), "B")
    assert names(build) == ["Source: Numbers -> (Sink: A, Map -> Sink: B)"]


def test_a_side_output_is_chained_with_its_tag() -> None:
    build = ProgramBuilder()
    build.sink(build.side_output(build.map(build.source()), "late"))
    (vertex,) = job_graph(build).vertices.values()
    tag = vertex.chain_edges[-1].side_output
    assert tag is not None
    assert tag.tag_id == "late"


def test_a_keyed_operator_is_the_head_of_a_chain_even_at_parallelism_1() -> None:
    build = ProgramBuilder()
    build.sink(build.keyed_process(build.source()))
    assert names(build, parallelism=1) == ["Source: Numbers", "KEYED PROCESS -> Sink: Print"]


@pytest.mark.parametrize(
    ("strategy_of_first", "strategy_of_second", "expected"),
    [
        (ChainingStrategy.ALWAYS, ChainingStrategy.ALWAYS, ["Source: Numbers -> First -> Second"]),
        (ChainingStrategy.HEAD, ChainingStrategy.ALWAYS, ["Source: Numbers", "First -> Second"]),
        (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD, ["Source: Numbers -> First", "Second"]),
        (ChainingStrategy.NEVER, ChainingStrategy.ALWAYS, ["Source: Numbers", "First", "Second"]),
        (ChainingStrategy.ALWAYS, ChainingStrategy.NEVER, ["Source: Numbers -> First", "Second"]),
    ],
)
def test_the_chaining_strategy_decides(
    strategy_of_first: ChainingStrategy, strategy_of_second: ChainingStrategy, expected: list[str]
) -> None:
    build = ProgramBuilder()
    first = build.map(build.source(), "First", chaining_strategy=strategy_of_first)
    build.map(first, "Second", chaining_strategy=strategy_of_second)
    assert names(build) == expected


def test_another_slot_sharing_group_is_not_chained() -> None:
    build = ProgramBuilder()
    build.map(build.source(), slot_sharing_group="other")
    assert names(build) == ["Source: Numbers", "Map"]


def test_another_parallelism_is_not_chained() -> None:
    build = ProgramBuilder()
    build.map(build.source(), parallelism=1)
    assert names(build) == ["Source: Numbers", "Map"]


@pytest.mark.parametrize("partitioning", [p for p in Partitioning if p is not Partitioning.FORWARD])
def test_what_is_not_forward_is_not_chained(partitioning: Partitioning) -> None:
    build = ProgramBuilder()
    build.map(build.partition(build.source(), partitioning))
    assert names(build) == ["Source: Numbers", "Map"]


def test_an_operator_that_reads_a_union_is_not_chained() -> None:
    build = ProgramBuilder()
    build.map(build.union(build.source("A"), build.source("B")))
    assert names(build) == ["Source: A", "Source: B", "Map"]


def test_the_global_switch_turns_chaining_off() -> None:
    build = ProgramBuilder()
    build.sink(build.map(build.source()))
    assert names(build, chaining=False) == ["Source: Numbers", "Map", "Sink: Print"]


def test_another_maximum_parallelism_is_not_chained_if_that_is_switched_off() -> None:
    build = ProgramBuilder()
    build.map(build.source(), max_parallelism=64)
    assert names(build) == ["Source: Numbers -> Map"]
    assert names(build, chaining_with_different_max_parallelism=False) == ["Source: Numbers", "Map"]


def test_edges_are_numbered_by_target_and_come_in_the_order_of_its_inputs() -> None:
    build = ProgramBuilder()
    left, right = build.source("A"), build.source("B")
    joined = build.keyed_co_process(build.map(right), left)
    build.keyed_process(joined)
    graph = job_graph(build)
    assert [edge.id for edge in graph.edges] == [0, 1, 2]
    assert [(edge.source_vertex, edge.source, edge.input_index) for edge in graph.inputs(VertexId(joined))] == [
        (right, 3, 0),
        (left, 1, 1),
    ]
    assert [edge.id for edge in graph.outputs(VertexId(joined))] == [2]


def test_a_long_chain_is_built_without_recursion() -> None:
    build = ProgramBuilder()
    last = build.source()
    for _ in range(3000):
        last = build.map(last)
    (vertex,) = job_graph(build).vertices.values()
    assert len(vertex.operators) == 3001


def test_a_job_graph_pickles() -> None:
    build = ProgramBuilder()
    build.sink(build.keyed_process(build.source()))
    graph = job_graph(build)
    copy: JobGraph = pickling.loads(pickling.dumps(graph))
    assert list(copy.vertices) == list(graph.vertices)
    assert [edge.id for edge in copy.edges] == [edge.id for edge in graph.edges]
