"""Interval joins on both engines, also across a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.datastream import DataStream, ProcessJoinFunction, StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from tests.behaviour.test_time import PUNCTUATED
from tests.conftest import MakeEnvironment, locally
from tests.kit.functions import Itself, fail_once
from tests.kit.restarts import recovering
from tests.kit.results import collect


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left, right, ctx.get_timestamp()


class FailingPair(Pair):
    """Fails at a record of the left side, once in all attempts."""

    def __init__(self, markers: Path, at: int) -> None:
        self.markers = markers
        self.at = at

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        if left == self.at:
            fail_once(self.markers, left)
        return super().process_element(left, right, ctx)


def numbers(env: StreamExecutionEnvironment, last: int) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    return env.from_source(NumberSequenceSource(0, last), strategy, "numbers")


def expected(last: int) -> list[tuple[int, int, int]]:
    everything = range(last + 1)
    return [
        (left, left + step, max(left, left + step)) for left in everything for step in (-6, -3, 0, 3) if left + step in everything
    ]


@locally
def test_late_records_are_counted_and_told_at_the_end(env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    env.set_parallelism(1)
    pairs = [
        env.from_collection([("a", time) for time in times]).assign_timestamps_and_watermarks(PUNCTUATED)
        for times in ((10, 20, 5, 6), (10, 20, 7))
    ]
    left, right = (stream.key_by(lambda pair: pair[0], Types.STRING()) for stream in pairs)
    left.interval_join(right).between(Time.milliseconds(-1), Time.milliseconds(1)).process(Pair()).print()
    client = env.execute_async()
    result = client.get_job_execution_result().result(timeout=240)
    assert sum(vertex.late_records for vertex in client.figures().vertices) == 3
    assert result.get_accumulator_result("Interval Join.numLateRecordsDropped") == 3
    (told,) = [record.getMessage() for record in caplog.records if "too late" in record.getMessage()]
    assert "dropped records because they were too late: 3 of 7 at 'Interval Join' (uid " in told
    assert "execution.runtime-mode BATCH" in told


def test_what_waits_for_partners_survives_a_failure(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(settings=recovering(tmp_path, 100))
    left, right = (numbers(env, 599).key_by(lambda number: number % 3, Types.LONG()) for _ in range(2))
    marker = tmp_path / "failed"
    join = left.interval_join(right).between(Time.milliseconds(-6), Time.milliseconds(3))
    results = collect(join.process(FailingPair(marker, 300)))
    assert marker.exists()
    assert sorted(results) == sorted(expected(599))
