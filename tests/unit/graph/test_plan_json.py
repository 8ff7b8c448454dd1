from __future__ import annotations

import json
from typing import Any

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
