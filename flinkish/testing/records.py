"""The output elements of harnesses, and their comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from flinkish.runtime.elements import EndOfInput, Watermark, WatermarkStatus

__all__ = ["OutputElement", "StreamRecord", "assert_records_equal"]


class StreamRecord(NamedTuple):
    """A record with its event time in milliseconds; None if it has none."""

    value: Any
    timestamp: int | None = None


#: An output element of a piece of a program.
OutputElement = StreamRecord | Watermark | WatermarkStatus | EndOfInput


def assert_records_equal(actual: Iterable[Any], expected: Iterable[Any], *, ordered: bool = False, what: str = "records") -> None:
    """Raise AssertionError, which lists missing and unexpected records, unless both have the same records.

    The order does not matter unless `ordered`, because subtasks do not wait for one another.

    >>> assert_records_equal([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    >>> assert_records_equal(["a", "b", "b"], ["a", "c", "b"], what="words")
    Traceback (most recent call last):
    AssertionError: words are not as expected
      missing: 'c'
      unexpected: 'b'
    """
    unexpected, missing = list(actual), list(expected)
    if unexpected == missing:
        return
    if ordered:
        lines = [f"  got: {unexpected!r}", f"  expected: {missing!r}"]
    else:
        for record in list(unexpected):
            if record in missing:
                missing.remove(record)
                unexpected.remove(record)
        lines = [
            *(f"  missing: {record!r}" for record in missing),
            *(f"  unexpected: {record!r}" for record in unexpected),
        ]
    if lines:
        raise AssertionError("\n".join([f"{what} are not as expected", *lines]))
