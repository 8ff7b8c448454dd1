"""Values of CSV fields, by their declared types."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final

from flinkish.common.time import Instant
from flinkish.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)

Parse = Callable[[str], Any]


def _unsupported(text: str) -> Any:
    raise ValueError(text)


UNSUPPORTED: Final[Parse] = _unsupported


def null_parser(nulls: frozenset[str]) -> Parse:
    return lambda text: None if text in nulls else text


_RANGES: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def parser(type_info: TypeInformation, nulls: frozenset[str]) -> Parse | None:
    """Return what makes a value of a field's text, raising ValueError or ArithmeticError; None for text as it is."""
    parse: Parse
    match type_info:
        case BasicTypeInfo(basic_type=BasicType.STRING):
            return null_parser(nulls) if nulls else None
        case BasicTypeInfo(basic_type=BasicType.CHAR):
            parse = _parse_char
        case BasicTypeInfo(basic_type=BasicType.BOOLEAN):
            parse = _parse_boolean
        case BasicTypeInfo(basic_type=BasicType.FLOAT | BasicType.DOUBLE):
            parse = _parse_float
        case BasicTypeInfo(basic_type=BasicType.BIG_INT):
            parse = _parse_int
        case BasicTypeInfo(basic_type=BasicType.BIG_DEC):
            parse = _parse_decimal
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            parse = _parse_instant
        case BasicTypeInfo():
            parse = _int_parser(_RANGES[type_info.basic_type])
        case DateTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE):
            parse = datetime.date.fromisoformat
        case TimeTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_TIME):
            parse = datetime.time.fromisoformat
        case TimestampTypeInfo() | LocalTimeTypeInfo():
            parse = _parse_timestamp
        case _:
            return UNSUPPORTED
    empty = nulls | {""}
    return lambda text: None if text in empty else parse(text)


#: So many digits (and a sign) always fit.
_SAFE_DIGITS: Final = {8: 2, 16: 4, 32: 9, 64: 18}

ParseColumn = Callable[[list[str]], list[Any]]


def column_parser(type_info: TypeInformation | None, parse: Parse | None, nulls: frozenset[str]) -> ParseColumn | None:
    """Return what does as `parse` for all fields of a column at once: without a call for each where there are many."""
    if parse is None:
        return None
    empty = nulls | {""}
    match type_info:
        case BasicTypeInfo(basic_type=BasicType.BYTE | BasicType.SHORT | BasicType.INT | BasicType.LONG):
            digits = _SAFE_DIGITS[_RANGES[type_info.basic_type]]

            def parse_ints(texts: list[str]) -> list[Any]:
                if max(map(len, texts), default=0) > digits or "_" in "".join(texts):
                    return list(map(parse, texts))
                return [None if text in empty else int(text) for text in texts]

            return parse_ints
        case BasicTypeInfo(basic_type=BasicType.FLOAT | BasicType.DOUBLE):

            def parse_floats(texts: list[str]) -> list[Any]:
                if "_" in "".join(texts):
                    return list(map(parse, texts))
                return [None if text in empty else float(text) for text in texts]

            return parse_floats
        case DateTypeInfo():
            from_text = datetime.date.fromisoformat
            return lambda texts: [None if text in empty else from_text(text) for text in texts]
        case _:
            return lambda texts: list(map(parse, texts))


def _parse_int(text: str) -> int:
    if "_" in text:  # Python's int() takes 1_000
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


def _parse_float(text: str) -> float:
    if "_" in text:
        raise ValueError(text)
    return float(text)


def _parse_decimal(text: str) -> decimal.Decimal:
    return decimal.Decimal(text)


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


def _parse_timestamp(text: str) -> datetime.datetime:
    value = datetime.datetime.fromisoformat(text)
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def _parse_instant(text: str) -> Instant:
    value = datetime.datetime.fromisoformat(text)
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    micros = (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return Instant(seconds, rest * 1000)
