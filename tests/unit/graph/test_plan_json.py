from __future__ import annotations

import json
from typing import Any

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.graph.plan_json import plan_json
from flinkish.graph.stream_graph_generator import generate
from tests.unit.graph.programs import ProgramBuilder


def nodes(build: ProgramBuilder) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(plan_json(generate(build.build())))["nodes"]
    return result


def test_sources_operators_and_sinks_have_flinks_fields() -> None:
    build = ProgramBuilder()
    build.sink(build.map(build.source("Collection Source", can_be_parallel=False)))
    assert nodes(build) == [
        {
            "id": 1,
            "type": "Source: Collection Source",
            "pact": "Data Source",
            "contents": "Source: Collection Source",
            "parallelism": 1,
        },
        {
            "id": 2,
            "type": "Map",
            "pact": "Operator",
            "contents": "Map",
            "parallelism": 2,
            "predecessors": [{"id": 1, "ship_strategy": "REBALANCE", "side": "second"}],
        },
        {
            "id": 3,
            "type": "Sink: Print",
            "pact": "Data Sink",
            "contents": "Sink: Print",
            "parallelism": 2,
            "predecessors": [{"id": 2, "ship_strategy": "FORWARD", "side": "second"}],
        },
    ]


def test_operators_chained_one_to_one_show_as_one_node() -> None:
    build = ProgramBuilder()
    mapped = build.map(build.source())
    filtered = build.map(mapped, "Filter")
    build.keyed_process(filtered)
    shown = nodes(build)
    assert [node["type"] for node in shown] == ["Source: Numbers", "Map, Filter", "KEYED PROCESS"]
    assert shown[2]["predecessors"] == [{"id": filtered, "ship_strategy": "HASH", "side": "second"}]


def test_what_pyflink_runs_in_java_stands_alone() -> None:
    """The nodes and edges are those of PyFlink 2.3.0."""
    env = StreamExecutionEnvironment(Configuration.from_dict({"parallelism.default": "1"}))
    number = Types.TUPLE([Types.INT()])
    stream = env.from_collection([(1, 2)], Types.TUPLE([Types.INT(), Types.INT()]))
    stream.map(lambda pair: pair, Types.TUPLE([Types.INT(), Types.INT()])).project(1).map(lambda one: one, number).filter(
        lambda one: True
    ).print()
    stream.map(lambda pair: pair, number).assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).map(
        lambda one: one, number
    ).print()

    shown = json.loads(env.get_execution_plan())["nodes"]
    names = {node["id"]: node["type"] for node in shown}

    assert sorted((names[before["id"]], node["type"]) for node in shown for before in node.get("predecessors", ())) == [
        ("Map", "Projection"),
        ("Map", "Sink: Print to Std. Out"),
        ("Map", "Timestamps/Watermarks"),
        ("Map, Filter", "Sink: Print to Std. Out"),
        ("Projection", "Map, Filter"),
        ("Source: Collection Source", "Map"),
        ("Source: Collection Source", "Map"),
        ("Timestamps/Watermarks", "Map"),
    ]


def test_an_operator_with_two_readers_is_not_merged_with_either() -> None:
    build = ProgramBuilder()
    mapped = build.map(build.source(), "A")
    build.map(mapped, "B")
    build.map(mapped, "C")
    assert [node["type"] for node in nodes(build)] == ["Source: Numbers", "A", "B", "C"]


def test_a_description_shows_in_the_contents() -> None:
    build = ProgramBuilder()
    first = build.map(build.source(), description="parses lines")
    build.map(first, "Filter")
    assert [(node["type"], node["contents"]) for node in nodes(build)][1] == ("Map, Filter", "parses lines")


def test_a_union_adds_no_node() -> None:
    build = ProgramBuilder()
    build.map(build.union(build.source("A"), build.source("B")))
    shown = nodes(build)
    assert len(shown) == 3
    assert [predecessor["id"] for predecessor in shown[2]["predecessors"]] == [1, 2]
