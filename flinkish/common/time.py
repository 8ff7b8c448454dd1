"""Amounts of time and points in time, with PyFlink's names."""

from __future__ import annotations

import datetime
import functools
import math
import re
from decimal import Decimal
from typing import Any, TypeAlias

from flinkish.common.arguments import int_of
from flinkish.common.errors import InvalidArgumentError

__all__ = ["AmountOfTime", "Duration", "Instant", "Time", "milliseconds_of", "to_epoch_milli"]

_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_SECOND = 1_000_000_000
_MILLISECOND = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_IN_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _in_millis(value: Any, unit: int, what: str) -> int:
    """Convert an amount to milliseconds, given the milliseconds of its unit; refuse a fraction of a millisecond."""
    if isinstance(value, float) and math.isfinite(value):
        # Computed from the decimal text: 1.001 * 1000 would be 1000.9999999999999.
        millis = Decimal(repr(float(value))) * unit
        if millis != int(millis):
            raise InvalidArgumentError(f"{value!r} {what} are not a whole number of milliseconds: {millis}")
        return int(millis)
    return int_of(what, value) * unit


@functools.total_ordering
class Duration:
    """An amount of time, kept in nanoseconds.

    >>> Duration.of_seconds(20).to_millis()
    20000
    >>> Duration.of_minutes(1) == Duration.of_seconds(60)
    True
    """

    __slots__ = ("_nanos",)

    def __init__(self, nanos: int) -> None:
        self._nanos = int_of("a Duration's nanoseconds", nanos)

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return a duration of days of 24 hours."""
        return Duration.of_hours(int_of("days", days) * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return a duration of hours."""
        return Duration.of_minutes(int_of("hours", hours) * 60)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return a duration of minutes."""
        return Duration.of_seconds(int_of("minutes", minutes) * 60)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return a duration of seconds."""
        return Duration(int_of("seconds", seconds) * _NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return a duration of milliseconds."""
        return Duration(int_of("milliseconds", millis) * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return a duration of nanoseconds."""
        return Duration(nanos)

    def to_millis(self) -> int:
        """Return whole milliseconds, rounded down."""
        return self._nanos // _NANOS_PER_MILLI

    def to_nanos(self) -> int:
        """Return nanoseconds."""
        return self._nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self._nanos == other._nanos

    def __lt__(self, other: Duration) -> bool:
        if not isinstance(other, Duration):
            return NotImplemented
        return self._nanos < other._nanos

    def __hash__(self) -> int:
        return hash((Duration, self._nanos))

    def __str__(self) -> str:
        """Return the ISO 8601 form, such as PT1M30S."""
        if self._nanos == 0:
            return "PT0S"
        sign = "-" if self._nanos < 0 else ""
        seconds, nanos = divmod(abs(self._nanos), _NANOS_PER_SECOND)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        text = "PT"
        if hours:
            text += f"{sign}{hours}H"
        if minutes:
            text += f"{sign}{minutes}M"
        if seconds or nanos:
            fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
            text += f"{sign}{seconds}{fraction}S"
        return text

    def __repr__(self) -> str:
        return f"Duration<{self}>"


@functools.total_ordering
class Instant:
    """A point in time: seconds since 1970-01-01 UTC and nanoseconds (0 to 999,999,999) of that second.

    Instants are compared with each other and with datetimes that have a time zone, and subtracted from each other:

    >>> landed = Instant.of_epoch_milli(1719835200000)
    >>> landed
    Instant<2024-07-01T12:00:00Z>
    >>> landed - datetime.datetime.fromisoformat("2024-07-01T12:00+02:00")
    datetime.timedelta(seconds=7200)

    A difference is a timedelta, rounded down to microseconds. As in Python, a datetime without a time zone equals no Instant, and
    other comparisons with it raise TypeError.

    Differs from Flink: PyFlink's Instant only compares with other ones, and shows its two numbers.
    """

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Return milliseconds since the epoch, rounded down.

        Differs from Flink: PyFlink gets the last digits wrong for times before 1970.
        """
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the point in time that is `epoch_milli` milliseconds after 1970-01-01 UTC."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def isoformat(self) -> str:
        """Return the ISO 8601 form in UTC, with 0, 3, 6 or 9 decimals, as Java prints it: 2024-07-01T12:00:00.500Z.

        Raises OverflowError for a year that is not 1 to 9999.
        """
        return f"{(_EPOCH + datetime.timedelta(seconds=self.seconds)).isoformat()}{fraction_of_second(self.nanos)}Z"

    def _total_nanos(self) -> int:
        return self.seconds * _NANOS_PER_SECOND + self.nanos

    def __eq__(self, other: object) -> bool:
        if isinstance(other, datetime.datetime) and other.utcoffset() is not None:
            return self._total_nanos() == _nanos_of(other)
        return isinstance(other, Instant) and self.seconds == other.seconds and self.nanos == other.nanos

    def __lt__(self, other: Instant | datetime.datetime) -> bool:
        nanos = _nanos_of(other)
        return NotImplemented if nanos is None else self._total_nanos() < nanos

    def __sub__(self, other: Instant | datetime.datetime) -> datetime.timedelta:
        nanos = _nanos_of(other)
        return NotImplemented if nanos is None else datetime.timedelta(microseconds=(self._total_nanos() - nanos) // 1000)

    def __rsub__(self, other: datetime.datetime) -> datetime.timedelta:
        nanos = _nanos_of(other)
        return NotImplemented if nanos is None else datetime.timedelta(microseconds=(nanos - self._total_nanos()) // 1000)

    def __hash__(self) -> int:
        try:
            # That of an equal datetime.
            return hash(_EPOCH_IN_UTC + datetime.timedelta(seconds=self.seconds, microseconds=self.nanos // 1000))
        except OverflowError:
            return hash((self.seconds, self.nanos))

    def __str__(self) -> str:
        try:
            return self.isoformat()
        except OverflowError:
            return f"{self.seconds}, {self.nanos}"

    def __repr__(self) -> str:
        return f"Instant<{self}>"


def _nanos_of(moment: object) -> int | None:
    """Return the nanoseconds since 1970-01-01 UTC of an Instant or datetime; None for other values.

    Raises TypeError for a datetime without a time zone.
    """
    if isinstance(moment, Instant):
        return moment._total_nanos()
    if not isinstance(moment, datetime.datetime):
        return None
    if moment.utcoffset() is None:
        raise TypeError(
            f"an Instant cannot be compared with {moment!r}: it has no time zone; replace(tzinfo=datetime.UTC) gives it UTC"
        )
    return (moment - _EPOCH_IN_UTC) // _MICROSECOND * 1000


def utc_time(moment: datetime.datetime) -> datetime.datetime:
    """Return a datetime without a time zone; one with a time zone is converted to UTC."""
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def without_zone(time: datetime.time) -> datetime.time:
    """Return a time of day without a time zone; raise ValueError if it has one other than UTC."""
    if time.utcoffset():
        raise ValueError(f"a time of day has no zone: without a date, it cannot be converted to UTC; got {time!r}")
    return time if time.tzinfo is None else time.replace(tzinfo=None)


def instant_of(moment: datetime.datetime) -> Instant:
    """Return the Instant for a datetime; one without a time zone is in UTC."""
    micros = (moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment) - _EPOCH_IN_UTC
    seconds, rest = divmod(micros // _MICROSECOND, 1_000_000)
    return Instant(seconds, rest * 1000)


def datetime_of(instant: Instant) -> datetime.datetime:
    """Return the datetime in UTC for an Instant, rounded down to microseconds; raise OverflowError for years after 9999."""
    return _EPOCH_IN_UTC + datetime.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)


def fraction_of_second(nanos: int) -> str:
    """Return a fraction of a second in groups of three digits, as java.time does: nothing, .500 or .000001."""
    digits = f".{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return digits.removesuffix(".")


class Time:
    """An amount of time in milliseconds; the argument of windows and of state time-to-live.

    A fraction is accepted if it is a whole number of milliseconds: `Time.seconds(1.5)`; others raise InvalidArgumentError.

    Differs from Flink: PyFlink accepts any fraction, and then fails for windows that are not tumbling.

    >>> Time.seconds(5).to_milliseconds()
    5000
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: float) -> None:
        self._milliseconds = _in_millis(milliseconds, 1, "milliseconds")

    def to_milliseconds(self) -> int:
        """Return milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: float) -> Time:
        """Return an amount of milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: float) -> Time:
        """Return an amount of seconds."""
        return Time(_in_millis(seconds, 1_000, "seconds"))

    @staticmethod
    def minutes(minutes: float) -> Time:
        """Return an amount of minutes."""
        return Time(_in_millis(minutes, 60_000, "minutes"))

    @staticmethod
    def hours(hours: float) -> Time:
        """Return an amount of hours."""
        return Time(_in_millis(hours, 3_600_000, "hours"))

    @staticmethod
    def days(days: float) -> Time:
        """Return an amount of days of 24 hours."""
        return Time(_in_millis(days, 86_400_000, "days"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        return hash((Time, self._milliseconds))

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time({self._milliseconds} ms)"


#: An amount of time, for arguments that accept each of these classes, often besides an int of milliseconds.
AmountOfTime: TypeAlias = Time | Duration | datetime.timedelta


def milliseconds_of(
    value: object,
    what: str,
    *,
    kinds: tuple[type[Time | Duration], ...] = (Time, Duration),
    rule: str | None = None,
    or_number: bool = False,
    minimum: int | None = None,
    hint: str | None = None,
) -> int:
    """Return the milliseconds of a timedelta or of an instance of `kinds`; a Duration is rounded down.

    As in PyFlink, some arguments must be a Time and others a Duration: `kinds` says which, and `rule` says it in other words.
    With `or_number`, an int of milliseconds is accepted, too. Raises InvalidArgumentError, which names `what`, for all other
    values, for a timedelta that is not a whole number of milliseconds, and for less than the minimum.

    >>> milliseconds_of(datetime.timedelta(minutes=1, milliseconds=5), "timeout")
    60005
    """
    if isinstance(value, Time) and Time in kinds:
        millis = value.to_milliseconds()
    elif isinstance(value, Duration) and Duration in kinds:
        millis = value.to_millis()
    elif isinstance(value, datetime.timedelta):
        whole, rest = divmod(value, _MILLISECOND)
        millis = int(whole)  # pandas.Timedelta is a timedelta whose quotients are of numpy
        if rest:
            raise InvalidArgumentError(
                f"{what} must be a whole number of milliseconds; got {value!r}.",
                hint=f"round it, such as to timedelta(milliseconds={millis}).",
            )
    elif or_number and isinstance(value, int) and not isinstance(value, bool):
        millis = value
    else:
        if rule is None:
            names = " or ".join(f"a {kind.__name__}" for kind in kinds)
            rule = f"must be an int (milliseconds), {names}" if or_number else f"must be {names}"
        raise InvalidArgumentError(f"{what} {rule}, or a timedelta; got {value!r} of type {type(value).__name__}.", hint=hint)
    if minimum is not None and millis < minimum:
        rule = "must not be negative" if minimum == 0 else f"must be at least {minimum} ms"
        raise InvalidArgumentError(f"{what} {rule}; got {value!r}.", hint=hint)
    return millis


def to_epoch_milli(moment: datetime.date) -> int:
    """Return the milliseconds from 1970-01-01 UTC to a datetime, rounded down, as a TimestampAssigner must return them.

    A datetime without a time zone is taken as UTC, as everywhere in flinkish, whatever the time zone of the machine is; Python's
    own `timestamp()` takes it as local time. A date stands for its midnight in UTC. Raises InvalidArgumentError for other values.

    Differs from Flink: Flink has no such function.

    >>> to_epoch_milli(datetime.datetime(2024, 7, 1, 12))
    1719835200000
    >>> to_epoch_milli(datetime.datetime.fromisoformat("2024-07-01T12:00+02:00"))
    1719828000000
    """
    if not isinstance(moment, datetime.date) or moment != moment:  # pandas.NaT is a datetime
        raise InvalidArgumentError(
            f"to_epoch_milli() needs a datetime or date; got {moment!r} of type {type(moment).__name__}",
            hint="datetime.datetime.fromisoformat(text) or strptime(text, format) read one.",
        )
    if not isinstance(moment, datetime.datetime):
        return (moment.toordinal() - _EPOCH.toordinal()) * 86_400_000
    elapsed: datetime.timedelta = moment.replace(tzinfo=None) - _EPOCH
    if moment.tzinfo is not None:
        elapsed -= moment.utcoffset() or datetime.timedelta(0)
    return elapsed // _MILLISECOND


_UNIT_NANOS = {
    unit: nanos
    for nanos, units in (
        (86_400 * _NANOS_PER_SECOND, ("d", "day", "days")),
        (3_600 * _NANOS_PER_SECOND, ("h", "hour", "hours")),
        (60 * _NANOS_PER_SECOND, ("m", "min", "minute", "minutes")),
        (_NANOS_PER_SECOND, ("s", "sec", "secs", "second", "seconds")),
        (_NANOS_PER_MILLI, ("", "ms", "milli", "millis", "millisecond", "milliseconds")),
        (1_000, ("µs", "us", "micro", "micros", "microsecond", "microseconds")),
        (1, ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
    )
    for unit in units
}
_NUMBER_AND_UNIT = re.compile(r"(\d+)\s*([a-zµ]*)")
_ISO = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)


def parse_duration(text: str) -> Duration:
    """Parse a duration as Flink's configuration writes it: '10 s', '5 min', '100' (milliseconds), or ISO 8601 such as 'PT10S'.

    Raises ValueError for anything else.

    >>> parse_duration("5 min")
    Duration<PT5M>
    """
    text = text.strip()
    match = _NUMBER_AND_UNIT.fullmatch(text.lower())
    if match is not None and match[2] in _UNIT_NANOS:
        return Duration(int(match[1]) * _UNIT_NANOS[match[2]])
    iso = _ISO.fullmatch(text)
    if iso is not None and any(iso[part] is not None for part in ("days", "hours", "minutes", "seconds")):
        days, hours, minutes, seconds = (int(iso[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
        nanos = int((iso["fraction"] or "").ljust(9, "0"))
        total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * _NANOS_PER_SECOND + nanos
        return Duration(-total if iso["sign"] == "-" else total)
    raise ValueError(f"not a duration: {text!r}")
