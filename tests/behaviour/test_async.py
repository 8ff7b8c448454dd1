"""Asynchronous functions on both engines, also across a failure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinkish.datastream.async_retry_predicates import has_exception_predicate
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from tests.conftest import MakeEnvironment, locally
from tests.kit.functions import fail_once
from tests.kit.restarts import recovering
from tests.kit.results import collect

TIMEOUT = Time.seconds(60)


class InPairs(AsyncFunction):
    """Its calls end in pairs; in each pair the later call ends first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.arrived = asyncio.Event()

    async def async_invoke(self, value: int) -> list[int]:
        if value % 2:
            self.arrived.set()
            await asyncio.sleep(0)
        else:
            self.arrived.clear()
            await self.arrived.wait()
        return [value]


@locally
def test_results_of_ordered_wait_come_in_the_order_of_the_records(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    stream = AsyncDataStream.ordered_wait(env.from_collection(range(100)), InPairs(), TIMEOUT, 2, Types.INT())
    assert collect(stream) == list(range(100))


def test_all_results_of_unordered_wait_come(env: StreamExecutionEnvironment) -> None:
    class Twice(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(0)
            return [value, -value]

    stream = AsyncDataStream.unordered_wait(env.from_collection(range(1, 101)), Twice(), TIMEOUT, output_type=Types.INT())
    assert sorted(collect(stream)) == sorted([*range(1, 101), *range(-100, 0)])


@locally
def test_failed_calls_are_tried_again(env: StreamExecutionEnvironment) -> None:
    class Flaky(AsyncFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.seen: set[int] = set()

        async def async_invoke(self, value: int) -> list[int]:
            if value not in self.seen:
                self.seen.add(value)
                raise ConnectionError("not yet")
            return [value]

    strategy = AsyncRetryStrategy.fixed_delay(1, 5, None, has_exception_predicate)
    stream = AsyncDataStream.unordered_wait_with_retry(env.from_collection(range(20)), Flaky(), TIMEOUT, strategy)
    assert sorted(collect(stream)) == list(range(20))


NONE, NUMBER = (None, "The result of AsyncFunction cannot be none"), (1, "The result of AsyncFunction should be of list type")


@locally
@pytest.mark.parametrize(("result", "text"), [NONE, NUMBER])
def test_a_result_that_is_no_list_fails_the_job(env: StreamExecutionEnvironment, result: Any, text: str) -> None:
    class Wrong(AsyncFunction):
        async def async_invoke(self, value: int) -> Any:
            return result

    with pytest.raises(JobExecutionError, match=text):
        collect(AsyncDataStream.unordered_wait(env.from_collection([1]), Wrong(), TIMEOUT))


@locally
def test_a_call_that_times_out_fails_the_job_unless_timeout_gives_a_result(env: StreamExecutionEnvironment) -> None:
    class Endless(AsyncFunction):
        async def async_invoke(self, value: int) -> list[Any]:
            await asyncio.Event().wait()
            return []

    class Patient(Endless):
        def timeout(self, value: int) -> list[Any]:
            return [("timeout", value)]

    short = Time.milliseconds(20)
    assert collect(AsyncDataStream.ordered_wait(env.from_collection([1]), Patient(), short)) == [("timeout", 1)]
    with pytest.raises(JobExecutionError, match="timed out for input: 1"):
        collect(AsyncDataStream.ordered_wait(env.from_collection([1]), Endless(), short))


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
