"""The conversion of decoded JSON values to their declared types."""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from flinkish.common.errors import InvalidProgramError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, range_check, shape_of
from flinkish.common.limits import one_character, to_float32
from flinkish.common.text import double_text, shortened
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
_Types = tuple[TypeInformation, ...]

_NUMBERS: Final = (int, float, decimal.Decimal)
#: Numbers that JSON lacks, as Java (Jackson) and JsonRowSerializationSchema write them.
_NO_JSON_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


def json_decoder(type_info: TypeInformation) -> msgspec.json.Decoder[Any]:
    """Return a decoder, which keeps all digits of decimals if the type contains any."""
    return msgspec.json.Decoder(float_hook=decimal.Decimal if "BigDecimal" in repr(type_info) else None)


def _mismatch(type_info: TypeInformation, value: Any, path: str) -> ValueError:
    where = f"field {path!r}" if path else "the value"
    names: dict[type, str] = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return ValueError(f"{where} must be {type_info!r}; got {names.get(type(value), 'a number')}: {shortened(repr(value), 100)}")


def _checked(type_info: TypeInformation, classes: tuple[type, ...], convert: Callable[[Any], Any]) -> JsonConverter:
    """Return a function for values of certain classes; a bool is not accepted as an int."""
    boolean = bool in classes
    if isinstance(type_info, DecimalTypeInfo):
        number, rounded = convert, type_info.rounded
        convert = lambda value: rounded(number(value))  # noqa: E731

    def check(value: Any, path: str) -> Any:
        if not isinstance(value, classes) or (isinstance(value, bool) and not boolean):
            raise _mismatch(type_info, value, path)
        try:
            return convert(value)
        except (ValueError, ArithmeticError):
            raise _mismatch(type_info, value, path) from None

    return check


def _number(value: float | decimal.Decimal | str) -> float:
    """Return a number as a float; of texts, accept only those that stand for the numbers that JSON lacks."""
    if isinstance(value, str) and value not in _NO_JSON_NUMBERS:
        raise ValueError
    return _to_float(value)


def _instant(value: int | str) -> Instant:
    """Return the Instant for ISO 8601 text, in UTC if it has no zone, or for a number of milliseconds."""
    return Instant.of_epoch_milli(value) if isinstance(value, int) else parse_instant(value)


#: By kind, the classes of the decoded values, and the function that converts them; it raises ValueError or ArithmeticError.
_Simple = Mapping[BasicType | Kind, tuple[tuple[type, ...], Callable[[Any], Any]]]

_STRICT: Final[_Simple] = {
    **{kind: ((int,), range_check(kind)) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.STRING: ((str,), str),
    BasicType.CHAR: ((str,), one_character),
    BasicType.BOOLEAN: ((bool,), bool),
    BasicType.FLOAT: ((*_NUMBERS, str), lambda value: to_float32(_number(value))),
    BasicType.DOUBLE: ((*_NUMBERS, str), _number),
    BasicType.BIG_DEC: ((*_NUMBERS, str), lambda value: parse_decimal(str(value))),
    BasicType.INSTANT: ((int, str), _instant),
    Kind.DATE: ((str,), datetime.date.fromisoformat),
    Kind.TIME: ((str,), parse_time),
    Kind.TIMESTAMP: ((str,), parse_timestamp),
    Kind.BYTES: ((str,), lambda value: base64.b64decode(value, validate=True)),
}

#: The last second of Java's Instant.
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
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


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
        return _instant(value)
    # Rounded down: a decimal's own divmod() rounds towards zero, which gives times before 1970 negative nanoseconds.
    number = decimal.Decimal(str(value))
    if abs(number) > _LAST_SECOND:
        raise ValueError
    nanos = int((number * 1_000_000_000).to_integral_value(decimal.ROUND_FLOOR))
    return Instant(*divmod(nanos, 1_000_000_000))


_LENIENT: Final[_Simple] = {
    **_STRICT,
    **{kind: ((*_NUMBERS, str), partial(_to_int, range_check(kind))) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.BOOLEAN: ((bool, str), _to_boolean),
    BasicType.FLOAT: ((*_NUMBERS, str), lambda value: to_float32(_to_float(value))),
    BasicType.DOUBLE: ((*_NUMBERS, str), _to_float),
    BasicType.INSTANT: ((*_NUMBERS, str), _to_instant),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonConverters:
    """Makes functions that check decoded JSON and convert it to a type.

    They are strict: a text is no number, except for "NaN", "Infinity" and "-Infinity". Objects become Rows: missing fields are
    None, unknown fields are ignored.
    """

    #: Whether values are taken as by Flink's JsonRowDeserializationSchema: a text is read as a number, any value as a text, and
    #: an array with a value for each field as a row.
    lenient: bool = False
    fail_on_missing_field: bool = False
    #: Whether values that cannot be read become None.
    ignore_parse_errors: bool = False

    def build(self, type_info: TypeInformation) -> JsonConverter:
        """Return the function for a type; raise InvalidProgramError for unsupported types."""
        type_info = plain_type(type_info)
        kind, types = shape_of(type_info)
        simple = _LENIENT if self.lenient else _STRICT
        match kind:
            case Kind.PICKLED:
                return lambda value, path: value
            case BasicType.STRING if self.lenient:
                convert: JsonConverter = lambda value, path: value if value.__class__ is str else _as_text(value)  # noqa: E731
            case Kind.ROW:
                convert = self._row(type_info, types)
            case Kind.TUPLE:
                convert = self._tuple(type_info, types)
            case Kind.MAP:
                convert = self._map(type_info, types)
            case Kind.LIST:
                convert = self._list(type_info, types)
            case _ if kind in simple:
                convert = _checked(type_info, *simple[kind])
            case _:
                raise InvalidProgramError(f"{type_info!r} cannot be read from JSON")
        return self._nullable(convert)

    def _nullable(self, convert: JsonConverter) -> JsonConverter:
        if not self.ignore_parse_errors:
            return lambda value, path: None if value is None else convert(value, path)

        def convert_or_null(value: Any, path: str) -> Any:
            if value is None:
                return None
            try:
                return convert(value, path)
            except ValueError:
                return None

        return convert_or_null

    def _row(self, type_info: TypeInformation, types: _Types) -> JsonConverter:
        lists, demanded = self.lenient, self.fail_on_missing_field
        names = part_names(type_info)
        fields = [(name, self.build(part)) for name, part in zip(names, types, strict=True)]

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, dict):
                if not (lists and isinstance(value, list) and len(value) == len(names)):
                    raise _mismatch(type_info, value, path)
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

    def _tuple(self, type_info: TypeInformation, types: _Types) -> JsonConverter:
        fields = [self.build(part) for part in types]

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, list) or len(value) != len(fields):
                raise _mismatch(type_info, value, path)
            if None in value:
                raise ValueError(f"field '{path}[{value.index(None)}]' of {type_info!r} must not be null")
            return tuple([one(part, f"{path}[{index}]") for index, (one, part) in enumerate(zip(fields, value, strict=True))])

        return convert

    def _list(self, type_info: TypeInformation, types: _Types) -> JsonConverter:
        element = self.build(*types)
        primitive = isinstance(type_info, PrimitiveArrayTypeInfo)

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, list) or (primitive and None in value):
                raise _mismatch(type_info, value, path)
            return [element(part, f"{path}[{index}]") for index, part in enumerate(value)]

        return convert

    def _map(self, type_info: TypeInformation, types: _Types) -> JsonConverter:
        texts = kind_of(types[0]) is BasicType.STRING
        if not texts and not self.lenient:
            raise InvalidProgramError(f"{type_info!r} cannot be read from JSON: its objects have STRING keys")
        key_of, element = self.build(types[0]), self.build(types[1])

        def convert(value: Any, path: str) -> Any:
            if not isinstance(value, dict):
                raise _mismatch(type_info, value, path)
            converted = {key: element(part, f"{path}[{key!r}]") for key, part in value.items()}
            return converted if texts else {key_of(key, path): part for key, part in converted.items()}

        return convert
