"""Asynchronous functions on both engines, also across a failure."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.datastream import (
    AsyncDataStream,
    AsyncFunction,
    StreamExecutionEnvironment,
)
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from tests.conftest import MakeEnvironment
from tests.kit.functions import fail_once
from tests.kit.restarts import recovering
from tests.kit.results import collect

TIMEOUT = Time.seconds(60)


def test_all_results_of_unordered_wait_come(env: StreamExecutionEnvironment) -> None:
    class Twice(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(0)
            return [value, -value]

    stream = AsyncDataStream.unordered_wait(env.from_collection(range(1, 101)), Twice(), TIMEOUT, output_type=Types.INT())
    assert sorted(collect(stream)) == sorted([*range(1, 101), *range(-100, 0)])


def test_nothing_is_lost_or_repeated_by_a_failure(make_env: MakeEnvironment, tmp_path: Path) -> None:
    class Failing(AsyncFunction):
        """Fails once in all attempts."""

        def __init__(self, markers: Path) -> None:
            self.markers = markers

        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(0)
            if value == 300:
                fail_once(self.markers, value)
            return [value]

    env = make_env(settings=recovering(tmp_path, 80))
    numbers = env.from_source(NumberSequenceSource(0, 599), WatermarkStrategy.no_watermarks(), "numbers")
    results = collect(AsyncDataStream.unordered_wait(numbers, Failing(tmp_path / "failed"), TIMEOUT, 7).rebalance())
    assert (tmp_path / "failed").exists()
    assert sorted(results) == list(range(600))
