"""join and co_group of two streams within windows, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from flinkish.common import Configuration, Row, Time, Types, WatermarkStrategy
from flinkish.common.errors import InvalidArgumentError
from flinkish.datastream import DataStream, KeySelector, OutputTag, StreamExecutionEnvironment
from flinkish.datastream.functions import MapFunction
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.datastream.window_join import CoGroupFunction, FlatJoinFunction, JoinFunction
from flinkish.testing import TwoInputHarness
from tests.conftest import locally
from tests.kit.functions import Second
from tests.kit.results import collect, collect_each

LEFT = Types.TUPLE([Types.STRING(), Types.LONG()])
RIGHT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())


def streams(env: StreamExecutionEnvironment) -> tuple[DataStream, DataStream]:
    left = env.from_collection([("a", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 11)], LEFT)
    right = env.from_collection([("a", 5, "x"), ("b", 6, "y"), ("d", 7, "z"), ("a", 21, "w")], RIGHT)
    return left.assign_timestamps_and_watermarks(STRATEGY), right.assign_timestamps_and_watermarks(STRATEGY)


class First(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[0], first[1], second[2]


class PairTwice(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterable[Any]:
        yield first[1], second[2]
        yield first[1], second[2]


class Both(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield sorted(number for _, number in first), sorted(text for _, _, text in second)


def test_join_pairs_what_has_the_same_key_in_the_same_window(env: StreamExecutionEnvironment) -> None:
    left, right = streams(env)
    windows = left.join(right).where(First(), Types.STRING()).equal_to(lambda record: record[0]).window(TEN)
    pairs = [("a", 1, "x"), ("a", 2, "x"), ("b", 3, "y")]
    found = collect_each(
        pairs=windows.apply(Pair(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])),
        by_lambda=windows.apply(lambda one, other: (one[0], one[1], other[2])),
        twice=windows.apply(PairTwice()),
    )
    assert {name: sorted(values) for name, values in found.items()} == {
        "pairs": pairs,
        "by_lambda": pairs,
        "twice": [(1, "x"), (1, "x"), (2, "x"), (2, "x"), (3, "y"), (3, "y")],
    }


@locally
def test_co_group_also_gets_what_has_no_partner(env: StreamExecutionEnvironment) -> None:
    left, right = streams(env)
    windows = left.co_group(right).where(lambda record: record[0]).equal_to(First()).window(TEN)
    expected = [([], ["w"]), ([], ["z"]), ([1, 2], ["x"]), ([3], ["y"]), ([4], []), ([11], [])]
    assert sorted(collect(windows.apply(Both()))) == expected
    assert len(collect(windows.apply(lambda first, second: [1]))) == 6


def joined(late: OutputTag) -> Callable[[DataStream, DataStream], DataStream]:
    def build(left: DataStream, right: DataStream) -> DataStream:
        windows = left.join(right).where(First()).equal_to(First()).window(TEN)
        return windows.allowed_lateness(5).side_output_late_data(late).apply(Pair())

    return build


@locally
def test_records_with_the_same_key_keep_their_order_whatever_the_parallelism_is(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(3)
    env.configure(Configuration.from_dict({"execution.epoch.max-records": "7"}))
    numbers = env.from_collection([("a", number, "x") for number in range(30)], RIGHT)
    others = env.from_collection([("a", number, "y") for number in range(30)], RIGHT)
    windows = TumblingEventTimeWindows.of(Time.milliseconds(100))
    left, both = (stream.assign_timestamps_and_watermarks(STRATEGY).set_parallelism(1) for stream in (numbers, others))
    right = left.union(both)
    grouped = left.co_group(right).where(First(), Types.STRING()).equal_to(First()).window(windows)

    def in_order(first: list[Any], second: list[Any]) -> Iterable[Any]:
        for records in (first, *([record for record in second if record[2] == name] for name in "xy")):
            yield [number for _, number, _ in records]

    assert collect(grouped.apply(in_order)) == [list(range(30))] * 3


def test_an_open_join_survives_a_restore_at_another_parallelism_and_late_records_fire_it_again() -> None:
    late = OutputTag("late")
    with TwoInputHarness(joined(late), LEFT, RIGHT, side_outputs=[late]) as harness:
        harness.process_element1(("a", 1), 1)
        harness.restart(parallelism=3)
        harness.process_element2(("a", 2, "x"), 2)
        harness.process_both_watermarks(9)
        assert harness.take_output() == [(("a", 1, "x"), 9)]
        harness.process_element1(("a", 3), 3)
        assert harness.take_output() == [(("a", 1, "x"), 3), (("a", 3, "x"), 3)]
        harness.process_both_watermarks(14)
        harness.process_element2(("a", 4, "y"), 4)
        assert harness.take_output() == []
        assert harness.take_output(late) == [(Row(f0=1, f1=None, f2=("a", 4, "y")), 4)]


def test_other_functions_are_refused_when_the_job_is_built(env: StreamExecutionEnvironment) -> None:
    class Other(MapFunction):
        def map(self, value: Any) -> Any:
            return value

    left, right = streams(env)
    windows: Any = left.join(right).where(First()).equal_to(First()).window(TEN)
    for wrong in (Other(), Pair, 5, Both()):
        with pytest.raises(InvalidArgumentError, match=r"apply\(\) needs"):
            windows.apply(wrong)
