"""Event times: which values are taken, and the warning about seconds."""

from __future__ import annotations

import datetime
import enum
import logging
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from flinkish.common import WatermarkStrategy
from flinkish.common.errors import TypeMismatchError
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.runtime.operators.timestamps import seems_to_be_seconds, whole_milliseconds
from tests.kit.environments import env_of
from tests.kit.results import collect

NOW = int(datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC).timestamp() * 1000)


class Own(int):
    """A subclass of int."""


class Level(enum.IntEnum):
    LOW = 7


class Itself(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())


@pytest.mark.parametrize("value", [Own(7), Level.LOW, np.int64(7), np.uint8(7), np.int32(7)])
def test_every_kind_of_int_is_a_timestamp(value: Any) -> None:
    time = whole_milliseconds(value, Itself().extract_timestamp, value)
    assert (time, type(time)) == (7, int)


@pytest.mark.parametrize("value", [7.0, 1.7e9, np.float32(7), np.float64(7), Decimal(7), True, np.bool_(True), "7"])
def test_what_is_no_int_is_refused_with_its_type(value: Any) -> None:
    with pytest.raises(TypeMismatchError, match=rf"Itself.extract_timestamp must return .*of type {type(value).__name__}"):
        whole_milliseconds(value, Itself().extract_timestamp, value)


@pytest.mark.parametrize(
    ("timestamp", "seconds"),
    [
        (0, False), (1_000, False), (86_400_000, False), (315_532_799, False), (315_532_800, True), (1_700_000_000, True),
        (np.int64(1_700_000_000), True), (NOW // 1000 + 86_400, True), (NOW // 1000 + 400 * 86_400, False),
        (1_700_000_000_000, False), (-1_700_000_000, False), (None, False), (1.7e9, False),
    ],
)  # fmt: skip
def test_seconds_are_recognized(timestamp: Any, seconds: bool) -> None:
    assert seems_to_be_seconds(timestamp, NOW) is seconds


def test_a_clock_near_zero_knows_no_seconds() -> None:
    assert not seems_to_be_seconds(1_700_000_000, 5_000)


def stream_of(times: list[int], mode: str, *, at_the_source: bool) -> Any:
    env = env_of({"execution.runtime-mode": mode}, 2)
    if not at_the_source:
        return env.from_collection(times).assign_timestamps_and_watermarks(STRATEGY).name("times").uid("times")
    from flinkish.datastream.connectors.datagen import DataGeneratorSource

    return env.from_source(DataGeneratorSource(times.__getitem__, len(times)), STRATEGY, "times").uid("times")


@pytest.mark.parametrize("at_the_source", [True, False])
@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_seconds_are_told_once_for_each_operator(mode: str, at_the_source: bool, caplog: pytest.LogCaptureFixture) -> None:
    times = [1_700_000_000 + index for index in range(10)]
    with caplog.at_level(logging.WARNING):
        assert sorted(collect(stream_of(times, mode, at_the_source=at_the_source))) == times
    [told] = [record.getMessage() for record in caplog.records if "seconds" in record.getMessage()]
    assert "times' (uid times) has assigned the event time 170000000" in told
    assert "this is 1970-01-20; in seconds it would be 2023-11-14" in told


@pytest.mark.parametrize("times", [[1_000, 60_000, 86_400_000], [1_700_000_000_000]])
def test_small_times_and_milliseconds_are_not_told_of(times: list[int], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        collect(stream_of(times, "STREAMING", at_the_source=False))
    assert not [record for record in caplog.records if "seconds" in record.getMessage()]
