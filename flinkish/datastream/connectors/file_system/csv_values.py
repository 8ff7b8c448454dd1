"""Conversion of CSV fields to their declared types."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final

from flinkish.common.errors import InvalidProgramError
from flinkish.common.limits import to_float32
from flinkish.common.time import Instant
from flinkish.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from flinkish.common.types import make_row
from flinkish.datastream.connectors._arrow import is_bytes, unwrap, utc_time

Parse = Callable[[str], Any]


def null_parser(nulls: frozenset[str]) -> Parse:
    return lambda text: None if text in nulls else text


#: Bits of the integer types with a limit.
INTEGER_BITS: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def parser(type_info: TypeInformation, nulls: frozenset[str], *, separator: str, column: str) -> Parse | None:
    """Return the function that converts a field's text to a value; None if the text itself is the value.

    The function raises ValueError or ArithmeticError. An array or nested row is in one field, with separators between its
    elements. Raises InvalidProgramError, which names the column, for types that cannot be read from CSV.
    """
    parse: Parse
    match type_info:
        case PrimitiveArrayTypeInfo() if is_bytes(type_info):
            return lambda text: None if text in nulls and text else base64.b64decode(text, validate=True)
        case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
            return _array_parser(type_info, nulls, separator, column)
        case RowTypeInfo():
            return _row_parser(type_info, nulls, separator, column)
        case BasicTypeInfo(basic_type=BasicType.STRING):
            return null_parser(nulls) if nulls else None
        case BasicTypeInfo(basic_type=BasicType.CHAR):
            parse = _parse_char
        case BasicTypeInfo(basic_type=BasicType.BOOLEAN):
            parse = _parse_boolean
        case BasicTypeInfo(basic_type=BasicType.FLOAT):
            parse = lambda text: to_float32(parse_float(text))  # noqa: E731
        case BasicTypeInfo(basic_type=BasicType.DOUBLE):
            parse = parse_float
        case BasicTypeInfo(basic_type=BasicType.BIG_INT):
            parse = _parse_int
        case DecimalTypeInfo():
            rounded = type_info.rounded
            parse = lambda text: rounded(parse_decimal(text))  # noqa: E731
        case BasicTypeInfo(basic_type=BasicType.BIG_DEC):
            parse = parse_decimal
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            parse = parse_instant
        case BasicTypeInfo():
            parse = _int_parser(INTEGER_BITS[type_info.basic_type])
        case DateTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE):
            parse = datetime.date.fromisoformat
        case TimeTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_TIME):
            parse = parse_time
        case TimestampTypeInfo() | LocalTimeTypeInfo():
            parse = parse_timestamp
        case _:
            raise InvalidProgramError(
                f"column {column!r} of type {type_info!r} cannot be read from CSV",
                hint="declare it as STRING and convert it in a map().",
            )
    empty = nulls | {""}
    return lambda text: None if text in empty else parse(text)


def _simple_parser(type_info: TypeInformation, separator: str, column: str) -> Parse:
    """Return the parser of an element."""
    type_info = unwrap(type_info)
    if not isinstance(type_info, BasicTypeInfo | DateTypeInfo | TimeTypeInfo | TimestampTypeInfo | LocalTimeTypeInfo):
        raise InvalidProgramError(
            f"column {column!r} cannot be read from CSV: its elements are {type_info!r}, but only simple types can be nested",
            hint="declare it as STRING and convert it in a map().",
        )
    return parser(type_info, frozenset(), separator=separator, column=column) or str


def _array_parser(type_info: Any, nulls: frozenset[str], separator: str, column: str) -> Parse:
    element = _simple_parser(type_info.element_type, separator, column)
    primitive = isinstance(type_info, PrimitiveArrayTypeInfo)

    def parse(text: str) -> Any:
        if not text:
            return []
        if text in nulls:
            return None
        values = list(map(element, text.split(separator)))
        if primitive and None in values:
            raise ValueError(text)
        return values

    return parse


def _row_parser(type_info: RowTypeInfo, nulls: frozenset[str], separator: str, column: str) -> Parse:
    names = type_info.field_names
    parts = [_simple_parser(part, separator, column) for part in type_info.field_types]

    def parse(text: str) -> Any:
        if not text or text in nulls:
            return None
        fields = text.split(separator)
        if len(fields) != len(parts):
            raise ValueError(text)
        return make_row(names, [one(field) for one, field in zip(parts, fields, strict=True)])

    return parse


#: Numbers with this many digits (and a sign) always fit.
_SAFE_DIGITS: Final = {8: 2, 16: 4, 32: 9, 64: 18}

ParseColumn = Callable[[list[str]], list[Any]]


def column_parser(type_info: TypeInformation | None, parse: Parse | None, nulls: frozenset[str]) -> ParseColumn | None:
    """Return a function that applies `parse` to all fields of a column at once, without a call for each if possible."""
    if parse is None:
        return None
    empty = nulls | {""}
    match type_info:
        case BasicTypeInfo(basic_type=BasicType.BYTE | BasicType.SHORT | BasicType.INT | BasicType.LONG):
            digits = _SAFE_DIGITS[INTEGER_BITS[type_info.basic_type]]

            def parse_ints(texts: list[str]) -> list[Any]:
                if max(map(len, texts), default=0) > digits or "_" in "".join(texts):
                    return list(map(parse, texts))
                return [None if text in empty else int(text) for text in texts]

            return parse_ints
        case BasicTypeInfo(basic_type=BasicType.DOUBLE):

            def parse_floats(texts: list[str]) -> list[Any]:
                if "_" in "".join(texts):
                    return list(map(parse, texts))
                values = [None if text in empty else float(text) for text in texts]
                return list(map(parse, texts)) if math.inf in values or -math.inf in values else values

            return parse_floats
        case DateTypeInfo():
            from_text = datetime.date.fromisoformat
            return lambda texts: [None if text in empty else from_text(text) for text in texts]
        case _:
            return lambda texts: list(map(parse, texts))


_DIGIT: Final = re.compile(r"\d")


def _parse_int(text: str) -> int:
    if "_" in text:  # Python's int() accepts 1_000
        raise ValueError(text)
    return int(text)


def _int_parser(bits: int) -> Parse:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def parse(text: str) -> int:
        value = _parse_int(text)
        if low <= value <= high:
            return value
        raise ValueError(text)

    return parse


def parse_float(text: str) -> float:
    """Return the float for a text; raise ValueError for other texts, and OverflowError for a number that is too large."""
    if "_" in text:
        raise ValueError(text)
    value = float(text)
    if math.isinf(value) and _DIGIT.search(text):  # 1e400, not the word
        raise OverflowError(text)
    return value


def parse_decimal(text: str) -> decimal.Decimal:
    """Return the Decimal for a text; raise ValueError for other texts and, as in Java, for NaN and infinity."""
    value = decimal.Decimal(text)
    if "_" in text or not value.is_finite():
        raise ValueError(text)
    return value


def parse_time(text: str) -> datetime.time:
    """Return a time of day; raise ValueError for other texts, and for a zone other than UTC."""
    value = datetime.time.fromisoformat(text)
    if value.utcoffset():
        raise ValueError(text)
    return value.replace(tzinfo=None)


def _parse_char(text: str) -> str:
    if len(text) != 1:
        raise ValueError(text)
    return text


def _parse_boolean(text: str) -> bool:
    match text.strip().lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
        case _:
            raise ValueError(text)


def parse_timestamp(text: str) -> datetime.datetime:
    """Return a time without zone, in microseconds; a time with a zone is converted to UTC. Raises ValueError."""
    return utc_time(datetime.datetime.fromisoformat(text))


#: Matches more decimals of a second than Python can read.
_FINER: Final = re.compile(r"[.,]\d{6}(\d+)")


def parse_instant(text: str) -> Instant:
    """Return the Instant for ISO 8601 text, with nanoseconds, in UTC if it has no zone. Raises ValueError."""
    value = datetime.datetime.fromisoformat(text)
    finer = _FINER.search(text)
    nanos = finer.group(1) if finer else ""
    if len(nanos) > 3:
        raise ValueError(text)
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    micros = (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return Instant(seconds, rest * 1000 + int(nanos.ljust(3, "0")))
