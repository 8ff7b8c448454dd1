"""Strategies and generators of watermarks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.time import Duration
from flinkish.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)


class Output:
    def __init__(self) -> None:
        self.watermarks: list[int] = []

    def emit_watermark(self, timestamp: int) -> None:
        self.watermarks.append(timestamp)

    def mark_idle(self) -> None:
        raise AssertionError("no built-in generator is ever idle by itself")


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


class EveryRecord(WatermarkGenerator):
    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def test_bounded_out_of_orderness_stays_one_millisecond_and_the_bound_behind_the_highest() -> None:
    generator = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).create_generator()
    output = Output()
    for timestamp in (10, 20, 15):
        generator.on_event(None, timestamp, output)
    assert output.watermarks == []
    generator.on_periodic_emit(output)
    assert output.watermarks == [14]


def test_monotonous_timestamps_follow_the_highest_by_one_millisecond() -> None:
    generator = WatermarkStrategy.for_monotonous_timestamps().create_generator()
    output = Output()
    generator.on_event(None, 10, output)
    generator.on_periodic_emit(output)
    assert output.watermarks == [9]


def test_there_is_no_watermark_before_the_first_record_and_none_below_the_least() -> None:
    generator = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1)).create_generator()
    output = Output()
    generator.on_periodic_emit(output)
    generator.on_event(None, -(2**63) + 5, output)
    generator.on_periodic_emit(output)
    assert output.watermarks == [-(2**63)]


def test_a_generator_goes_on_from_its_state_in_another_process() -> None:
    strategy = pickle.loads(pickle.dumps(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))))
    first, second, output = strategy.create_generator(), strategy.create_generator(), Output()
    first.on_event(None, 100, output)
    second.set_state(first.get_state())
    second.on_event(None, 50, output)
    second.on_periodic_emit(output)
    assert output.watermarks == [94]


def test_the_state_of_a_users_generator_is_its_attributes_unless_it_says_otherwise() -> None:
    strategy = WatermarkStrategy.for_generator(EveryRecord)
    first, second, output = strategy.create_generator(), strategy.create_generator(), Output()
    first.on_event(None, 7, output)
    second.set_state(first.get_state())
    assert output.watermarks == [7]
    assert isinstance(second, EveryRecord)
    assert second.seen == 1


def test_each_with_method_returns_a_new_strategy_and_keeps_the_assigner() -> None:
    assigner = FirstField()
    plain = WatermarkStrategy.for_monotonous_timestamps()
    strategy = (
        plain.with_timestamp_assigner(assigner)
        .with_idleness(Duration.of_minutes(1))
        .with_watermark_alignment("group", Duration.of_seconds(20))
    )
    assert plain.timestamp_assigner is None
    assert strategy.timestamp_assigner is assigner
    assert strategy.idleness_ms == 60_000
    assert strategy.alignment is not None
    assert (strategy.alignment.group, strategy.alignment.max_drift_ms, strategy.alignment.update_interval_ms) == (
        "group",
        20_000,
        1000,
    )


def test_a_function_of_a_record_and_its_timestamp_is_an_assigner() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, timestamp: value[1] + timestamp)
    assert strategy.timestamp_assigner is not None
    assert strategy.timestamp_assigner.extract_timestamp(("a", 5), 2) == 7


def test_no_watermarks_generates_none_but_may_assign_timestamps() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(FirstField())
    output = Output()
    generator = strategy.create_generator()
    generator.on_event((1,), 1, output)
    generator.on_periodic_emit(output)
    assert output.watermarks == []
    assert not strategy.generates_watermarks
    assert WatermarkStrategy.for_monotonous_timestamps().generates_watermarks


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(5), "max_out_of_orderness must be a Duration"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1)), "must not be negative"),
        (lambda: WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(0)), "at least 1 ms"),
        (lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(5.0), "expects a TimestampAssigner"),
        (lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda v: v), "must take two arguments"),
        (lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(FirstField), "expects a TimestampAssigner"),
        (lambda: WatermarkStrategy.for_generator(EveryRecord()), "not an instance"),
        (lambda: WatermarkStrategy.for_generator(lambda: 5).create_generator(), "must be a WatermarkGenerator; got 5"),
        (
            lambda: WatermarkStrategy.no_watermarks().with_watermark_alignment(1, Duration.of_millis(1)),
            "watermark_group must be a str",
        ),
        (
            lambda: WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("a", Duration.of_millis(-1)),
            "max_allowed_watermark_drift must not be negative",
        ),
        (
            lambda: WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(
                "a", Duration.of_millis(1), Duration.of_millis(0)
            ),
            "update_interval must be at least 1 ms",
        ),
    ],
)
def test_wrong_arguments_are_refused(build: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        build()


def test_wrapping_a_java_assigner_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="write a TimestampAssigner"):
        AssignerWithPeriodicWatermarksWrapper(object())
