"""Timers that are set again whenever they fire: they end with an error that says so, and never keep a job from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common.errors import InvalidProgramError, JobCancelledError
from flinkish.common.time import Time
from flinkish.common.typeinfo import Types
from flinkish.datastream import DataStream, KeyedProcessFunction
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.window import ContinuousEventTimeTrigger, GlobalWindows
from flinkish.testing import OneInputHarness
from tests.kit.environments import env_of
from tests.unit.runtime.operators.window.functions import PAIRS, Numbers, by_key

LIMIT = "execution.timers.after-end-limit"


class Heartbeat(KeyedProcessFunction):
    """Sets the next timer when one fires, up to a time."""

    def __init__(self, until: int) -> None:
        self._until = until

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        BEATING.set()
        if timestamp < self._until:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield timestamp


BEATING = threading.Event()


def at_the_end(build: Callable[[KeyedStream], DataStream], limit: int) -> list[Any]:
    """Return what comes of the end of the input after one record."""
    with OneInputHarness(lambda stream: build(by_key(stream)), PAIRS, settings={LIMIT: str(limit)}) as harness:
        harness.process_element(("a", 1), 1)
        harness.end_input()
        return harness.take_values()


@pytest.mark.parametrize(
    "build",
    [
        lambda keyed: keyed.process(Heartbeat(2**62)).name("beats"),
        lambda keyed: (
            keyed.window(GlobalWindows.create())
            .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(3)))
            .apply(Numbers())
            .name("beats")
        ),
    ],
    ids=["process function", "continuous trigger"],
)
def test_timers_without_end_are_an_error_that_names_the_operator_and_what_to_do(
    build: Callable[[KeyedStream], DataStream],
) -> None:
    with pytest.raises(
        InvalidProgramError, match=f"timers of beats .* do not come to an end: .* 5,000 timers(.|\n)*Hint: .*{LIMIT}"
    ):
        at_the_end(build, 5_000)


def test_timers_set_by_timers_after_the_end_of_the_input_fire_up_to_the_limit() -> None:
    assert at_the_end(lambda keyed: keyed.process(Heartbeat(4_000)), 5_000) == list(range(1, 4_001))


def test_timers_that_were_there_before_the_end_do_not_count() -> None:
    with OneInputHarness(lambda stream: by_key(stream).process(Heartbeat(0)), PAIRS, settings={LIMIT: "0"}) as harness:
        for number in range(1, 3_000):
            harness.process_element(("a", number), number)
        harness.end_input()
        assert len(harness.take_values()) == 2_999


def test_a_job_can_be_cancelled_while_timers_fire() -> None:
    BEATING.clear()
    env = env_of({LIMIT: 2**31 - 1})
    stream = env.from_collection([("a", 1)], PAIRS).key_by(lambda record: record[0], Types.STRING())
    stream.process(Heartbeat(2**62)).filter(lambda value: False).print()
    client = env.execute_async("heartbeat")
    assert BEATING.wait(60)
    client.cancel().result(120)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(120)


class Busy(KeyedProcessFunction):
    """Sets a timer for now whenever one fires."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.on_timer(0, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time())
        return [timestamp] if timestamp else []


def test_a_timer_for_the_present_that_a_timer_sets_waits_for_the_next_look_at_the_clock() -> None:
    with OneInputHarness(lambda stream: by_key(stream).process(Busy()), PAIRS) as harness:
        harness.set_processing_time(10)
        harness.process_element(("a", 1))
        for time in (11, 12):
            harness.set_processing_time(time)
        fired = harness.take_values()
        assert fired == sorted(fired)
        assert set(fired) == {10, 11, 12}


class CatchUp(Busy):
    """A heartbeat by the clock that was away for long."""

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(timestamp + 5)
        return [timestamp] if timestamp else []


def test_a_heartbeat_by_the_clock_catches_up_at_once() -> None:
    with OneInputHarness(lambda stream: by_key(stream).process(CatchUp()), PAIRS) as harness:
        harness.process_element(("a", 1))
        harness.set_processing_time(22)
        assert harness.take_values() == [5, 10, 15, 20]
