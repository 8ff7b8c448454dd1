"""Results come in the order in which one subtask would take them from all others, although none does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.datastream import DataStream
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.kit.environments import env_of
from tests.kit.functions import Punctuated


def numbers() -> DataStream[int]:
    env = env_of({"execution.epoch.max-records": 50}, 3)
    times = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda value, _: value % 200)
    return env.from_source(NumberSequenceSource(0, 599), times, "numbers", Types.LONG())


def reduced(stream: DataStream[int]) -> DataStream[Any]:
    return stream.key_by(lambda value: value % 7, Types.LONG()).reduce(max)


def windows(stream: DataStream[int]) -> DataStream[Any]:
    keyed = stream.key_by(lambda value: value % 7, Types.LONG())
    return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(max)


@pytest.mark.parametrize("build", [lambda stream: stream, reduced, windows], ids=["source", "reduce", "windows"])
def test_the_order_is_that_of_one_subtask_behind_an_exchange(build: Callable[[DataStream[int]], DataStream[Any]]) -> None:
    with build(numbers()).execute_and_collect() as direct, build(numbers()).rebalance().execute_and_collect() as exchanged:
        found = [*direct]
        assert found == [*exchanged]
    assert len(found) > 100
