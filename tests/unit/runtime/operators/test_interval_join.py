"""Interval joins, step by step; against a model they are tested in tests/models/testing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common import Duration, Time, Types
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, UnsupportedError
from flinkish.datastream import DataStream, OutputTag, ProcessJoinFunction, RuntimeContext, StreamExecutionEnvironment
from flinkish.datastream.interval_join import IntervalJoined
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.testing import StreamRecord, TwoInputHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LEFT_LATE, RIGHT_LATE = OutputTag("left late", PAIR), OutputTag("right late", PAIR)
Build = Callable[[DataStream, DataStream], DataStream]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        assert ctx.get_timestamp() == max(ctx.get_left_timestamp(), ctx.get_right_timestamp())
        assert (left[1], right[1]) == (ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield left[1], right[1]


def joined(
    lower: int, upper: int, change: Callable[[IntervalJoined], IntervalJoined] = lambda join: join, function: Any = None
) -> Build:
    def build(left: DataStream, right: DataStream) -> DataStream:
        keyed = (stream.key_by(lambda value: value[0], Types.STRING()) for stream in (left, right))
        join = next(keyed).interval_join(next(keyed)).between(Time.milliseconds(lower), Duration.of_millis(upper))
        return change(join).process(function or Pair())

    return build


def make(build: Build, **arguments: Any) -> TwoInputHarness:
    return TwoInputHarness(build, PAIR, PAIR, **arguments)


def push(harness: TwoInputHarness, side: str, *timestamps: int, key: str = "k") -> None:
    process = harness.process_element1 if side == "left" else harness.process_element2
    for timestamp in timestamps:
        process((key, timestamp), timestamp)


@pytest.mark.parametrize("first", ["left", "right"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda join: join, [8, 9, 10, 11]),
        (lambda join: join.lower_bound_exclusive(), [9, 10, 11]),
        (lambda join: join.upper_bound_exclusive(), [8, 9, 10]),
        (lambda join: join.lower_bound_exclusive().upper_bound_exclusive(), [9, 10]),
    ],
)
def test_partners_are_those_within_the_bounds_whichever_side_comes_first(
    first: str, change: Callable[[IntervalJoined], IntervalJoined], expected: list[int]
) -> None:
    with make(joined(-2, 1, change)) as harness:
        for side in (first, "left" if first == "right" else "right"):
            if side == "left":
                push(harness, "left", 10)
            else:
                push(harness, "right", *range(5, 15))
        assert harness.take_output() == [StreamRecord((10, right), max(10, right)) for right in expected]


@pytest.mark.parametrize(("lower", "upper", "expected"), [(2, 4, [12, 13, 14]), (-4, -2, [6, 7, 8]), (0, 0, [10]), (3, 3, [13])])
def test_bounds_may_both_be_on_one_side(lower: int, upper: int, expected: list[int]) -> None:
    with make(joined(lower, upper)) as harness:
        push(harness, "right", *range(20))
        push(harness, "left", 10)
        assert harness.take_values() == [(10, right) for right in expected]


def test_records_of_other_keys_are_no_partners() -> None:
    with make(joined(0, 0)) as harness:
        push(harness, "left", 1, key="a")
        push(harness, "right", 1, key="b")
        assert harness.take_output() == []


def test_records_of_the_same_time_are_joined_in_the_order_of_arrival() -> None:
    def build(left: DataStream, right: DataStream) -> DataStream:
        class Names(ProcessJoinFunction):
            def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
                return [left + right]

        keyed = (stream.key_by(lambda value: 0) for stream in (left, right))
        return next(keyed).interval_join(next(keyed)).between(Time.seconds(0), Time.seconds(0)).process(Names())

    with TwoInputHarness(build) as harness:
        for name in ("a", "b", "a"):
            harness.process_element1(name, 5)
        harness.process_element2("x", 5)
        assert harness.take_values() == ["ax", "bx", "ax"]


@pytest.mark.parametrize(("lower", "upper"), [(-2, 3), (2, 5), (-5, -2), (0, 0)])
def test_state_and_timers_are_removed_as_soon_as_no_partner_can_come(lower: int, upper: int) -> None:
    with make(joined(lower, upper)) as harness:
        push(harness, "left", 10)
        left_until = 10 + max(upper, 0)
        harness.process_both_watermarks(left_until - 1)
        assert len(harness.snapshot().entries()) == 2
        harness.process_both_watermarks(left_until)
        assert harness.snapshot().entries() == ()
        push(harness, "right", 20)
        right_until = 20 + max(-lower, 0)
        harness.process_both_watermarks(right_until - 1)
        assert len(harness.snapshot().entries()) == 2
        harness.process_both_watermarks(right_until)
        assert harness.snapshot().entries() == ()


def test_a_record_is_kept_until_the_watermark_reaches_its_last_partner() -> None:
    with make(joined(0, 5)) as harness:
        push(harness, "left", 10)
        harness.process_both_watermarks(14)
        push(harness, "right", 15)
        assert harness.take_values() == [(10, 15)]


def test_an_interval_without_end_is_cleaned_up_at_the_end_of_the_input() -> None:
    with make(joined(-(2**63), 2**63)) as harness:
        push(harness, "left", 10)
        push(harness, "right", 10**12)
        assert harness.take_values() == [(10, 10**12)]
        assert len(harness.snapshot().entries()) == 4
        harness.end_inputs()
        assert harness.snapshot().entries() == ()


def test_records_before_the_watermark_are_late_and_dropped_but_not_those_at_it() -> None:
    with make(joined(-5, 5)) as harness:
        push(harness, "right", 12)
        harness.process_both_watermarks(10)
        push(harness, "left", 9, 10)
        assert harness.take_values() == [(10, 12)]


def test_late_records_of_each_side_go_to_its_side_output_with_their_time() -> None:
    def tagged(join: IntervalJoined) -> IntervalJoined:
        return join.side_output_left_late_data(LEFT_LATE).side_output_right_late_data(RIGHT_LATE)

    with make(joined(-5, 5, tagged), side_outputs=[LEFT_LATE, RIGHT_LATE]) as harness:
        harness.process_both_watermarks(10)
        push(harness, "left", 8)
        push(harness, "right", 9)
        assert harness.take_output(LEFT_LATE) == [StreamRecord(("k", 8), 8)]
        assert harness.take_output(RIGHT_LATE) == [StreamRecord(("k", 9), 9)]
        assert harness.take_output() == []


def test_a_record_without_event_time_is_refused() -> None:
    with make(joined(0, 0)) as harness, pytest.raises(InvalidProgramError, match="has no event time"):
        harness.process_element1(("k", 1))


def test_the_function_has_keyed_state_and_side_outputs() -> None:
    side = OutputTag("side", Types.LONG())

    class Counted(ProcessJoinFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            yield left[0], self.count.value()
            yield side, left[1]

    with make(joined(-9, 9, function=Counted()), side_outputs=[side]) as harness:
        push(harness, "left", 1, 2, key="a")
        push(harness, "right", 3, key="a")
        push(harness, "left", 4, key="b")
        push(harness, "right", 5, key="b")
        assert harness.take_values() == [("a", 1), ("a", 2), ("b", 1)]
        assert harness.take_output(side) == [StreamRecord(1, 3), StreamRecord(2, 3), StreamRecord(4, 5)]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_buffers_and_timers_survive_a_restore_and_a_lost_heap(parallelism: int) -> None:
    with make(joined(-2, 2), parallelism=2) as harness:
        for key in "abcdef":
            push(harness, "left", 10, 12, key=key)
        harness.restart(parallelism=parallelism)
        harness.lose_heap()
        for key in "abcdef":
            push(harness, "right", 9, 14, key=key)
        assert sorted(harness.take_values()) == sorted([(10, 9), (12, 14)] * 6)
        harness.process_both_watermarks(16)
        assert harness.snapshot().entries() == ()


# -- building --------------------------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused_when_the_program_is_built() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([("a", 1)])
    keyed = stream.key_by(lambda value: value[0])
    with pytest.raises(InvalidArgumentError, match="needs a KeyedStream"):
        keyed.interval_join(stream)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="must not be above"):
        keyed.interval_join(keyed).between(Time.seconds(1), Time.seconds(0))
    with pytest.raises(InvalidArgumentError, match="a Time or a Duration"):
        keyed.interval_join(keyed).between(0, 1)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="processing time"):
        keyed.interval_join(keyed).in_processing_time()
    join = keyed.interval_join(keyed).in_event_time().between(Time.seconds(0), Time.seconds(0))
    with pytest.raises(InvalidArgumentError, match="needs a ProcessJoinFunction"):
        join.process(lambda left, right, ctx: [left])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="needs an OutputTag"):
        join.side_output_left_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="must be of one type"):
        keyed.interval_join(stream.key_by(lambda value: value[0], Types.STRING())).between(
            Time.seconds(0), Time.seconds(0)
        ).process(Pair())
