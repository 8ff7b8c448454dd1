"""Conversion of decoded JSON values to their declared types."""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final

import msgspec

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
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flinkish.common.types import make_row
from flinkish.datastream.connectors._arrow import is_bytes, unwrap
from flinkish.datastream.connectors.file_system.csv_values import (
    INTEGER_BITS,
    parse_decimal,
    parse_float,
    parse_instant,
    parse_time,
    parse_timestamp,
)

#: Function (value, path) that converts the decoded value at a path (`a.b`, empty for the whole); raises ValueError with the path.
JsonConverter = Callable[[Any, str], Any]

_NUMBERS: Final = (int, float, decimal.Decimal)
#: Numbers that JSON lacks, as Java (Jackson) and JsonRowSerializationSchema write them.
_NO_JSON_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class JsonConverters:
    """Makes functions that check decoded JSON and convert it to a type. They are strict: a text is no number, except for
    "NaN", "Infinity" and "-Infinity".

    Objects become Rows: missing fields are None, unknown fields are ignored. A subclass may be more lenient.
    """

    def build(self, type_info: TypeInformation) -> JsonConverter:
        """Return the function for a type; raise InvalidProgramError for unsupported types."""
        type_info = unwrap(type_info)
        match type_info:
            case PickledBytesTypeInfo():
                return lambda value, path: value
            case RowTypeInfo():
                return self.nullable(self.row(type_info))
            case TupleTypeInfo():
                return self.nullable(self.tuple(type_info))
            case MapTypeInfo():
                return self.nullable(self.map(type_info))
            case PrimitiveArrayTypeInfo() if is_bytes(type_info):
                return self.nullable(self.bytes(type_info))
            case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
                return self.nullable(self.list(type_info, type_info.element_type))
            case _:
                return self.nullable(self.simple(type_info))

    def nullable(self, convert: JsonConverter) -> JsonConverter:
        """Return a function that converts values by `convert`, and returns None for None."""
        return lambda value, path: None if value is None else convert(value, path)

    def simple(self, type_info: TypeInformation) -> JsonConverter:
        """Return the function for texts, booleans, numbers and times."""
        match type_info:
            case BasicTypeInfo(basic_type=BasicType.STRING):
                return checked(type_info, str, lambda value: value)
            case BasicTypeInfo(basic_type=BasicType.CHAR):
                return checked(type_info, str, one_character)
            case BasicTypeInfo(basic_type=BasicType.BOOLEAN):
                return checked(type_info, bool, lambda value: value)
            case BasicTypeInfo(basic_type=BasicType.FLOAT):
                return checked(type_info, (*_NUMBERS, str), lambda value: to_float32(to_number(value)))
            case BasicTypeInfo(basic_type=BasicType.DOUBLE):
                return checked(type_info, (*_NUMBERS, str), to_number)
            case DecimalTypeInfo():
                rounded = type_info.rounded
                return checked(type_info, (*_NUMBERS, str), lambda value: rounded(parse_decimal(str(value))))
            case BasicTypeInfo(basic_type=BasicType.BIG_DEC):
                return checked(type_info, (*_NUMBERS, str), lambda value: parse_decimal(str(value)))
            case BasicTypeInfo(basic_type=BasicType.INSTANT):
                return checked(type_info, (int, str), to_instant)
            case BasicTypeInfo():
                return checked(type_info, int, range_check(type_info.basic_type))
            case DateTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE):
                return checked(type_info, str, datetime.date.fromisoformat)
            case TimeTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_TIME):
                return checked(type_info, str, parse_time)
            case TimestampTypeInfo() | LocalTimeTypeInfo():
                return checked(type_info, str, parse_timestamp)
            case _:
                raise InvalidProgramError(f"{type_info!r} cannot be read from JSON")

    def bytes(self, type_info: TypeInformation) -> JsonConverter:
        """Return the function for bytes: base64."""
        return checked(type_info, str, lambda value: base64.b64decode(value, validate=True))

    def row(self, type_info: RowTypeInfo) -> JsonConverter:
        """Return the function for objects."""
        names = type_info.field_names
        fields = [(name, self.build(part)) for name, part in zip(names, type_info.field_types, strict=True)]

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, dict):
                raise mismatch(type_info, value, path)
            prefix = f"{path}." if path else ""
            return make_row(names, [one(value.get(name), prefix + name) for name, one in fields])

        return convert

    def tuple(self, type_info: TupleTypeInfo) -> JsonConverter:
        """Return the function for arrays with exactly the elements of a tuple."""
        fields = [self.build(part) for part in type_info.field_types]

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, list) or len(value) != len(fields):
                raise mismatch(type_info, value, path)
            if None in value:
                raise ValueError(f"field '{path}[{value.index(None)}]' of {type_info!r} must not be null")
            return tuple([one(part, f"{path}[{index}]") for index, (one, part) in enumerate(zip(fields, value, strict=True))])

        return convert

    def list(self, type_info: TypeInformation, element_type: TypeInformation) -> JsonConverter:
        """Return the function for arrays."""
        element = self.build(element_type)
        primitive = isinstance(type_info, PrimitiveArrayTypeInfo)

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, list) or (primitive and None in value):
                raise mismatch(type_info, value, path)
            return [element(part, f"{path}[{index}]") for index, part in enumerate(value)]

        return convert

    def map(self, type_info: MapTypeInfo) -> JsonConverter:
        """Return the function for objects that become dicts."""
        if unwrap(type_info.key_type) != BasicTypeInfo(BasicType.STRING):
            raise InvalidProgramError(f"{type_info!r} cannot be read from JSON: its objects have STRING keys")
        element = self.build(type_info.value_type)

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, dict):
                raise mismatch(type_info, value, path)
            return {key: element(part, f"{path}[{key!r}]") for key, part in value.items()}

        return convert


def json_decoder(type_info: TypeInformation | None) -> msgspec.json.Decoder[Any]:
    """Return a decoder, which keeps all digits of decimals if the type contains any."""
    if type_info is not None and "BigDecimal" in repr(type_info):
        return msgspec.json.Decoder(float_hook=decimal.Decimal)
    return msgspec.json.Decoder()


def mismatch(type_info: TypeInformation, value: Any, path: str) -> ValueError:
    """Return the error for a value of another type."""
    where = f"field {path!r}" if path else "the value"
    shown = repr(value)
    return ValueError(
        f"{where} must be {type_info!r}; got {_describe_type(value)}: {shown if len(shown) <= 100 else shown[:100] + '...'}"
    )


def checked(type_info: TypeInformation, classes: type | tuple[type, ...], convert: Callable[[Any], Any]) -> JsonConverter:
    """Return a function for values of certain classes; a bool is not accepted as an int."""
    boolean = classes is bool or (isinstance(classes, tuple) and bool in classes)

    def check(value: Any, path: str) -> Any:
        if not isinstance(value, classes) or (isinstance(value, bool) and not boolean):
            raise mismatch(type_info, value, path)
        try:
            return convert(value)
        except (ValueError, ArithmeticError):
            raise mismatch(type_info, value, path) from None

    return check


def range_check(basic_type: BasicType) -> Callable[[int], int]:
    """Return a function that raises ValueError for a number that does not fit the type."""
    bits = INTEGER_BITS.get(basic_type)
    limit = None if bits is None else 2 ** (bits - 1)

    def check(value: int) -> int:
        if limit is not None and not -limit <= value < limit:
            raise ValueError
        return value

    return check


def one_character(value: str) -> str:
    """Return the value; raise ValueError unless it is one character."""
    if len(value) != 1:
        raise ValueError
    return value


def to_number(value: float | decimal.Decimal | str) -> float:
    """Return a number as a float; of texts, accept only those that stand for the numbers that JSON lacks."""
    if isinstance(value, str) and value not in _NO_JSON_NUMBERS:
        raise ValueError
    return value if value.__class__ is float else parse_float(str(value))


def to_instant(value: int | str) -> Instant:
    """Return the Instant for ISO 8601 text, in UTC if it has no zone, or for a number of milliseconds."""
    return Instant.of_epoch_milli(value) if isinstance(value, int) else parse_instant(value)


def _describe_type(value: Any) -> str:
    """Return the name of a JSON value's kind, for messages."""
    names: dict[type, str] = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
