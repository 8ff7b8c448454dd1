"""Limits of Java's numbers and of Flink; its state, times and settings cannot hold values beyond them."""

from __future__ import annotations

import struct

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
#: LONG_MIN is also the timestamp of a record without one, and the watermark before the first one; LONG_MAX is also the last
#: watermark, and the end of a window that no time ends.
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
#: The largest number of key groups of an operator, and so of subtasks: KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM.
UPPER_BOUND_MAX_PARALLELISM = 1 << 15

_FLOAT32 = struct.Struct("<f")


def to_float32(value: float) -> float:
    """Return the nearest number of 32 bits; raise OverflowError for a finite number for which there is none.

    Differs from Flink: there such a number becomes infinite.

    >>> to_float32(1.1)
    1.100000023841858
    """
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return rounded


def one_character(text: str) -> str:
    """Return a text; raise ValueError unless it is one character."""
    if len(text) != 1:
        raise ValueError(f"{text!r} is not one character")
    return text
