"""JSON as Flink's row schemas read and write it."""

from __future__ import annotations

import datetime
import decimal
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import msgspec

from flinkish.common.errors import InvalidProgramError
from flinkish.common.limits import to_float32
from flinkish.common.text import double_text, float_text, text_function
from flinkish.common.time import Instant
from flinkish.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from flinkish.common.types import make_row
from flinkish.datastream.connectors._arrow import bytes_of, fields_of, is_bytes, unwrap, utc_time, values_of
from flinkish.datastream.connectors.file_system.csv_values import INTEGER_BITS, parse_float
from flinkish.datastream.connectors.file_system.json_values import (
    JsonConverter,
    JsonConverters,
    checked,
    mismatch,
    range_check,
    to_instant,
)

_MISSING: Final = object()
#: That of Java's Instant.
_LAST_SECOND: Final = 31_556_889_864_403_199


class LenientJsonConverters(JsonConverters):
    """Converters as lenient as Flink's JsonRowDeserializationSchema: a text is read as a number, and any value as a text.

    Missing fields become None (unless `fail_on_missing_field`), and so do values that cannot be read (with
    `ignore_parse_errors`).
    """

    def __init__(self, *, fail_on_missing_field: bool, ignore_parse_errors: bool) -> None:
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors

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

    def simple(self, type_info: TypeInformation) -> JsonConverter:
        match type_info:
            case BasicTypeInfo(basic_type=BasicType.STRING):
                return lambda value, path: value if value.__class__ is str else _as_text(value)
            case BasicTypeInfo(basic_type=BasicType.BOOLEAN):
                return checked(type_info, (bool, str), _to_boolean)
            case BasicTypeInfo(basic_type=BasicType.FLOAT):
                return checked(type_info, (int, float, decimal.Decimal, str), lambda value: to_float32(_to_float(value)))
            case BasicTypeInfo(basic_type=BasicType.DOUBLE):
                return checked(type_info, (int, float, decimal.Decimal, str), _to_float)
            case BasicTypeInfo(basic_type=BasicType.INSTANT):
                return checked(type_info, (int, float, decimal.Decimal, str), _to_instant)
            case BasicTypeInfo(basic_type=basic) if basic is BasicType.BIG_INT or basic in INTEGER_BITS:
                in_range = range_check(basic)
                return checked(type_info, (int, float, decimal.Decimal, str), lambda value: in_range(_to_int(value)))
            case _:
                return super().simple(type_info)

    def row(self, type_info: RowTypeInfo) -> JsonConverter:
        names = type_info.field_names
        fields = [(name, self.build(part)) for name, part in zip(names, type_info.field_types, strict=True)]
        fail = self._fail_on_missing_field

        def convert(value: Any, path: str) -> Any:
            if isinstance(value, list) and len(value) == len(fields):
                value = dict(zip(names, value, strict=True))
            if not isinstance(value, dict):
                raise mismatch(type_info, value, path)
            prefix = f"{path}." if path else ""
            values = []
            for name, one in fields:
                part = value.get(name, _MISSING)
                if part is _MISSING:
                    if fail:
                        raise ValueError(f"Could not find field with name '{prefix}{name}'.")
                    part = None
                values.append(one(part, prefix + name))
            return make_row(names, values)

        return convert

    def map(self, type_info: MapTypeInfo) -> JsonConverter:
        key_of = self.build(type_info.key_type)
        entries = super().map(MapTypeInfo(Types.STRING(), type_info.value_type))

        def convert(value: Any, path: str) -> Any:
            return {key_of(key, path): part for key, part in entries(value, path).items()}

        return convert


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


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        if "_" in value:  # Python's int() accepts 1_000
            raise ValueError
        return int(value)
    if value != int(value):
        raise ValueError
    return int(value)


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


# Writing.

Plain = Callable[[Any], Any]


def json_writer(type_info: TypeInformation) -> Plain:
    """Return the function that converts values so that msgspec writes them as Flink does.

    Raises InvalidProgramError for types that cannot be written as JSON. The function raises ValueError, TypeError or
    AttributeError for values of another type.
    """
    type_info = unwrap(type_info)
    write: Plain
    match type_info:
        case RowTypeInfo():
            write = _row_writer(type_info)
        case TupleTypeInfo():
            parts = [json_writer(part) for part in type_info.field_types]
            write = lambda value: [one(part) for one, part in zip(parts, value, strict=True)]  # noqa: E731
        case PrimitiveArrayTypeInfo() if is_bytes(type_info):
            write = bytes_of
        case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
            element = json_writer(type_info.element_type)
            write = lambda values: list(map(element, _array(values)))  # noqa: E731
        case MapTypeInfo():
            key_text, item = text_function(type_info.key_type), json_writer(type_info.value_type)
            write = lambda value: _of_texts({key_text(key): item(part) for key, part in value.items()}, value)  # noqa: E731
        case _:
            write = _simple_writer(type_info)
    return lambda value: None if value is None else write(value)


def _row_writer(type_info: RowTypeInfo) -> Plain:
    fields = fields_of(type_info)
    assert fields is not None
    names = fields[0]
    parts = [json_writer(part) for part in fields[1]]

    def write(row: Any) -> dict[str, Any]:
        plain = {}
        for name, one, value in zip(names, parts, values_of(row, names), strict=True):
            try:
                plain[name] = one(value)
            except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
                raise ValueError(f"field {name!r}: {error}") from error
        return plain

    return write


def _simple_writer(type_info: TypeInformation) -> Plain:
    match type_info:
        case BasicTypeInfo(basic_type=BasicType.STRING | BasicType.CHAR):
            return _instance(str)
        case BasicTypeInfo(basic_type=BasicType.BOOLEAN):
            return _instance(bool)
        case BasicTypeInfo(basic_type=BasicType.DOUBLE):
            return _float_writer(double_text, lambda value: value)
        case BasicTypeInfo(basic_type=BasicType.FLOAT):
            return _float_writer(float_text, lambda value: float(float_text(value)))
        case DecimalTypeInfo():
            return lambda value: _rounded(type_info, value)
        case BasicTypeInfo(basic_type=BasicType.BIG_DEC):
            return _decimal
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            return text_function(type_info)
        case BasicTypeInfo():
            in_range = range_check(type_info.basic_type)
            return lambda value: in_range(operator.index(value))
        case DateTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE):
            return lambda value: datetime.date(value.year, value.month, value.day).isoformat()
        case TimeTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_TIME):
            return lambda value: f"{_without_zeros(_without_zone(value))}Z"
        case TimestampTypeInfo() | LocalTimeTypeInfo():
            return _timestamp
        case _:
            raise InvalidProgramError(f"{type_info!r} cannot be written as JSON")


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
