"""JSON objects as messages, with PyFlink's builders. For files see `StreamFormat.json_lines_format` and `Encoder.of_schema`."""

from __future__ import annotations

import datetime
import decimal
import math
import operator
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flinkish.common.arrow_types import bytes_of, values_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.conversion import compiled, taking_apart
from flinkish.common.errors import DeserializationError, InvalidArgumentError, InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, range_check, shape_of
from flinkish.common.limits import one_character
from flinkish.common.serialization import DeserializationSchema, SerializationSchema
from flinkish.common.text import double_text, float_text, text_function
from flinkish.common.time import Instant, utc_time, without_zone
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system.json_reader import JsonReader, fits_struct, struct_of
from flinkish.datastream.connectors.file_system.json_values import JsonConverters
from flinkish.datastream.formats._schemas import Made, shown

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkish.common.columns import Columns

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def _row_type(type_info: Any, what: str) -> RowTypeInfo:
    unwrapped = plain_type(type_info) if isinstance(type_info, TypeInformation) else None
    if not isinstance(unwrapped, RowTypeInfo):
        raise InvalidArgumentError(f"{what}: Only RowTypeInfo is supported; got {type_info!r}", hint="Types.ROW_NAMED(...).")
    return unwrapped


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads a JSON object as a Row.

    >>> from flinkish.common import Types
    >>> row_type = Types.ROW_NAMED(["id", "tags"], [Types.INT(), Types.LIST(Types.STRING())])
    >>> schema = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    >>> schema.deserialize(b'{"id": "7", "tags": ["a", 1], "more": true}')
    Row(id=7, tags=['a', '1'])

    As in Flink, a text is read as a number if needed, and any value as a STRING; times are ISO 8601 in UTC, bytes are base64, and
    points in time may also be numbers of seconds.
    Differs from Flink: a number with decimals is refused for INT or LONG (Flink cuts them off), and a value that is neither true
    nor false is refused for BOOLEAN (Flink reads false); times without the Z, or in other zones, are accepted.
    """

    def __init__(self, row_type: RowTypeInfo, converters: JsonConverters) -> None:
        self._row_type = row_type
        self._ignore_parse_errors = converters.ignore_parse_errors
        self._reader = Made(JsonReader, row_type, converters)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder of a schema."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of an object, None for null; raise DeserializationError if it cannot be read.

        With `ignore_parse_errors`, fields that cannot be read are None, and so is a message that is no JSON object.
        """
        try:
            row: Row | None = self._reader.value.read(message)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            if self._ignore_parse_errors:
                return None
            raise DeserializationError(f"Failed to deserialize JSON {shown(message)}: {error}") from error
        return row

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        # A subclass may decode in another way.
        return self._reader.value.why_records if type(self) is JsonRowDeserializationSchema else super().why_records

    @property
    def makes_new_records(self) -> bool:  # type: ignore[override]
        # A subclass may keep them.
        return type(self) is JsonRowDeserializationSchema

    def deserialize_batch(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        return self._reader.value.batch(messages)

    def get_produced_type(self) -> TypeInformation:
        return self._row_type

    class Builder(SettingsBuilder[JsonConverters]):
        """Builder of a JsonRowDeserializationSchema."""

        def __init__(self) -> None:
            super().__init__(JsonConverters(lenient=True))
            self._type_info: RowTypeInfo | None = None

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows, whose field names are the names in the JSON objects."""
            self._type_info = _row_type(type_info, "type_info of JsonRowDeserializationSchema")
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows by a JSON schema."""
            if json_schema is None:
                raise InvalidArgumentError("The json_schema must not be None.")
            self._type_info = _row_type(_type_of_json_schema(json_schema), "the JSON schema")
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Fail if a field is missing, instead of reading None."""
            return self._set(fail_on_missing_field=True)

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Read None for values that cannot be read, instead of failing."""
            return self._set(ignore_parse_errors=True)

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema."""
            if self._type_info is None:
                raise InvalidArgumentError("type_info() or json_schema() must be called first.")
            if self._settings.fail_on_missing_field and self._settings.ignore_parse_errors:
                raise InvalidProgramError("JSON format doesn't support failOnMissingField and ignoreParseErrors are both true.")
            return JsonRowDeserializationSchema(self._type_info, self._settings)


class JsonRowSerializationSchema(SerializationSchema):
    """Writes a Row as a JSON object.

    >>> from flinkish.common import Row, Types
    >>> row_type = Types.ROW_NAMED(["id", "at"], [Types.INT(), Types.INSTANT()])
    >>> JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(Row(id=7, at=None))
    b'{"id":7,"at":null}'
    """

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._write = Made(_json_writer, row_type)
        self._lines = Made(_LinesOfColumns, row_type)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder of a schema."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Return the JSON object of a row as bytes; raise TypeMismatchError for a value that is no row of the type."""
        try:
            return _ENCODER.encode(self._write.value(element))
        except (ValueError, TypeError) as error:
            raise TypeMismatchError(
                f"Could not serialize row {element!r}. Make sure that the schema matches the input: {error}"
            ) from error

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        # A subclass may encode in another way.
        return None if type(self) is JsonRowSerializationSchema else super().why_records

    def serialize_columns(self, columns: Columns) -> list[bytes] | None:
        return self._lines.value.encode(columns)

    class Builder:
        """Builder of a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows, whose field names become the names in the JSON objects."""
            self._type_info = _row_type(type_info, "type_info of JsonRowSerializationSchema")
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema."""
            if self._type_info is None:
                raise InvalidArgumentError("Typeinfo should be set.")
            return JsonRowSerializationSchema(self._type_info)


_Plain = Callable[[Any], Any]


def _json_writer(type_info: TypeInformation) -> _Plain:
    """Return the function that converts values so that msgspec writes them as Flink does.

    Raises InvalidProgramError for types that cannot be written as JSON. The function raises ValueError, TypeError or
    AttributeError for values of another type.
    """
    type_info = plain_type(type_info)
    kind, types = shape_of(type_info)
    write: _Plain
    match kind:
        case Kind.ROW:
            write = _row_writer(type_info)
        case Kind.TUPLE:
            parts = list(map(_json_writer, types))
            write = lambda value: [one(part) for one, part in zip(parts, value, strict=True)]  # noqa: E731
        case Kind.LIST:
            element = _json_writer(*types)
            write = lambda values: list(map(element, _array(values)))  # noqa: E731
        case Kind.MAP:
            key_text, item = text_function(types[0]), _json_writer(types[1])
            write = lambda value: _of_texts({key_text(key): item(part) for key, part in value.items()}, value)  # noqa: E731
        case _ if isinstance(type_info, DecimalTypeInfo):
            write = partial(_rounded, type_info)
        case _ if kind in _WRITERS:
            write = _WRITERS[kind]
        case _:
            raise InvalidProgramError(f"{type_info!r} cannot be written as JSON")
    return lambda value: None if value is None else write(value)


def _object_of(names: tuple[str, ...]) -> Callable[..., Any]:
    """Return the function that makes of the values of all fields what msgspec writes as an object."""
    return struct_of(names, [Any] * len(names)) if fits_struct(names) else lambda *values: dict(zip(names, values, strict=True))


def _row_writer(type_info: TypeInformation) -> _Plain:
    names, types = part_names(type_info), shape_of(type_info)[1]
    parts = list(map(_json_writer, types))

    def write(row: Any) -> Any:
        plain = {}
        for name, one, value in zip(names, parts, values_of(row, names), strict=True):
            try:
                plain[name] = one(value)
            except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
                raise ValueError(f"field {name!r}: {error}") from error
        return plain

    kinds = list(map(kind_of, types))
    if not isinstance(type_info, RowTypeInfo) or not _AS_THEY_ARE.issuperset(kinds):
        return write
    # Rows whose values are written as they are, in a fifth of the time.
    values = [f"v{position}" for position in range(len(names))]
    doubles = [value for value, kind in zip(values, kinds, strict=True) if kind is BasicType.DOUBLE]
    finite = " and ".join([f"({value} is None or -most <= {value} <= most)" for value in doubles])
    scope: dict[str, Any] = {"as_is": _object_of(names), "most": sys.float_info.max, "write_parts": write}
    apart = taking_apart(type_info, [f"if {finite or True}:", f"    return as_is({', '.join(values)})"], scope)
    if apart is None:
        return write
    return compiled(["def write(value):", *[f"    {line}" for line in apart], "    return write_parts(value)"], scope, "write")


def _array(values: Any) -> Any:
    if isinstance(values, str | bytes):
        raise TypeError(f"expected an array; got {values!r}")
    return values


def _of_texts(written: dict[str, Any], value: dict[Any, Any]) -> dict[str, Any]:
    if len(written) < len(value):
        raise ValueError(f"two keys have the same text: {list(value)!r}")
    return written


def _timestamp(value: datetime.datetime) -> str:
    value = utc_time(value)
    return f"{value.date().isoformat()}T{_without_zeros(value.time())}Z"


def _instance(cls: type) -> _Plain:
    def check(value: Any) -> Any:
        if not isinstance(value, cls):
            raise TypeError(f"expected {cls.__name__}; got {value!r} of type {type(value).__name__}")
        return value

    return check


_text: Final = _instance(str)


def _float_writer(text: Callable[[float], str], write: Callable[[float], float]) -> _Plain:
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


def _integer_writer(kind: BasicType | Kind) -> _Plain:
    in_range = range_check(kind)
    return lambda value: in_range(operator.index(value))


_WRITERS: Final[dict[BasicType | Kind, _Plain]] = {
    **{kind: _integer_writer(kind) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.STRING: _text,
    BasicType.CHAR: lambda value: one_character(_text(value)),
    BasicType.BOOLEAN: _instance(bool),
    BasicType.DOUBLE: _float_writer(double_text, lambda value: value),
    BasicType.FLOAT: _float_writer(float_text, lambda value: float(float_text(value))),
    BasicType.BIG_DEC: _decimal,
    BasicType.INSTANT: Instant.isoformat,
    Kind.DATE: lambda value: datetime.date(value.year, value.month, value.day).isoformat(),
    Kind.TIME: lambda value: f"{_without_zeros(without_zone(value))}Z",
    Kind.TIMESTAMP: _timestamp,
    Kind.BYTES: bytes_of,
}


#: The kinds whose values msgspec writes exactly as `_json_writer` does, if they are finite.
_AS_THEY_ARE: Final = {BasicType.STRING, BasicType.BOOLEAN, BasicType.DOUBLE, *INTEGER_BITS}


class _LinesOfColumns:
    """Encodes the rows of columns field by field, if they have the fields of the schema."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        _, types = shape_of(row_type)
        self._names = part_names(row_type)
        self._fields = [(name, kind_of(part), _json_writer(part)) for name, part in zip(self._names, types, strict=True)]
        self._row = _object_of(self._names)

    def encode(self, columns: Columns) -> list[bytes] | None:
        """Return the texts of the rows; None if they are no rows with these fields, or a value cannot be written."""
        import pyarrow.compute as pc  # which takes half a second

        layout = columns.layout
        if not layout.is_row or set(layout.names) != set(self._names):
            return None
        lists = []
        try:
            for name, kind, write in self._fields:
                position = layout.names.index(name)
                column = columns.column(position)
                values = layout.values_of(position, column)
                as_is = kind in _AS_THEY_ARE and kind_of(layout.types[position]) is kind
                if as_is and kind is BasicType.DOUBLE:
                    as_is = pc.all(pc.is_finite(column)).as_py() is not False
                lists.append(values if as_is else list(map(write, values)))
            return bytes(_ENCODER.encode_lines(list(map(self._row, *lists)))).split(b"\n")[:-1]
        except (ValueError, TypeError, AttributeError, ArithmeticError):
            return None


_FORMATS: Final[dict[Any, Callable[[], TypeInformation]]] = {
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
    "date-time": Types.SQL_TIMESTAMP,
}
_UNIONS: Final = ("allOf", "anyOf", "not", "extends", "disallow")


def _type_of_json_schema(json_schema: str) -> TypeInformation:
    """Return the type that a JSON schema describes; source of the rules: Flink's JsonRowSchemaConverter.

    An object becomes ROW_NAMED, an array OBJECT_ARRAY (with fixed elements: a ROW of f0, f1, ...), integer and number BIG_DEC,
    boolean BOOLEAN, and string STRING. A string with a `format` becomes SQL_DATE, SQL_TIME or SQL_TIMESTAMP, and one with the
    `contentEncoding` base64 becomes bytes. Raises InvalidArgumentError, which names the place, for a schema without such a type.
    """
    try:
        root = msgspec.json.decode(json_schema)
    except (msgspec.DecodeError, TypeError) as error:
        raise InvalidArgumentError(f"Invalid JSON schema: {error}") from error
    return _JsonSchema(root).type_of(root, "<root>")


class _JsonSchema:
    def __init__(self, root: Any) -> None:
        self._root = root

    def type_of(self, node: Any, place: str, *, referenced: bool = False) -> TypeInformation:
        if not isinstance(node, dict):
            raise _no_type(place, f"expected an object; got {node!r}")
        for union in _UNIONS:
            if union in node:
                raise _no_type(place, f"unions such as {union!r} have no type")
        if "$ref" in node:
            return self._reference(node["$ref"], place, referenced)
        if "oneOf" in node:
            parts = [part for part in node["oneOf"] if not isinstance(part, dict) or part.get("type") != "null"]
            if len(parts) != 1:
                raise _no_type(place, f"oneOf must be of one type, or null; there are {len(parts)} types")
            return self.type_of(parts[0], place)
        kinds = node.get("type")
        if kinds is None:
            raise _no_type(place, "there is no type")
        if isinstance(kinds, list):
            kinds = [kind for kind in kinds if kind != "null"]
            if len(kinds) != 1:
                raise _no_type(place, f"a value must be of one type, or null; got {kinds}")
            (kinds,) = kinds
        match kinds:
            case "object":
                properties = node.get("properties") or {}
                types = [self.type_of(part, f"{place}/{name}") for name, part in properties.items()]
                return Types.ROW_NAMED(list(properties), types)
            case "array":
                return self._array(node, place)
            case "string" if node.get("contentEncoding") == "base64":
                return Types.PRIMITIVE_ARRAY(Types.BYTE())
            case "string":
                return _FORMATS.get(node.get("format"), Types.STRING)()
            case "boolean":
                return Types.BOOLEAN()
            case "number" | "integer":
                return Types.BIG_DEC()
            case _:
                raise _no_type(place, f"values of type {kinds!r} have no type here")

    def _reference(self, reference: Any, place: str, referenced: bool) -> TypeInformation:
        target = self._root
        local = isinstance(reference, str) and reference.startswith("#/")
        for part in reference[2:].split("/") if local else ():
            target = target.get(part) if isinstance(target, dict) else None
        if not local or target is None or referenced:
            reason = f"only references with one indirection in the same document have a type; got {reference!r}"
            raise _no_type(place, reason)
        return self.type_of(target, f"{place}/{reference}", referenced=True)

    def _array(self, node: Any, place: str) -> TypeInformation:
        items = node.get("items")
        if items is None:
            raise _no_type(place, "an array must have 'items'")
        if not isinstance(items, list):
            return Types.OBJECT_ARRAY(self.type_of(items, f"{place}/items"))
        if node.get("additionalItems", False) is not False:
            raise _no_type(place, "an array of fixed elements must not allow additional ones")
        return Types.ROW([self.type_of(item, f"{place}[{index}]") for index, item in enumerate(items)])


def _no_type(place: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"JSON schema, {place}: {reason}")
