"""Conversion of decoded JSON values to their declared types."""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import msgspec

from flinkish.common.errors import InvalidProgramError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, range_check, shape_of
from flinkish.common.limits import one_character, to_float32
from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, PrimitiveArrayTypeInfo, TypeInformation
from flinkish.common.types import make_row
from flinkish.datastream.connectors.file_system.csv_values import (
    parse_decimal,
    parse_float,
    parse_instant,
    parse_time,
    parse_timestamp,
)

#: Function (value, path) that converts the decoded value at a path (`a.b`, empty for the whole); raises ValueError with the path.
JsonConverter = Callable[[Any, str], Any]
Types = tuple[TypeInformation, ...]

_NUMBERS: Final = (int, float, decimal.Decimal)
#: Numbers that JSON lacks, as Java (Jackson) and JsonRowSerializationSchema write them.
_NO_JSON_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


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


def checked(type_info: TypeInformation, classes: tuple[type, ...], convert: Callable[[Any], Any]) -> JsonConverter:
    """Return a function for values of certain classes; a bool is not accepted as an int."""
    boolean = bool in classes
    if isinstance(type_info, DecimalTypeInfo):
        number, rounded = convert, type_info.rounded
        convert = lambda value: rounded(number(value))  # noqa: E731

    def check(value: Any, path: str) -> Any:
        if not isinstance(value, classes) or (isinstance(value, bool) and not boolean):
            raise mismatch(type_info, value, path)
        try:
            return convert(value)
        except (ValueError, ArithmeticError):
            raise mismatch(type_info, value, path) from None

    return check


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


#: By kind, the classes of the decoded values, and the function that converts them; it raises ValueError or ArithmeticError.
SimpleConverters = Mapping[BasicType | Kind, tuple[tuple[type, ...], Callable[[Any], Any]]]

STRICT: Final[SimpleConverters] = {
    **{kind: ((int,), range_check(kind)) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.STRING: ((str,), str),
    BasicType.CHAR: ((str,), one_character),
    BasicType.BOOLEAN: ((bool,), bool),
    BasicType.FLOAT: ((*_NUMBERS, str), lambda value: to_float32(to_number(value))),
    BasicType.DOUBLE: ((*_NUMBERS, str), to_number),
    BasicType.BIG_DEC: ((*_NUMBERS, str), lambda value: parse_decimal(str(value))),
    BasicType.INSTANT: ((int, str), to_instant),
    Kind.DATE: ((str,), datetime.date.fromisoformat),
    Kind.TIME: ((str,), parse_time),
    Kind.TIMESTAMP: ((str,), parse_timestamp),
    Kind.BYTES: ((str,), lambda value: base64.b64decode(value, validate=True)),
}


class JsonConverters:
    """Makes functions that check decoded JSON and convert it to a type. They are strict: a text is no number, except for
    "NaN", "Infinity" and "-Infinity".

    Objects become Rows: missing fields are None, unknown fields are ignored. A subclass may be more lenient.
    """

    simple: ClassVar[SimpleConverters] = STRICT
    #: Whether an array with a value for each field is a row, too.
    lists_as_rows: ClassVar[bool] = False
    fail_on_missing_field: bool = False

    def build(self, type_info: TypeInformation) -> JsonConverter:
        """Return the function for a type; raise InvalidProgramError for unsupported types."""
        type_info = plain_type(type_info)
        kind, types = shape_of(type_info)
        match kind:
            case Kind.PICKLED:
                return lambda value, path: value
            case Kind.ROW:
                convert = self.row(type_info, types)
            case Kind.TUPLE:
                convert = self.tuple(type_info, types)
            case Kind.MAP:
                convert = self.map(type_info, types)
            case Kind.LIST:
                convert = self.list(type_info, types)
            case _ if kind in self.simple:
                convert = checked(type_info, *self.simple[kind])
            case _:
                raise InvalidProgramError(f"{type_info!r} cannot be read from JSON")
        return self.nullable(convert)

    def nullable(self, convert: JsonConverter) -> JsonConverter:
        """Return a function that converts values by `convert`, and returns None for None."""
        return lambda value, path: None if value is None else convert(value, path)

    def row(self, type_info: TypeInformation, types: Types) -> JsonConverter:
        """Return the function for objects."""
        lists, demanded = self.lists_as_rows, self.fail_on_missing_field
        names = part_names(type_info)
        fields = [(name, self.build(part)) for name, part in zip(names, types, strict=True)]

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, dict):
                if not (lists and isinstance(value, list) and len(value) == len(names)):
                    raise mismatch(type_info, value, path)
                value = dict(zip(names, value, strict=True))
            prefix = f"{path}." if path else ""
            values = []
            for name, one in fields:
                part = value.get(name)
                if part is None and demanded and name not in value:
                    raise ValueError(f"Could not find field with name '{prefix}{name}'.")
                values.append(one(part, prefix + name))
            return make_row(names, values)

        return convert

    def tuple(self, type_info: TypeInformation, types: Types) -> JsonConverter:
        """Return the function for arrays with exactly the elements of a tuple."""
        fields = [self.build(part) for part in types]

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, list) or len(value) != len(fields):
                raise mismatch(type_info, value, path)
            if None in value:
                raise ValueError(f"field '{path}[{value.index(None)}]' of {type_info!r} must not be null")
            return tuple([one(part, f"{path}[{index}]") for index, (one, part) in enumerate(zip(fields, value, strict=True))])

        return convert

    def list(self, type_info: TypeInformation, types: Types) -> JsonConverter:
        """Return the function for arrays."""
        element = self.build(*types)
        primitive = isinstance(type_info, PrimitiveArrayTypeInfo)

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, list) or (primitive and None in value):
                raise mismatch(type_info, value, path)
            return [element(part, f"{path}[{index}]") for index, part in enumerate(value)]

        return convert

    def map(self, type_info: TypeInformation, types: Types) -> JsonConverter:
        """Return the function for objects that become dicts."""
        if kind_of(types[0]) is not BasicType.STRING:
            raise InvalidProgramError(f"{type_info!r} cannot be read from JSON: its objects have STRING keys")
        element = self.build(types[1])

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, dict):
                raise mismatch(type_info, value, path)
            return {key: element(part, f"{path}[{key!r}]") for key, part in value.items()}

        return convert
