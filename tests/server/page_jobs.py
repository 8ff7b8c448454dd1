"""The jobs that the page is shown with, on the local engine: one that runs, one that has failed, one with a slow vertex."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from flinkish.common import Duration, Time, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import MapFunction, RuntimeContext
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.unit.server.support import make_env

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
#: 2024-01-01 in milliseconds, where the event times begin.
BEGIN = 1_704_067_200_000
SETTINGS = {"execution.epoch.max-records": "50", "execution.checkpointing.interval": "1 s", "rest.secret": "do not show"}


class Count(MapFunction):
    """Counts what it sees, as a metric of the user."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: int) -> tuple[int, int]:
        self._seen.inc()
        time.sleep(0.0003)
        return value % 10, value


def check(value: int) -> int:
    if value == 5:
        raise ValueError("flight 5 has no number")
    return value


def slowly(value: tuple[int, int]) -> tuple[int, int]:
    time.sleep(0.004)
    return value


def numbers(env: StreamExecutionEnvironment, name: str, most: int = 10**12) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        lambda value, _: BEGIN + 1000 * value
    )
    return env.from_source(NumberSequenceSource(0, most), strategy, name).uid(name)


def running_job(folder: Path) -> Any:
    """Start a job of several levels: two sources, a vertex that both feed, two sinks, one of them past a level."""
    env = make_env(folder, **SETTINGS)
    flights = numbers(env, "flights").map(Count(), PAIR).name("pair").uid("pair")
    weather = numbers(env, "weather").map(lambda v: (v % 10, v), PAIR).name("by airport").uid("by airport")
    joined = flights.union(weather).key_by(lambda p: p[0], Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1]))
    joined = joined.name("delay per airport").uid("delay")
    joined.key_by(lambda p: p[0] % 3, Types.LONG()).reduce(lambda a, b: b).name("worst").uid("worst").sink_to(
        DiscardingSink()
    ).name("store worst").uid("store worst")
    flights.union(joined).rebalance().sink_to(DiscardingSink()).name("archive").uid("archive")
    return env.execute_async("flight delays")


def failing_job(folder: Path, name: str = "check number") -> Any:
    """Start a job that fails at once and for good."""
    env = make_env(folder, **SETTINGS, **{"restart-strategy.type": "none"})
    numbers(env, "flights", 100).map(check, Types.LONG()).name(name).uid("check").sink_to(DiscardingSink()).name("store").uid(
        "store"
    )
    return env.execute_async("nightly import")


def fragile(value: int) -> int:
    if value == 5:
        raise ValueError("the price of flight 5\n  is missing")
    return value


def restarting_job(folder: Path) -> Any:
    """Start a job that fails in each attempt, and whose tasks run most of the time."""
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1000"}
    env = make_env(folder, **SETTINGS, **restarts, **{"restart-strategy.fixed-delay.delay": "500 ms"})
    numbers(env, "flights").map(fragile, Types.LONG()).name("price").uid("price").sink_to(DiscardingSink())
    return env.execute_async("prices")


class Behind(MapFunction):
    """Has the gauge of a source that knows its backlog."""

    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_metrics_group().gauge("pendingRecords", lambda: 4_321)

    def map(self, value: int) -> tuple[int, int]:
        return value % 10, value


def late_job(folder: Path) -> Any:
    """Start a job that drops late records, and whose first vertex is behind."""
    env = make_env(folder, **SETTINGS)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        # Each hundredth record is an hour late.
        lambda value, _: BEGIN + 1000 * value - (3_600_000 if value % 100 == 99 else 0)
    )
    orders = env.from_source(NumberSequenceSource(0, 10**12), strategy, "orders").uid("orders")
    windows = orders.map(Behind(), PAIR).key_by(lambda p: p[0], Types.LONG()).window(TumblingEventTimeWindows.of(Time.minutes(1)))
    windows.reduce(lambda a, b: b).name("per minute").uid("per minute").sink_to(DiscardingSink()).name("store").uid("store")
    return env.execute_async("orders per minute")


def slow_job(folder: Path) -> Any:
    """Start a job whose second vertex holds back the first."""
    # Long epochs, so that the slow function takes most of the time also on a machine that is busy.
    env = make_env(folder, **{**SETTINGS, "execution.epoch.target-duration": "500 ms", "execution.epoch.max-records": "200"})
    pairs = numbers(env, "orders").map(lambda v: (v % 10, v), PAIR).name("pair").uid("pair")
    slow = pairs.key_by(lambda p: p[0], Types.LONG()).map(slowly, PAIR).name("ask the bank").uid("ask")
    slow.sink_to(DiscardingSink()).name("book").uid("book")
    return env.execute_async("payments")
