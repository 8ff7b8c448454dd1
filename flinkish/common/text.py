"""The text of records, as Flink prints them and writes them to text files.

Values of a declared type look like the Java objects that Flink uses for them: `+I[a, 1]`, `(a,1)`, `{k=1}`, `true`, `1.0E10`.
Values without a declared type are formatted by Python's `str`. Numbers look as in Java 19 and later; Java up to 18 shows more
digits than needed for some. The entries of a map keep the order of the dict; Java's HashMap has an order of its own. The
functions are built once per type, so nothing is looked up per record.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from flinkish.common.kinds import BOUNDS, Kind, kind_of, plain_type, shape_of
from flinkish.common.limits import to_float32
from flinkish.common.time import Instant, fraction_of_second
from flinkish.common.typeinfo import BasicType, LocalTimeTypeInfo, TypeInformation

TextFunction = Callable[[Any], str]


def to_text(value: Any, type_info: TypeInformation) -> str:
    """Return the text of a value as `print()` shows it. For many values use `print_function`, which is built once.

    >>> from flinkish.common import Types
    >>> to_text(("a", 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    '(a,1)'
    """
    return print_function(type_info)(value)


def shortened(text: str, most: int = 200) -> str:
    """Return a text for an error: the beginning of it, if it has more than `most` characters."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def print_function(type_info: TypeInformation) -> TextFunction:
    """Return the function that formats values as `print()` shows them.

    It formats like `text_function`, except for rows: PyFlink prints their fields as Python does and without a space:
    `+I[a,None]`.
    """
    return _printed_row if kind_of(type_info) is Kind.ROW else text_function(type_info)


def text_function(type_info: TypeInformation) -> TextFunction:
    """Return the function that formats values as Flink's Java objects do; used for text files.

    >>> from flinkish.common import Row, Types
    >>> text_function(Types.ROW([Types.STRING(), Types.DOUBLE()]))(Row("a", 1e10))
    '+I[a, 1.0E10]'
    """
    return str if kind_of(type_info) is Kind.PICKLED else _nullable(_function(type_info))


def _printed_row(row: Any) -> str:
    if row is None:
        return "null"
    return f"{row._row_kind}[{','.join(map(str, row._values))}]"


def _nullable(function: TextFunction) -> TextFunction:
    if function is str:
        return lambda value: "null" if value is None else str(value)
    return lambda value: "null" if value is None else function(value)


def _function(type_info: TypeInformation) -> TextFunction:
    type_info = plain_type(type_info)
    kind, types = shape_of(type_info)
    if isinstance(type_info, LocalTimeTypeInfo):
        return _LOCAL[kind]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    parts = [text_function(part) for part in types]
    match kind:
        case Kind.ROW:
            return lambda row: (
                f"{row._row_kind}[{', '.join([text(item) for text, item in zip(parts, row._values, strict=False)])}]"
            )
        case Kind.TUPLE:
            return lambda value: f"({','.join([text(item) for text, item in zip(parts, value, strict=False)])})"
        case Kind.LIST:
            (element,) = parts
            return lambda value: f"[{', '.join([element(item) for item in value])}]"
        case Kind.MAP:
            key_text, value_text = parts
            return lambda value: "{" + ", ".join([f"{key_text(key)}={value_text(item)}" for key, item in value.items()]) + "}"
        case _:
            return str


def double_text(value: float) -> str:
    """Format a 64-bit number as Double.toString of Java 19 and later: the fewest digits that identify it, but at least two."""
    magnitude = abs(value)
    if 1e-3 <= magnitude < 1e7:
        return repr(float(value))
    special = _special_text(value)
    if special is not None:
        return special
    text = repr(float(value))
    # Java writes the closest two digits where one would do: the smallest double is 5e-324 in Python and 4.9E-324 in Java.
    return _scientific(Decimal(text if "." in text else f"{value:.1e}"))


def float_text(value: float) -> str:
    """Format a 32-bit number as Float.toString of Java 19 and later: the fewest digits that identify it, but at least two."""
    # Imported late: most jobs have no FLOAT.
    import numpy as np

    special = _special_text(value)
    if special is not None:
        return special
    try:
        number = np.float32(to_float32(value))
    except OverflowError:  # a number that was never checked against its type
        return double_text(value)
    if 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(number, trim="0")
    text = np.format_float_scientific(number, trim="-")
    return _scientific(Decimal(text if "." in text else f"{value:.1e}"))


def _special_text(value: float) -> str | None:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(float(value))
    return None


def _scientific(number: Decimal) -> str:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = len(text) + exponent - 1
    rest = text[1:].rstrip("0") or "0"
    return f"{'-' if sign else ''}{text[0]}.{rest}E{power}"


def _date_text(value: Any) -> str:
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"


def _timestamp_text(value: datetime.datetime) -> str:
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{_date_text(value)} {value:%H:%M:%S}.{fraction}"


def _local_time_text(value: Any) -> str:
    if value.second == 0 and value.microsecond == 0:
        return f"{value:%H:%M}"
    return f"{value:%H:%M:%S}{fraction_of_second(value.microsecond * 1000)}"


_LOCAL: dict[BasicType | Kind, TextFunction] = {
    Kind.DATE: _date_text,
    Kind.TIME: _local_time_text,
    Kind.TIMESTAMP: lambda value: f"{_date_text(value)}T{_local_time_text(value)}",
}

_SIMPLE: dict[BasicType | Kind, TextFunction] = {
    **dict.fromkeys((BasicType.STRING, BasicType.CHAR, BasicType.BIG_INT, BasicType.BIG_DEC, *BOUNDS), str),
    BasicType.BOOLEAN: lambda value: "true" if value else "false",
    BasicType.FLOAT: float_text,
    BasicType.DOUBLE: double_text,
    BasicType.INSTANT: Instant.isoformat,
    Kind.BYTES: lambda value: f"[{', '.join([str(byte - 256 if byte > 127 else byte) for byte in bytes(value)])}]",
    Kind.DATE: _date_text,
    Kind.TIME: lambda value: f"{value:%H:%M:%S}",
    Kind.TIMESTAMP: _timestamp_text,
}
