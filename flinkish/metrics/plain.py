"""Turns the values of users' metrics into plain numbers and texts, which every reporter and REST can show."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from typing import Any, Final

#: Larger whole numbers are infinite: their sums could not be converted to float, and some could not be printed.
_LARGEST: Final = 2**1000


def plain(value: Any) -> int | float | str | None:
    """Return a value as int, float, bool or str; None = there is no value. Raises TypeError for anything else.

    Decimals, fractions and scalars of numpy are numbers, too. Whole numbers stay exact up to 2^1000.
    """
    kind = type(value)
    if value is None or kind is float or kind is bool or (kind is int and -_LARGEST < value < _LARGEST):
        return value  # type: ignore[no-any-return]
    if isinstance(value, str):
        # Half of a surrogate pair could not be sent to anybody.
        return str(value).encode("utf-8", "replace").decode()
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
        kind = type(value)
        if kind in (bool, str, float):
            return value  # type: ignore[no-any-return]
    if isinstance(value, numbers.Integral):
        number = int(value)
        return number if -_LARGEST < number < _LARGEST else math.copysign(math.inf, number > 0 or -1)
    if isinstance(value, (numbers.Real, Decimal)):
        return _as_float(value)
    raise TypeError(f"a {kind.__module__}.{kind.__qualname__} is neither a number nor a text")


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:
        # Decimal's signaling NaN.
        return math.nan


def text_of(value: Any) -> str:
    """Return a value as text, as Java writes it: `NaN` and `Infinity` are what Flink's clients can read."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value)
