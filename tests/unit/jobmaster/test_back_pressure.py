"""Back pressure points at the slow operator: whole jobs on the local engine, in virtual time that only slow functions advance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.base import Sink, SinkWriter, SinkWriterContext, WriteContext
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine import launcher
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.local.engine import LocalEngine
from flinkish.jobmaster.job_metrics import SubtaskFigures
from flinkish.testing import JobHarness
from tests.kit.environments import env_of
from tests.kit.programs import program_of

from .support import JumpingClock

CLOCK = JumpingClock()
RECORDS = 12_000
SETTINGS = {"execution.epoch.max-records": "200", "execution.progress.interval": "0 ms"}


def slow(value: int) -> int:
    CLOCK.advance(1)
    return value


def quick(value: int) -> int:
    """Take a twentieth of the time of the slow one."""
    CLOCK.advance(1 if value % 20 == 0 else 0)
    return value


def slow_for_one_key(value: int) -> int:
    CLOCK.advance(1 if value == 0 else 0)
    return value


class SlowSink(Sink[Any, None]):
    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, None]:
        return SlowWriter()


class SlowWriter(SinkWriter[Any, None]):
    def write(self, value: Any, context: WriteContext) -> None:
        slow(value)


def run(build: Callable[[DataStream], None], parallelism: int = 1, **settings: str) -> dict[str, list[SubtaskFigures]]:
    """Run a job over numbers to its end; return the figures of the subtasks by the first word of the vertex's name."""
    env = env_of({**SETTINGS, **settings}, parallelism)
    source = env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
    build(source)
    client = execute(env)
    client.get_job_execution_result().result()
    return {vertex.name.split(" ->")[0]: list(vertex.subtasks.values()) for vertex in client.figures().vertices}


def execute(env: StreamExecutionEnvironment) -> EmbeddedJobClient:
    return launcher.start(
        program_of(env, "job"),
        launcher.Surroundings(
            make_engine=lambda configuration, clock, ids: LocalEngine(configuration, clock=clock, ids=ids), clock=CLOCK
        ),
    )


def shares(figures: SubtaskFigures) -> tuple[float, float, float]:
    """Return the shares busy, back-pressured, idle."""
    whole = figures.busy_ms + figures.back_pressured_ms + figures.idle_ms
    return figures.busy_ms / whole, figures.back_pressured_ms / whole, figures.idle_ms / whole


def test_a_slow_operator_in_the_middle_is_busy_what_is_upstream_waits_and_what_is_downstream_is_idle() -> None:
    def build(numbers: DataStream) -> None:
        first = numbers.map(quick, Types.LONG()).name("first").rebalance().map(quick, Types.LONG()).name("second")
        middle = first.rebalance().map(slow, Types.LONG()).name("middle")
        middle.rebalance().map(quick, Types.LONG()).name("last").sink_to(DiscardingSink())

    found = {name: shares(subtasks[0]) for name, subtasks in run(build).items()}
    assert found["middle"][0] > 0.8
    assert found["middle"][1] == 0
    for name in ("Source: numbers", "second"):
        assert found[name][1] > 0.75, (name, found)
    assert found["last"][1] == 0
    assert found["last"][2] > 0.8


def test_a_slow_sink_holds_back_everything_before_it() -> None:
    found = {
        name: shares(subtasks[0])
        for name, subtasks in run(
            lambda numbers: numbers.rebalance().map(quick, Types.LONG()).name("map").rebalance().sink_to(SlowSink()).name("out")
        ).items()
    }
    assert found["Sink: out"][0] > 0.8
    assert found["Source: numbers"][1] > 0.75
    assert found["map"][1] > 0.75


def test_with_a_skewed_key_one_subtask_is_busy_and_all_sources_wait() -> None:
    def build(numbers: DataStream) -> None:
        # Two thirds of the records have a key whose work is slow.
        keyed = numbers.map(lambda v: min(1, v % 3), Types.LONG()).key_by(lambda v: v, Types.LONG())
        keyed.map(slow_for_one_key, Types.LONG()).name("work").sink_to(DiscardingSink())

    found = run(build, parallelism=2)
    works = sorted(shares(subtask)[0] for subtask in found["work"])
    assert works[0] < 0.05
    assert works[1] > 0.9
    assert all(shares(subtask)[1] == 0 for subtask in found["work"])
    assert all(shares(subtask)[1] > 0.8 for subtask in found["Source: numbers"])


def test_subtasks_that_run_one_after_the_other_hold_back_the_source_all_the_time() -> None:
    found = run(lambda n: n.rebalance().map(slow, Types.LONG()).name("work").sink_to(DiscardingSink()), parallelism=2)
    assert all(shares(subtask)[1] > 0.9 for subtask in found["Source: numbers"])


def test_a_source_that_feeds_no_slow_operator_waits_for_the_common_credit() -> None:
    env = env_of(SETTINGS)
    for name, function in (("fast", quick), ("bad", slow)):
        numbers = env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), name)
        numbers.rebalance().map(function, Types.LONG()).name(f"{name} map").sink_to(DiscardingSink())
    client = execute(env)
    client.get_job_execution_result().result()
    found = {vertex.name.split(" ->")[0]: shares(vertex.subtasks[0]) for vertex in client.figures().vertices}
    assert found["Source: fast"][1] > 0.8
    assert found["bad map"][0] > 0.8
    assert found["fast map"][1] == 0


@pytest.mark.parametrize("records", [0, 5])
def test_an_idle_job_is_idle(records: int) -> None:
    def echo(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        source = env.from_source(job.source("source"), WatermarkStrategy.no_watermarks(), "source")
        source.rebalance().map(lambda value: value).sink_to(job.sink("out"))

    with JobHarness(echo) as job:
        for number in range(records):
            job.source("source").emit(number)
        for _ in range(6):
            job.advance(5_000)
        for vertex in job.client.figures().vertices:
            for subtask in vertex.subtasks.values():
                assert (round(subtask.rates.busy), subtask.rates.back_pressured, round(subtask.rates.idle)) == (0, 0, 1000)
                assert subtask.rates.records_in == 0
                assert subtask.records_in == records
