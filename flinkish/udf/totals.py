"""Sums of numbers, exact for decimals as those of Java's BigDecimal are."""

from __future__ import annotations

import decimal
import operator
from collections.abc import Callable
from typing import Any

from flinkish.common.kinds import Kind, kind_of
from flinkish.common.typeinfo import BasicType, TypeInformation

#: Python's own context rounds to 28 digits.
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.InvalidOperation])


def addition(type_info: TypeInformation) -> Callable[[Any, Any], Any]:
    """Return the function that adds two values of a type, which may be undeclared."""
    match kind_of(type_info):
        case BasicType.BIG_DEC:
            return _EXACT.add
        case Kind.PICKLED | Kind.OTHER:
            return _add
        case _:
            return operator.add


def _add(one: Any, other: Any) -> Any:
    return _EXACT.add(one, other) if isinstance(one, decimal.Decimal) else one + other
