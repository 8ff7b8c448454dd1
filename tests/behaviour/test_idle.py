"""Jobs that have nothing to do on Spark: their timers in processing time fire on time, however long nothing else happened.

Spark ends Python workers that had nothing to do for a minute. So that they are there when they are needed, an idle job runs an
epoch now and then.
"""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Types
from flinkish.datastream import CloseableIterator, StreamExecutionEnvironment
from flinkish.datastream.functions import KeyedProcessFunction
from flinkish.engine.job_client import EmbeddedJobClient
from tests.conftest import MakeEnvironment
from tests.kit.functions import Emits
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True)

_IDLE = "execution.epoch.idle-interval"


class Late(KeyedProcessFunction):
    """Sets a timer, and another one whenever it fires; emits how late each one fires, in milliseconds."""

    def __init__(self, delay: int) -> None:
        self.delay = delay

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        self.set(ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.timer_service().current_processing_time() - timestamp
        self.set(ctx)

    def set(self, ctx: KeyedProcessFunction.Context) -> None:
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + self.delay)


def idle(env: StreamExecutionEnvironment, delay: int) -> CloseableIterator:
    """Start a job whose only timers are the given number of milliseconds apart; its results are their delays."""
    stream = env.add_source(Emits(1), "one", Types.LONG()).key_by(lambda value: value, Types.LONG())
    results = stream.process(Late(delay), Types.LONG()).execute_and_collect()
    assert isinstance(results, CloseableIterator)
    return results


def epochs(results: CloseableIterator) -> int:
    client = results.client
    assert isinstance(client, EmbeddedJobClient)
    return client.figures().epochs


def test_an_idle_job_runs_an_epoch_as_often_as_it_is_told(make_env: MakeEnvironment) -> None:
    with idle(make_env(settings={_IDLE: "200 ms"}), 3_600_000) as results:
        wait_until("some epochs in which there is nothing to do", lambda: epochs(results) >= 5)


def test_an_idle_job_runs_no_epoch_but_for_its_timers(make_env: MakeEnvironment) -> None:
    with idle(make_env(), 700) as results:
        assert min(next(results), next(results)) >= 0
        # Of the start, the record and the timers.
        assert epochs(results) <= 4


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "settings", [{}, {_IDLE: "1 h"}], ids=["workers kept by an epoch every 45 s", "workers ended by Spark after a minute"]
)
def test_timers_fire_on_time_after_more_than_a_minute_of_nothing(make_env: MakeEnvironment, settings: dict[str, str]) -> None:
    with idle(make_env(settings=settings), 75_000) as results:
        late = next(results), next(results)
        print(f"late by {late} ms, {epochs(results)} epochs")
    assert all(0 <= each < 5_000 for each in late)
