from __future__ import annotations

from collections.abc import Callable

import pytest

from flinkish.common.errors import InvalidProgramError
from flinkish.common.ids import OperatorUid
from flinkish.graph.stream_graph import NodeId, StreamGraph
from flinkish.graph.stream_graph_generator import default_max_parallelism, generate, with_recorded_max_parallelism
from flinkish.program.operators import SinkConfig, SourceConfig
from flinkish.program.transformations import Partitioning, UnaryTransformation
from tests.unit.graph.programs import LONG, STRING, ProgramBuilder, by_value


def strategies(graph: StreamGraph, target: int) -> list[str]:
    return [edge.partitioner.partitioning.value for edge in graph.edges if edge.target == target]


def test_a_source_and_a_sink_become_nodes_with_flinks_prefixes() -> None:
    build = ProgramBuilder()
    source = build.source("Numbers")
    sink = build.sink(source, "Print to Std. Out")
    graph = generate(build.build())
    assert [node.name for node in graph.nodes.values()] == ["Source: Numbers", "Sink: Print to Std. Out"]
    assert isinstance(graph.nodes[NodeId(source)].operator, SourceConfig)
    assert isinstance(graph.nodes[NodeId(sink)].operator, SinkConfig)


def test_the_same_parallelism_is_connected_forward_and_another_by_rebalance() -> None:
    build = ProgramBuilder()
    first = build.map(build.source())
    second = build.map(first, parallelism=3)
    graph = generate(build.build(parallelism=2))
    assert strategies(graph, first) == ["FORWARD"]
    assert strategies(graph, second) == ["REBALANCE"]


@pytest.mark.parametrize(("partitioned", "parallelism"), [(False, 2), (True, 1)])
def test_a_sink_beside_its_input_has_its_parallelism_unless_that_is_partitioned(partitioned: bool, parallelism: int) -> None:
    build = ProgramBuilder()
    read = build.map(build.source())
    sink = build.sink(build.partition(read, Partitioning.REBALANCE) if partitioned else read, parallelism=1, beside_input=True)
    graph = generate(build.build(parallelism=2))
    assert graph.nodes[NodeId(sink)].parallelism == parallelism
    assert strategies(graph, sink) == ["REBALANCE" if partitioned else "FORWARD"]


def test_a_sink_beside_a_union_has_its_own_parallelism() -> None:
    build = ProgramBuilder()
    sink = build.sink(build.union(build.map(build.source()), build.map(build.source())), parallelism=1, beside_input=True)
    assert generate(build.build(parallelism=2)).nodes[NodeId(sink)].parallelism == 1


def test_an_operator_that_cannot_be_parallel_runs_once() -> None:
    build = ProgramBuilder()
    source = build.source(can_be_parallel=False)
    mapped = build.map(source)
    graph = generate(build.build(parallelism=4))
    assert graph.nodes[NodeId(source)].parallelism == 1
    assert strategies(graph, mapped) == ["REBALANCE"]


def test_a_keyed_operator_gets_selector_key_type_and_a_hash_edge() -> None:
    build = ProgramBuilder()
    keyed = build.keyed_process(build.source())
    graph = generate(build.build())
    node = graph.nodes[NodeId(keyed)]
    assert node.key_selectors == (by_value,)
    assert node.key_type is LONG
    assert strategies(graph, keyed) == ["HASH"]
    assert graph.edges[0].partitioner.key_selector is by_value


def test_a_two_input_operator_numbers_its_inputs() -> None:
    build = ProgramBuilder()
    first, second = build.source("A"), build.source("B")
    joined = build.keyed_co_process(first, second)
    graph = generate(build.build())
    assert [(edge.source, edge.input_index) for edge in graph.edges] == [(first, 0), (second, 1)]
    assert graph.nodes[NodeId(joined)].key_selectors == (by_value, by_value)
    assert graph.nodes[NodeId(joined)].input_types == (LONG, LONG)


def test_a_union_adds_no_node_but_an_edge_from_each_input() -> None:
    build = ProgramBuilder()
    first, second = build.source("A"), build.source("B")
    mapped = build.map(build.union(first, build.partition(second, Partitioning.RESCALE)))
    graph = generate(build.build())
    assert list(graph.nodes) == [first, second, mapped]
    assert strategies(graph, mapped) == ["FORWARD", "RESCALE"]
    assert {edge.input_index for edge in graph.edges} == {0}


def test_a_stream_united_with_itself_is_read_twice() -> None:
    build = ProgramBuilder()
    source = build.source()
    mapped = build.map(build.union(source, source))
    assert strategies(generate(build.build()), mapped) == ["FORWARD", "FORWARD"]


def test_the_partitioning_nearest_to_the_reader_wins() -> None:
    build = ProgramBuilder()
    spread = build.partition(build.partition(build.source(), Partitioning.SHUFFLE), Partitioning.BROADCAST)
    mapped = build.map(spread)
    assert strategies(generate(build.build()), mapped) == ["BROADCAST"]


def test_a_side_output_is_an_edge_with_its_tag_and_type() -> None:
    build = ProgramBuilder()
    processed = build.map(build.source())
    late = build.sink(build.side_output(processed, "late"))
    graph = generate(build.build())
    (edge,) = [edge for edge in graph.edges if edge.target == late]
    assert edge.source == processed
    assert edge.side_output is not None
    assert edge.side_output.tag_id == "late"
    assert graph.nodes[NodeId(late)].input_types == (STRING,)


def test_partitioning_before_a_side_output_does_not_count_and_after_it_does() -> None:
    build = ProgramBuilder()
    spread = build.partition(build.map(build.source()), Partitioning.SHUFFLE)
    plain = build.sink(build.side_output(spread, "late"))
    spread_again = build.sink(build.partition(build.side_output(spread, "late"), Partitioning.GLOBAL))
    graph = generate(build.build())
    assert strategies(graph, plain) == ["FORWARD"]
    assert strategies(graph, spread_again) == ["GLOBAL"]


def test_an_unknown_kind_of_transformation_is_named() -> None:
    class Strange(UnaryTransformation):
        pass

    build = ProgramBuilder()
    read = build.source()
    build._add(Strange, name="odd", input=read)
    with pytest.raises(InvalidProgramError, match=r"no translator for Strange .transformation 'odd'."):
        generate(build.build())


def test_slot_sharing_groups_are_inherited_where_all_inputs_agree() -> None:
    build = ProgramBuilder()
    first = build.source("A", slot_sharing_group="left")
    second = build.source("B")
    inherited = build.map(first)
    mixed = build.map(build.union(inherited, second))
    graph = generate(build.build())
    assert [graph.nodes[NodeId(node)].slot_sharing_group for node in (inherited, mixed)] == ["left", "default"]


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (128, 256), (200, 512), (21845, 32768), (32768, 32768)]
)
def test_the_default_maximum_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


def test_a_maximum_parallelism_that_is_set_goes_before_that_of_the_checkpoint() -> None:
    build = ProgramBuilder()
    source = build.source(uid="free")
    keyed = build.keyed_process(source, uid="set", max_parallelism=64)
    recorded = {OperatorUid("free"): 512, OperatorUid("set"): 512}
    graph = with_recorded_max_parallelism(generate(build.build()), recorded)
    assert [graph.nodes[NodeId(node)].max_parallelism for node in (source, keyed)] == [512, 64]


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda build: build.map(build.source("Collection", can_be_parallel=False, parallelism=2)),
            "'Source: Collection' can only run with parallelism 1; got 2",
        ),
        (
            lambda build: build.map(
                build.partition(build.source(), Partitioning.REBALANCE), key_selector=by_value, key_type=LONG
            ),
            r"'Map' is keyed, but what it reads .* REBALANCE",
        ),
        (
            lambda build: build.map(build.partition(build.source(), Partitioning.FORWARD), parallelism=3),
            r"forward.. from 'Source: Numbers' .parallelism 2. to 'Map' .parallelism 3.",
        ),
        (
            lambda build: build.keyed_process(build.source(), "Count", parallelism=8, max_parallelism=4),
            "parallelism of 'Count' is 8, more than its maximum parallelism of 4",
        ),
        (lambda build: build.map(build.source(), max_parallelism=0), "between 1 and 32768; got 0"),
        (lambda build: build.map(build.source(), max_parallelism=-7), "between 1 and 32768; got -7"),
        (lambda build: build.map(build.source(), max_parallelism=32769), "between 1 and 32768; got 32769"),
        (lambda build: build.map(build.source(), parallelism=0), "parallelism of 'Map' must be at least 1; got 0"),
    ],
)
def test_what_cannot_run_is_refused(add: Callable[[ProgramBuilder], int], message: str) -> None:
    build = ProgramBuilder()
    add(build)
    with pytest.raises(InvalidProgramError, match=message):
        generate(build.build())
