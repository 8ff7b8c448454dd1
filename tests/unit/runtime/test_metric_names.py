"""Metrics of operators that have the same name are told apart."""

from __future__ import annotations

import logging

import pytest

from flinkish.common import Types
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.functions import MapFunction, RuntimeContext
from tests.kit.environments import env_of


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        self._seen = group.counter("seen")
        group.gauge("last", lambda: self._last)
        self._last = -1

    def map(self, value: int) -> int:
        self._seen.inc()
        self._last = value
        return value + 1


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return env_of()


def test_operators_of_one_name_have_metrics_of_their_own_in_one_task_and_in_several(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = env.from_collection([1, 2, 3], Types.LONG())
    chained = numbers.map(Counting(), Types.LONG()).uid("first").map(Counting(), Types.LONG()).uid("second")
    odd = chained.filter(lambda value: value % 2 == 1).rebalance()
    odd.map(Counting(), Types.LONG()).uid("third").sink_to(DiscardingSink())
    with caplog.at_level(logging.WARNING):
        results = env.execute().get_all_accumulator_results()
    assert {name: value for name, value in results.items() if "seen" in name} == {
        "Map.first.seen": 3,
        "Map.second.seen": 3,
        "Map.third.seen": 2,
    }
    assert (results["Map.first.last"], results["Map.second.last"]) == (3, 4)
    assert "gauge" not in caplog.text


def test_an_operator_with_a_name_of_its_own_needs_no_more_than_that(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1, 2, 3], Types.LONG())
    numbers.map(Counting(), Types.LONG()).name("one").map(Counting(), Types.LONG()).sink_to(DiscardingSink())
    results = env.execute().get_all_accumulator_results()
    assert {name: value for name, value in results.items() if "seen" in name} == {"one.seen": 3, "Map.seen": 3}
