from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flinkish.graph.chaining import build_job_graph
from flinkish.graph.execution_plan import ExecutionPlan, plan, stays_in_slot
from flinkish.graph.job_graph import VertexId
from flinkish.graph.stream_graph_generator import generate
from flinkish.program.transformations import Partitioning
from tests.unit.graph.programs import ProgramBuilder


def planned(build: ProgramBuilder, **fields: Any) -> ExecutionPlan:
    return plan(build_job_graph(generate(build.build(**fields))))


def test_a_job_without_exchange_has_one_level() -> None:
    build = ProgramBuilder()
    source = build.source()
    build.sink(build.map(source))
    result = planned(build, parallelism=3)
    assert result.levels == ((source,),)
    assert result.slots == 3


def test_each_exchange_leads_one_level_down() -> None:
    build = ProgramBuilder()
    source = build.source()
    first = build.keyed_process(source)
    second = build.keyed_process(first)
    assert planned(build).levels == ((source,), (first,), (second,))


def test_a_vertex_stands_below_its_deepest_input() -> None:
    build = ProgramBuilder()
    source = build.source()
    deep = build.keyed_process(source)
    joined = build.keyed_co_process(source, deep)
    assert planned(build).level_of[VertexId(joined)] == 2


def test_exchanges_side_by_side_share_a_level() -> None:
    build = ProgramBuilder()
    source = build.source()
    first, second = build.keyed_process(source), build.keyed_process(source)
    assert planned(build).levels == ((source,), (first, second))


def test_forward_edges_between_vertices_stay_on_the_level() -> None:
    build = ProgramBuilder()
    left, right = build.source("A"), build.source("B")
    united = build.map(build.union(left, right))
    assert planned(build).levels == ((left, right, united),)


def test_a_forward_edge_into_another_slot_sharing_group_is_an_exchange() -> None:
    build = ProgramBuilder()
    source = build.source()
    mapped = build.map(source, slot_sharing_group="other")
    result = planned(build, parallelism=2)
    assert result.levels == ((source,), (mapped,))
    assert result.slots == 4
    assert result.slot_of(VertexId(mapped), 1) == 3


def test_a_group_has_as_many_slots_as_its_highest_parallelism() -> None:
    build = ProgramBuilder()
    source = build.source(parallelism=1)
    mapped = build.map(source, parallelism=4)
    other = build.map(mapped, parallelism=2, slot_sharing_group="other")
    result = planned(build)
    assert (result.slots, dict(result.slot_offsets)) == (6, {"default": 0, "other": 4})
    assert [result.subtask_in(VertexId(source), slot) for slot in range(6)] == [0, None, None, None, None, None]
    assert [result.subtask_in(VertexId(other), slot) for slot in range(6)] == [None, None, None, None, 0, 1]


@st.composite
def programs(draw: st.DrawFn) -> ProgramBuilder:
    """Random programs: every new operator reads some earlier ones in some way."""
    build = ProgramBuilder()
    readable = [build.source(parallelism=draw(st.sampled_from([None, 1, 3])))]
    for _ in range(draw(st.integers(1, 12))):
        read = draw(st.sampled_from(readable))
        other = draw(st.sampled_from(readable))
        fields = {
            "parallelism": draw(st.sampled_from([None, 1, 3])),
            "slot_sharing_group": draw(st.sampled_from([None, None, None, "g"])),
        }
        match draw(st.sampled_from(["map", "keyed", "union", "co", "shuffle", "source", "side"])):
            case "map":
                readable.append(build.map(read, **fields))
            case "keyed":
                readable.append(build.keyed_process(read, **fields))
            case "union":
                readable.append(build.map(build.union(read, other), **fields))
            case "co":
                readable.append(build.keyed_co_process(read, other, **fields))
            case "shuffle":
                readable.append(build.map(build.partition(read, Partitioning.SHUFFLE), **fields))
            case "side":
                readable.append(build.map(build.side_output(read, "side"), **fields))
            case "source":
                readable.append(build.source(**fields))
    build.sink(draw(st.sampled_from(readable)))
    return build


@given(programs())
def test_every_plan_obeys_the_rules(build: ProgramBuilder) -> None:
    stream_graph = generate(build.build())
    job_graph = build_job_graph(stream_graph)
    result = plan(job_graph)
    operators = [node.id for vertex in job_graph.vertices.values() for node in vertex.operators]
    assert sorted(operators) == sorted(stream_graph.nodes)
    chained = sum(len(vertex.chain_edges) for vertex in job_graph.vertices.values())
    assert chained + len(job_graph.edges) == len(stream_graph.edges)
    assert sorted(vertex for level in result.levels for vertex in level) == sorted(job_graph.vertices)
    assert all(result.levels)
    order = list(job_graph.vertices)
    for edge in job_graph.edges:
        source, target = edge.source_vertex, edge.target_vertex
        assert order.index(source) < order.index(target)
        down = result.level_of[target] - result.level_of[source]
        assert down >= (0 if stays_in_slot(edge, job_graph) else 1)
        if down == 0:
            subtasks = range(job_graph.vertices[source].parallelism)
            assert all(result.slot_of(source, i) == result.slot_of(target, i) for i in subtasks)
    for vertex in job_graph.vertices.values():
        assert not any(node.key_selectors for node in vertex.operators[1:])
        slots = [result.slot_of(vertex.id, subtask) for subtask in range(vertex.parallelism)]
        assert all(0 <= slot < result.slots for slot in slots)
        assert [result.subtask_in(vertex.id, slot) for slot in slots] == list(range(vertex.parallelism))
