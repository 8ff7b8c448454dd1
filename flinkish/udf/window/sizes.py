"""Checks of the sizes of windows: times and numbers of records."""

from __future__ import annotations

from datetime import timedelta

from flinkish.common.arguments import check, int_of
from flinkish.common.time import Time, milliseconds_of


def size_in_ms(time: object, argument: str, method: str) -> int:
    """Return a size in milliseconds; raise InvalidArgumentError unless it is a Time or timedelta."""
    return milliseconds_of(
        time, f"{argument} of {method}()", kinds=(Time,), rule="must be a Time", hint="for example Time.seconds(5)."
    )


def sizes_in_ms(method: str, **times: Time | timedelta | None) -> list[int]:
    """Return sizes in milliseconds; an `offset` of None is 0."""
    return [0 if name == "offset" and time is None else size_in_ms(time, name, method) for name, time in times.items()]


def record_count(number: object, what: str) -> int:
    """Return a number of records; raise an error unless it is an int of at least 1."""
    count = int_of(f"{what}()", number)
    check(count >= 1, f"{what} needs at least 1 record; got {count}.")
    return count
