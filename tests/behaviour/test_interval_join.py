"""Interval joins on both engines, also across a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.datastream import DataStream, OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
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
def test_records_are_joined_with_those_near_in_time(env: StreamExecutionEnvironment) -> None:
    left, right = (numbers(env, 99).key_by(lambda number: number % 3, Types.LONG()) for _ in range(2))
    stream = left.interval_join(right).between(Time.milliseconds(-6), Time.milliseconds(3)).process(Pair())
    assert sorted(collect(stream)) == sorted(expected(99))


@locally
def test_late_records_of_a_side_go_to_its_side_output(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT()]))

    def stream(*times: int) -> Any:
        pairs = env.from_collection([("a", time) for time in times]).assign_timestamps_and_watermarks(PUNCTUATED)
        return pairs.key_by(lambda pair: pair[0], Types.STRING())

    join = stream(10, 20, 5).interval_join(stream(9, 21, 22)).between(Time.milliseconds(-1), Time.milliseconds(1))
    joined = join.side_output_left_late_data(late).process(Pair())
    both = joined.map(lambda pair: pair[:2]).union(joined.get_side_output(late).map(lambda pair: ("late", pair)))
    assert sorted(collect(both), key=str) == sorted([(("a", 10), ("a", 9)), (("a", 20), ("a", 21)), ("late", ("a", 5))], key=str)


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


@locally
@pytest.mark.parametrize("lower_exclusive", [False, True])
def test_bounds_count_unless_they_are_exclusive(env: StreamExecutionEnvironment, lower_exclusive: bool) -> None:
    left, right = (numbers(env, 9).key_by(lambda number: 0) for _ in range(2))
    join = left.interval_join(right).between(Time.milliseconds(-1), Time.milliseconds(0))
    if lower_exclusive:
        join = join.lower_bound_exclusive()
    steps = (0,) if lower_exclusive else (-1, 0)
    assert sorted(collect(join.process(Pair()))) == sorted(
        (left, left + step, left) for left in range(10) for step in steps if left + step >= 0
    )
