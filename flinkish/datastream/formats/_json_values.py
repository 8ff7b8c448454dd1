"""JSON as Flink's row schemas read and write it."""

from __future__ import annotations

import datetime
import decimal
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from flinkish.common.errors import InvalidProgramError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, range_check, shape_of
from flinkish.common.limits import one_character, to_float32
from flinkish.common.text import double_text, float_text, text_function
from flinkish.common.time import Instant, utc_time
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, TypeInformation, Types
from flinkish.datastream.connectors._arrow import bytes_of, values_of
from flinkish.datastream.connectors.file_system.csv_values import parse_float
from flinkish.datastream.connectors.file_system.json_values import (
    STRICT,
    JsonConverter,
    JsonConverters,
    SimpleConverters,
    to_instant,
)

#: That of Java's Instant.
_LAST_SECOND: Final = 31_556_889_864_403_199


def _as_text(value: Any) -> str:
    """Return the JSON text of a value, with numbers as Java writes them."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case dict() | list():
            return msgspec.json.Encoder(decimal_format="number").encode(value).decode()
        case _:
            return str(value)


def _to_boolean(value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    match value.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError


def _to_int(in_range: Callable[[int], int], value: Any) -> int:
    number = int(value)
    if "_" in value if isinstance(value, str) else number != value:  # Python's int() accepts 1_000
        raise ValueError
    return in_range(number)


def _to_float(value: Any) -> float:
    return value if value.__class__ is float else parse_float(str(value))


def _to_instant(value: Any) -> Instant:
    """Read an Instant as Jackson does: numbers are seconds."""
    if isinstance(value, str):
        return to_instant(value)
    # Rounded down: a decimal's own divmod() rounds towards zero, which gives times before 1970 negative nanoseconds.
    number = decimal.Decimal(str(value))
    if abs(number) > _LAST_SECOND:
        raise ValueError
    nanos = int((number * 1_000_000_000).to_integral_value(decimal.ROUND_FLOOR))
    return Instant(*divmod(nanos, 1_000_000_000))


_NUMBERS: Final = (int, float, decimal.Decimal, str)

_LENIENT: Final[SimpleConverters] = {
    **STRICT,
    **{kind: (_NUMBERS, partial(_to_int, range_check(kind))) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.BOOLEAN: ((bool, str), _to_boolean),
    BasicType.FLOAT: (_NUMBERS, lambda value: to_float32(_to_float(value))),
    BasicType.DOUBLE: (_NUMBERS, _to_float),
    BasicType.INSTANT: (_NUMBERS, _to_instant),
}


class LenientJsonConverters(JsonConverters):
    """Converters as lenient as Flink's JsonRowDeserializationSchema: a text is read as a number, and any value as a text.

    Missing fields become None (unless `fail_on_missing_field`), and so do values that cannot be read (with
    `ignore_parse_errors`).
    """

    simple: ClassVar[SimpleConverters] = _LENIENT
    lists_as_rows: ClassVar[bool] = True

    def __init__(self, *, fail_on_missing_field: bool, ignore_parse_errors: bool) -> None:
        self.fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors

    def build(self, type_info: TypeInformation) -> JsonConverter:
        if kind_of(type_info) is BasicType.STRING:
            return self.nullable(lambda value, path: value if value.__class__ is str else _as_text(value))
        return super().build(type_info)

    def nullable(self, convert: JsonConverter) -> JsonConverter:
        if not self._ignore_parse_errors:
            return super().nullable(convert)

        def convert_or_null(value: Any, path: str) -> Any:
            if value is None:
                return None
            try:
                return convert(value, path)
            except ValueError:
                return None

        return convert_or_null

    def map(self, type_info: TypeInformation, types: tuple[TypeInformation, ...]) -> JsonConverter:
        key_of = self.build(types[0])
        entries = super().map(type_info, (Types.STRING(), types[1]))

        def convert(value: Any, path: str) -> Any:
            return {key_of(key, path): part for key, part in entries(value, path).items()}

        return convert


# Writing.

Plain = Callable[[Any], Any]


def json_writer(type_info: TypeInformation) -> Plain:
    """Return the function that converts values so that msgspec writes them as Flink does.

    Raises InvalidProgramError for types that cannot be written as JSON. The function raises ValueError, TypeError or
    AttributeError for values of another type.
    """
    type_info = plain_type(type_info)
    kind, types = shape_of(type_info)
    write: Plain
    match kind:
        case Kind.ROW:
            write = _row_writer(part_names(type_info), list(map(json_writer, types)))
        case Kind.TUPLE:
            parts = list(map(json_writer, types))
            write = lambda value: [one(part) for one, part in zip(parts, value, strict=True)]  # noqa: E731
        case Kind.LIST:
            element = json_writer(*types)
            write = lambda values: list(map(element, _array(values)))  # noqa: E731
        case Kind.MAP:
            key_text, item = text_function(types[0]), json_writer(types[1])
            write = lambda value: _of_texts({key_text(key): item(part) for key, part in value.items()}, value)  # noqa: E731
        case _ if isinstance(type_info, DecimalTypeInfo):
            write = partial(_rounded, type_info)
        case _ if kind in _WRITERS:
            write = _WRITERS[kind]
        case _:
            raise InvalidProgramError(f"{type_info!r} cannot be written as JSON")
    return lambda value: None if value is None else write(value)


def _row_writer(names: tuple[str, ...], parts: list[Plain]) -> Plain:
    def write(row: Any) -> dict[str, Any]:
        plain = {}
        for name, one, value in zip(names, parts, values_of(row, names), strict=True):
            try:
                plain[name] = one(value)
            except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
                raise ValueError(f"field {name!r}: {error}") from error
        return plain

    return write


def _array(values: Any) -> Any:
    if isinstance(values, str | bytes):
        raise TypeError(f"expected an array; got {values!r}")
    return values


def _of_texts(written: dict[str, Any], value: dict[Any, Any]) -> dict[str, Any]:
    if len(written) < len(value):
        raise ValueError(f"two keys have the same text: {list(value)!r}")
    return written


def _without_zone(value: datetime.time) -> datetime.time:
    if value.utcoffset():
        raise ValueError(f"a time of day has no zone; got {value!r}")
    return value


def _timestamp(value: datetime.datetime) -> str:
    value = utc_time(value)
    return f"{value.date().isoformat()}T{_without_zeros(value.time())}Z"


def _instance(cls: type) -> Plain:
    def check(value: Any) -> Any:
        if not isinstance(value, cls):
            raise TypeError(f"expected {cls.__name__}; got {value!r} of type {type(value).__name__}")
        return value

    return check


_text: Final = _instance(str)


def _float_writer(text: Callable[[float], str], write: Callable[[float], float]) -> Plain:
    def convert(value: Any) -> Any:
        if isinstance(value, str):
            raise TypeError(f"expected a number; got {value!r}")
        number = float(value)
        # JSON has no NaN and infinity; Flink writes their names.
        return write(number) if math.isfinite(number) else text(number)

    return convert


def _decimal(value: Any) -> decimal.Decimal:
    number = decimal.Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{value!r} is no number")
    return decimal.Decimal(f"{number:f}")


def _rounded(type_info: DecimalTypeInfo, value: Any) -> decimal.Decimal:
    try:
        return _decimal(type_info.rounded(_decimal(value)))
    except ArithmeticError:
        raise ValueError(f"{value!r} has more than {type_info.precision - type_info.scale} digits before the point") from None


def _without_zeros(value: datetime.time) -> str:
    return f"{value:%H:%M:%S}" + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")


def _integer_writer(kind: BasicType | Kind) -> Plain:
    in_range = range_check(kind)
    return lambda value: in_range(operator.index(value))


_WRITERS: Final[dict[BasicType | Kind, Plain]] = {
    **{kind: _integer_writer(kind) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.STRING: _text,
    BasicType.CHAR: lambda value: one_character(_text(value)),
    BasicType.BOOLEAN: _instance(bool),
    BasicType.DOUBLE: _float_writer(double_text, lambda value: value),
    BasicType.FLOAT: _float_writer(float_text, lambda value: float(float_text(value))),
    BasicType.BIG_DEC: _decimal,
    BasicType.INSTANT: Instant.isoformat,
    Kind.DATE: lambda value: datetime.date(value.year, value.month, value.day).isoformat(),
    Kind.TIME: lambda value: f"{_without_zeros(_without_zone(value))}Z",
    Kind.TIMESTAMP: _timestamp,
    Kind.BYTES: bytes_of,
}
