"""Windows as whole jobs, on both engines; the first ones are PyFlink's examples with their outputs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Duration, Time, Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.datastream import (
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowFunction,
)
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.conftest import MakeEnvironment, locally
from tests.kit.functions import FailOnce, Mean, Number, Punctuated, Second
from tests.kit.restarts import recovering
from tests.kit.results import collect

PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
PUNCTUATED = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(Second())


def keyed(env: StreamExecutionEnvironment, data: list[Any], strategy: WatermarkStrategy = MONOTONOUS) -> KeyedStream:
    env.set_parallelism(1)
    stream = env.from_collection(data, PAIRS).assign_timestamps_and_watermarks(strategy)
    return stream.key_by(lambda record: record[0], key_type=Types.STRING())


class CountInWindow(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[tuple[str, int, int, int]]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


def at(*seconds: int) -> list[tuple[str, int]]:
    return [("hi", second) for second in seconds]


def test_tumbling_windows_of_pyflinks_example(env: StreamExecutionEnvironment) -> None:
    windows = keyed(env, at(1, 2, 3, 4, 5, 8, 9, 15)).window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    assert collect(windows.process(CountInWindow())) == [("hi", 0, 5, 4), ("hi", 5, 10, 3), ("hi", 15, 20, 1)]


def test_sessions_of_pyflinks_example(env: StreamExecutionEnvironment) -> None:
    windows = keyed(env, at(1, 2, 3, 4, 8, 9, 15)).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    assert collect(windows.process(CountInWindow())) == [("hi", 1, 14, 6), ("hi", 15, 20, 1)]


class SumInWindow(WindowFunction[Any, Any, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[Any]) -> Iterable[tuple[str, int]]:
        return [(key, sum(number for _, number in inputs))]


class MeanOfSecond(Mean):
    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return super().add(value[1], accumulator)


def test_late_records_fire_again_within_the_allowed_lateness_and_then_go_to_the_side_output(
    env: StreamExecutionEnvironment,
) -> None:
    late = OutputTag("late", PAIRS)
    data = [("a", 1), ("a", 9), ("a", 2), ("a", 12), ("a", 3), ("a", 13), ("a", 4)]
    # The window's last timestamp is 9; with lateness 3 it is gone once the watermark is 12.
    windows = keyed(env, data, PUNCTUATED).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    results = windows.allowed_lateness(3).side_output_late_data(late).process(CountInWindow())
    merged = results.get_side_output(late).map(lambda record: ("late", record)).union(results)
    assert collect(merged) == [("a", 0, 10, 2), ("a", 0, 10, 3), ("late", ("a", 3)), ("late", ("a", 4)), ("a", 10, 20, 2)]


@locally
def test_processing_time_windows_still_open_at_the_end_are_dropped(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)], PAIRS).key_by(lambda record: record[0])
    assert collect(stream.window(TumblingProcessingTimeWindows.of(Time.days(1))).process(CountInWindow())) == []
    assert collect(stream.window(ProcessingTimeSessionWindows.with_gap(Time.days(1))).process(CountInWindow())) == []


@locally
def test_records_without_event_time_fail_event_time_windows_with_flinks_words(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)], PAIRS).key_by(lambda record: record[0])
    for size in (TumblingEventTimeWindows.of(Time.seconds(1)), SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))):
        with pytest.raises(JobExecutionError, match=r"Record has Java Long.MIN_VALUE timestamp"):
            collect(stream.window(size).process(CountInWindow()))
        with pytest.raises(JobExecutionError, match=r"Record has Java Long.MIN_VALUE timestamp"):
            collect(stream.window(size).reduce(max))


@locally
def test_windows_in_batch_mode_have_one_result_each(make_env: MakeEnvironment) -> None:
    env = make_env(settings={"execution.runtime-mode": "BATCH"})
    records = [("a", 12), ("b", 3), ("a", 1), ("a", 7), ("b", 25)]
    windows = keyed(env, records).window(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)))
    expected = [("a", -10, 2), ("a", 0, 3), ("a", 10, 1), ("b", -10, 1), ("b", 0, 1), ("b", 10, 1), ("b", 20, 1)]
    assert [(key, start, count) for key, start, _, count in collect(windows.process(CountInWindow()))] == expected
    counted = windows.aggregate(Number(), WithStart())
    assert collect(counted) == expected
    rest = env.from_collection([("a", 1), ("a", 2), ("a", 3)], PAIRS).key_by(lambda record: record[0])
    assert collect(rest.count_window(2).apply(SumInWindow(), PAIRS)) == [("a", 3)]


def test_open_windows_survive_a_failure(make_env: MakeEnvironment, tmp_path: Path) -> None:
    from flinkish.datastream.connectors.number_seq import NumberSequenceSource

    env = make_env(settings=recovering(tmp_path, 50))
    numbers = env.from_source(NumberSequenceSource(0, 499), WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(Second())
    marker = tmp_path / "failed"
    pairs = numbers.map(FailOnce(marker, 300)).map(lambda number: (f"k{number % 3}", number), PAIRS)
    records = pairs.assign_timestamps_and_watermarks(strategy)
    windows = records.key_by(lambda record: record[0], Types.STRING()).window(
        SlidingEventTimeWindows.of(Time.milliseconds(100), Time.milliseconds(50))
    )
    results = collect(windows.aggregate(MeanOfSecond(), WithStart()))
    assert marker.exists()
    expected = [
        (f"k{key}", start, sum(inside) / len(inside))
        for key in range(3)
        for start in range(-50, 500, 50)
        if (inside := [number for number in range(max(0, start), min(500, start + 100)) if number % 3 == key])
    ]
    assert sorted(results) == sorted(expected)


class WithStart(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]) -> Iterable[Any]:
        for element in elements:
            yield key, context.window().start, element
