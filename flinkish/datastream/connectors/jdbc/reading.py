"""Conversion of a database's rows to records of the declared types."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from flinkish.common.conversion import lenient_converter
from flinkish.common.errors import SourceError, TypeMismatchError
from flinkish.common.kinds import kind_of, plain_type
from flinkish.common.time import Instant, instant_of
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, TypeInformation
from flinkish.common.types import Row, RowKind, make_row
from flinkish.datastream.connectors.jdbc.values import Convert, plain_class, with_microseconds

_ERRORS = (TypeMismatchError, ValueError, TypeError, OverflowError, InvalidOperation)


def rows_from(
    names: tuple[str, ...], types: tuple[TypeInformation, ...], what: str
) -> Callable[[Sequence[Sequence[Any]]], list[Row]]:
    """Return the function that converts a database's rows to records.

    It raises SourceError, which names the column and the value, if a value does not have its declared type.
    """
    needed = [
        (i, _field(plain_type(field), f"{what}: column {name!r}"))
        for i, (name, field) in enumerate(zip(names, types, strict=True))
    ]

    def make(rows: Sequence[Sequence[Any]]) -> list[Row]:
        made = [list(row) for row in rows]
        for i, convert in needed:
            for row in made:
                value = row[i]
                if value is not None:
                    try:
                        row[i] = convert(value)
                    except _ERRORS as error:
                        raise SourceError(
                            f"JdbcSource: {what}: column {names[i]!r} is declared {types[i]!r} and holds {value!r} of type "
                            f"{type(value).__name__}: {error}",
                            hint="declare the type that the database has, or cast the column in a query.",
                        ) from error
        return [make_row(names, row, RowKind.INSERT) for row in made]

    return make


def _field(type_info: TypeInformation, what: str) -> Convert:
    """Return the function that converts a driver's values of a column to the declared type."""
    first = _from_driver(type_info, plain_class(type_info, what))
    check = lenient_converter(with_microseconds(type_info))
    if check is None:
        return first
    return lambda value: check(first(value))


def _from_driver(type_info: TypeInformation, plain: type) -> Convert:
    if kind_of(type_info) is BasicType.INSTANT:
        return _instant
    if kind_of(type_info) is BasicType.BIG_INT:
        return _big_integer
    if isinstance(type_info, DecimalTypeInfo):
        return lambda value: _exactly(type_info, _decimal(value))
    return _BY_PLAIN.get(plain, _same)


def _same(value: Any) -> Any:
    return value


def _instant(value: Any) -> Instant:
    moment = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime.datetime):
        raise TypeError("no timestamp")
    return instant_of(moment)


def _integer(value: Any) -> int:
    number = int(value)
    if number != value:
        raise ValueError("not a whole number")
    return number


def _big_integer(value: Any) -> int:
    # A column of type TEXT, which SQLite needs for more than 64 bits, has numbers as text.
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    return _integer(value)


def _number(value: Any) -> Any:
    """Convert whole numbers: PostgreSQL's numeric values are Decimals."""
    return _integer(value) if isinstance(value, Decimal) else value


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, uuid.UUID) else value


def _boolean(value: Any) -> Any:
    if value in (0, 1):  # SQLite and MySQL have no booleans
        return bool(value)
    raise ValueError("neither true nor false")


def _float(value: Any) -> Any:
    if not isinstance(value, Decimal):
        return value
    number = float(value)
    if math.isinf(number) and value.is_finite():
        raise OverflowError("too large for a float")
    return number


def _decimal(value: Any) -> Decimal:
    # SQLite stores decimals as text or numbers; repr has all digits of a float.
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _exactly(type_info: DecimalTypeInfo, number: Decimal) -> Decimal:
    try:
        rounded = type_info.rounded(number)
    except InvalidOperation:
        rounded = None
    if rounded != number:
        raise ValueError(f"a {type_info} cannot hold it")
    return number


def _bytes(value: Any) -> bytes:
    if isinstance(value, int):  # bytes(n) would be n zeros
        raise TypeError("no bytes")
    return bytes(value)


def _date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise TypeError("a timestamp, not a date")
    return datetime.date.fromisoformat(value) if isinstance(value, str) else value


def _time(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):  # MySQL
        if not datetime.timedelta(0) <= value < datetime.timedelta(days=1):
            raise ValueError("not a time of day")
        return (datetime.datetime.min + value).time()
    return datetime.time.fromisoformat(value) if isinstance(value, str) else value


def _timestamp(value: Any) -> Any:
    return datetime.datetime.fromisoformat(value) if isinstance(value, str) else value


_BY_PLAIN: dict[type, Convert] = {
    str: _text,
    int: _number,
    bool: _boolean,
    float: _float,
    Decimal: _decimal,
    datetime.date: _date,
    datetime.time: _time,
    datetime.datetime: _timestamp,
    bytes: _bytes,
}
