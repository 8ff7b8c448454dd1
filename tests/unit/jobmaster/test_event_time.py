"""How far event time has come in a job, and what holds it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common import Duration, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.data_stream import DataStream
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.job_graph import JobGraph
from flinkish.graph.stream_graph_generator import generate
from flinkish.jobmaster.event_time import EventTime, EventTimeGraph, Watermarks
from flinkish.runtime.protocol import MIN_WATERMARK
from tests.kit.environments import env_of
from tests.kit.programs import program_of

TIMED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
UNTIMED = WatermarkStrategy.no_watermarks()


def graph_of(build: Callable[[StreamExecutionEnvironment], Any], parallelism: int = 2) -> JobGraph:
    env = env_of(parallelism=parallelism)
    build(env)
    return build_job_graph(generate(program_of(env, "test")))


def numbers(env: StreamExecutionEnvironment, name: str, strategy: WatermarkStrategy = TIMED) -> DataStream:
    return env.from_source(NumberSequenceSource(1, 5), strategy, name)


def at(graph: JobGraph, watermarks: dict[str, list[int]]) -> Watermarks:
    """Watermarks by the names of operators, one for each subtask; those of a chain that are not named are as the last one."""
    found: dict[Any, dict[int, tuple[int, ...]]] = {}
    for vertex in graph.vertices.values():
        columns: list[list[int]] = []
        for node in vertex.operators:
            columns.append(watermarks[node.name] if node.name in watermarks else columns[-1])
        found[vertex.id] = {subtask: tuple(column[subtask] for column in columns) for subtask in range(vertex.parallelism)}
    return found


@pytest.mark.parametrize(
    ("payments", "most", "held"),
    [([50, 40], 40, ("Source: Payments", 40)), ([10, 10], 70, ("Source: Orders", 70))],
    ids=["the slowest subtask of the slowest source", "not an idle source with an older watermark"],
)
def test_what_holds_event_time_back(payments: list[int], most: int, held: tuple[str, int]) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        both = numbers(env, "Orders").union(numbers(env, "Payments"))
        both.key_by(lambda n: n, key_type=Types.LONG()).reduce(max).name("Most").sink_to(DiscardingSink())

    graph = graph_of(build)
    found = EventTimeGraph(graph).event_time(
        at(graph, {"Source: Orders": [90, 70], "Source: Payments": payments, "Most": [most, most]})
    )
    assert found == EventTime(watermark=held[1], operator=held[0], subtasks=(1,), parallelism=2)


def test_the_operator_that_assigns_watermarks_is_named_and_not_the_source_before_it() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        numbers(env, "Orders", UNTIMED).assign_timestamps_and_watermarks(TIMED).name("Times").sink_to(DiscardingSink())

    graph = graph_of(build)
    names = [node.name for vertex in graph.vertices.values() for node in vertex.operators]
    times = next(name for name in names if "Times" in name)
    found = at(graph, {"Source: Orders": [MIN_WATERMARK] * 2, times: [MIN_WATERMARK, 7]})
    held = EventTimeGraph(graph).event_time(found)
    assert held == EventTime(watermark=MIN_WATERMARK, operator=times, subtasks=(0,), parallelism=2)


def test_an_operator_that_keeps_watermarks_to_itself_is_what_holds_event_time_back() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        slow = numbers(env, "Orders").key_by(lambda n: n, key_type=Types.LONG()).reduce(max).name("Slow")
        slow.rebalance().map(lambda n: n).name("Map").sink_to(DiscardingSink())

    graph = graph_of(build)
    found = at(graph, {"Source: Orders": [90, 90], "Slow": [30, 90], "Map": [30, 30]})
    held = EventTimeGraph(graph).event_time(found)
    assert held == EventTime(watermark=30, operator="Slow", subtasks=(0,), parallelism=2)


def test_a_branch_without_watermarks_waits_for_none() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        numbers(env, "Orders").sink_to(DiscardingSink())
        numbers(env, "Names", UNTIMED).sink_to(DiscardingSink())

    graph = graph_of(build)
    found = at(graph, {"Source: Orders": [90, 80], "Source: Names": [MIN_WATERMARK] * 2})
    held = EventTimeGraph(graph).event_time(found)
    assert held == EventTime(watermark=80, operator="Source: Orders", subtasks=(1,), parallelism=2)


def test_a_sink_that_also_takes_a_stream_without_watermarks_holds_nothing_back() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        orders = numbers(env, "Orders")
        orders.key_by(lambda n: n, key_type=Types.LONG()).reduce(max).name("Most").sink_to(DiscardingSink()).name("Best")
        orders.union(numbers(env, "Names", UNTIMED)).sink_to(DiscardingSink()).name("Rest")

    graph = graph_of(build)
    none = [MIN_WATERMARK] * 2
    found = at(graph, {"Source: Orders": [90, 80], "Source: Names": none, "Most": [80, 80], "Best": [80, 80], "Sink: Rest": none})
    held = EventTimeGraph(graph).event_time(found)
    assert held == EventTime(watermark=80, operator="Source: Orders", subtasks=(1,), parallelism=2)

    # If there is nothing else, it is what the job waits for.
    def build_one(env: StreamExecutionEnvironment) -> None:
        numbers(env, "Orders").union(numbers(env, "Names", UNTIMED)).sink_to(DiscardingSink()).name("Rest")

    graph = graph_of(build_one)
    held = EventTimeGraph(graph).event_time(at(graph, {"Source: Orders": [90, 80], "Source: Names": none, "Sink: Rest": none}))
    assert held is not None
    assert (held.watermark, held.operator) == (MIN_WATERMARK, "Source: Names")


def test_a_program_without_watermarks_has_no_event_time() -> None:
    graph = graph_of(lambda env: numbers(env, "Names", UNTIMED).sink_to(DiscardingSink()))
    assert EventTimeGraph(graph).event_time(at(graph, {"Source: Names": [MIN_WATERMARK] * 2})) is None


def test_before_the_tasks_have_reported_nothing_is_known() -> None:
    graph = graph_of(lambda env: numbers(env, "Orders").sink_to(DiscardingSink()))
    assert EventTimeGraph(graph).event_time({}) is None
