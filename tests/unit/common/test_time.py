"""Duration, Instant, Time and the durations of a configuration."""

from __future__ import annotations

import datetime
import pickle
import time
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.time import Duration, Instant, Time, parse_duration, to_epoch_milli


def test_durations_of_different_units_are_equal_if_they_are_as_long() -> None:
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440) == Duration.of_seconds(86_400)
    assert Duration.of_millis(1) == Duration.of_nanos(1_000_000)
    assert hash(Duration.of_seconds(1)) == hash(Duration.of_millis(1000))
    assert Duration.of_millis(1) < Duration.of_millis(2)


def test_a_duration_prints_in_iso_form() -> None:
    assert str(Duration.of_millis(90_500)) == "PT1M30.5S"
    assert str(Duration.of_millis(0)) == "PT0S"


@pytest.mark.parametrize("wrong", ["5", 1.5, None, True])
def test_a_duration_of_anything_but_a_whole_number_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="seconds must be an int"):
        Duration.of_seconds(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("10 s", 10_000),
        ("10s", 10_000),
        ("5 min", 300_000),
        ("5 MIN", 300_000),
        ("1 d", 86_400_000),
        ("2 hours", 7_200_000),
        ("3 m", 180_000),
        ("200", 200),
        ("200 ms", 200),
        ("PT10S", 10_000),
        ("pt1h30m", 5_400_000),
        ("P1DT1M", 86_460_000),
        ("PT0.25S", 250),
        ("-PT1S", -1000),
    ],
)
def test_configured_durations_are_understood(text: str, milliseconds: int) -> None:
    assert parse_duration(text).to_millis() == milliseconds


@pytest.mark.parametrize("text", ["", "s", "10 parsecs", "1.5 s", "P", "PT", "ten", "10 s 5"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**18))
def test_the_iso_form_of_any_duration_reads_back(nanos: int) -> None:
    assert parse_duration(str(Duration.of_nanos(nanos))) == Duration.of_nanos(nanos)


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_an_instant_keeps_its_milliseconds_also_before_1970(milliseconds: int) -> None:
    instant = Instant.of_epoch_milli(milliseconds)
    assert instant.to_epoch_milli() == milliseconds
    assert 0 <= instant.nanos < 10**9


def test_instants_are_compared_with_each_other_and_with_datetimes_that_have_a_zone() -> None:
    noon = Instant.of_epoch_milli(1719835200000)
    same = datetime.datetime.fromisoformat("2024-07-01T14:00+02:00")
    later = same + datetime.timedelta(microseconds=1)
    assert noon == same
    assert same == noon
    assert hash(noon) == hash(same)
    assert noon <= same <= noon < later
    assert later > noon >= same
    assert Instant(noon.seconds, 1) > same
    assert Instant(noon.seconds, 1) != same
    assert max(noon, Instant(noon.seconds, 1), Instant(-1, 999_999_999)) == Instant(noon.seconds, 1)
    assert len({noon, same, Instant(noon.seconds, 0)}) == 1


def test_a_datetime_without_a_zone_equals_no_instant_and_is_not_ordered_with_one() -> None:
    naive = datetime.datetime(2024, 7, 1, 12)
    assert Instant.of_epoch_milli(1719835200000) != naive
    for compare in (lambda: Instant(0, 0) < naive, lambda: naive >= Instant(0, 0), lambda: Instant(0, 0) - naive):
        with pytest.raises(TypeError, match=r"has no time zone; replace\(tzinfo=datetime\.UTC\) gives it UTC"):
            compare()
    with pytest.raises(TypeError, match="not supported between"):
        Instant(0, 0) < 5  # type: ignore[operator] # noqa: B015


def test_the_difference_of_instants_is_a_timedelta_rounded_down_to_microseconds() -> None:
    begin, end = Instant(10, 999_999_999), Instant(12, 0)
    assert end - begin == datetime.timedelta(seconds=1)
    assert begin - end == datetime.timedelta(seconds=-1, microseconds=-1)
    at = datetime.datetime(1970, 1, 1, 0, 0, 13, tzinfo=datetime.UTC)
    assert at - end == datetime.timedelta(seconds=1) == -(end - at)
    with pytest.raises(TypeError):
        end - 5  # type: ignore[operator]


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (Instant(0, 0), "1970-01-01T00:00:00Z"),
        (Instant(0, 500_000_000), "1970-01-01T00:00:00.500Z"),
        (Instant(-1, 999_999_000), "1969-12-31T23:59:59.999999Z"),
        (Instant(-62_135_596_800, 1), "0001-01-01T00:00:00.000000001Z"),
    ],
)
def test_an_instant_shows_itself_as_iso_text_as_in_java(instant: Instant, text: str) -> None:
    assert instant.isoformat() == str(instant) == text
    assert repr(instant) == f"Instant<{text}>"


def test_an_instant_that_no_calendar_of_python_has_is_shown_and_hashed_by_its_numbers() -> None:
    far = Instant(10**15, 5)
    assert repr(far) == "Instant<1000000000000000, 5>"
    assert hash(far) == hash(Instant(10**15, 5))
    with pytest.raises(OverflowError):
        far.isoformat()


def test_time_counts_milliseconds_and_prints_them() -> None:
    assert Time.days(1).to_milliseconds() == 86_400_000
    assert Time.hours(1) == Time.minutes(60) == Time.seconds(3600) == Time.milliseconds(3_600_000)
    assert str(Time.milliseconds(5)) == "5 ms"


@pytest.mark.parametrize(
    ("amount", "milliseconds"),
    [
        (Time.seconds(1.5), 1500),
        (Time.seconds(1.001), 1001),
        (Time.seconds(-0.25), -250),
        (Time.milliseconds(5.0), 5),
        (Time.minutes(0.1), 6000),
        (Time.hours(0.5), 1_800_000),
        (Time.days(1.5), 129_600_000),
    ],
)
def test_a_fraction_that_is_a_whole_number_of_milliseconds_is_a_time(amount: Time, milliseconds: int) -> None:
    assert amount.to_milliseconds() == milliseconds
    assert type(amount.to_milliseconds()) is int


@pytest.mark.parametrize("seconds", [0.0005, 1.00001, float("nan"), float("inf"), True, "1", None])
def test_any_other_amount_is_refused(seconds: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        Time.seconds(seconds)


UTC_PLUS_2 = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("moment", "milliseconds"),
    [
        (datetime.datetime(1970, 1, 1), 0),
        (datetime.datetime(2024, 7, 1, 12), 1_719_835_200_000),
        (datetime.datetime(2024, 7, 1, 12, tzinfo=UTC_PLUS_2), 1_719_828_000_000),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500), -1),
        (datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999), 253_402_300_799_999),
        (datetime.datetime(1, 1, 1, tzinfo=UTC_PLUS_2), -62_135_604_000_000),
        (datetime.date(1970, 1, 2), 86_400_000),
        (pd.Timestamp("1970-01-01 00:00:00.0015"), 1),
        (pd.Timestamp("1970-01-01 02:00", tz=UTC_PLUS_2), 0),
    ],
)
def test_the_milliseconds_of_a_datetime_do_not_depend_on_the_zone_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, moment: Any, milliseconds: int
) -> None:
    for zone in ("UTC", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert to_epoch_milli(moment) == milliseconds
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("moment", [0, "2024-07-01", None, datetime.time(1), pd.NaT])
def test_what_is_no_datetime_has_no_milliseconds(moment: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="needs a datetime or date"):
        to_epoch_milli(moment)


@pytest.mark.parametrize("value", [Duration.of_seconds(3), Instant.of_epoch_milli(-1), Time.seconds(2)])
def test_times_survive_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
