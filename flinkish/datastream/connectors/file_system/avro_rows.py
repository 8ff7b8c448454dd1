"""Conversions between Avro's data and rows: the type of rows for a schema, and functions in both directions.

Source of the types: Flink's AvroSchemaConverter. As in Flink, fields are found by position.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from fastavro.validation import validate

from flinkish.common.errors import InvalidProgramError
from flinkish.common.time import Instant, datetime_of, utc_time
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row, make_row
from flinkish.datastream.connectors._arrow import bytes_of, values_of
from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema

Convert = Callable[[Any], Any]

_PRIMITIVES: Final[dict[str, Callable[[], TypeInformation]]] = {
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "string": Types.STRING,
    "bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "null": Types.PICKLED_BYTE_ARRAY,
}

_LOGICAL: Final[dict[str, Callable[[], TypeInformation]]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
    "decimal": Types.BIG_DEC,
    "uuid": Types.STRING,
}


class AvroPart:
    """The type of rows for a schema, and the conversion functions in both directions."""

    def __init__(self, schema: AvroSchema) -> None:
        self._named = schema.named
        self._open: list[str] = []
        self.type_info, self.to_row, self.from_row = self._part(schema.parsed)

    def _part(self, schema: Any) -> tuple[TypeInformation, Convert, Convert]:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in self._named:
                return self._part(self._named[schema])
            return _PRIMITIVES[schema](), _same, bytes_of if schema == "bytes" else _same
        logical, kind = schema.get("logicalType"), schema["type"]
        if logical in _LOGICAL:
            to_row = _READ.get(logical, _same)
            return _LOGICAL[logical](), to_row, _WRITE.get(logical, _same)
        match kind:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return Types.STRING(), _same, _same
            case "fixed":
                return Types.PRIMITIVE_ARRAY(Types.BYTE()), _same, bytes_of
            case "array":
                item_type, read_item, write_item = self._part(schema["items"])
                return (
                    Types.OBJECT_ARRAY(item_type),
                    lambda value: list(map(read_item, value)),
                    # A text is passed on, to be refused as an array, and not read as a list of its letters.
                    lambda value: value if isinstance(value, str | bytes) else list(map(write_item, value)),
                )
            case "map":
                value_type, read_value, write_value = self._part(schema["values"])
                return (
                    Types.MAP(Types.STRING(), value_type),
                    lambda value: {key: read_value(item) for key, item in value.items()},
                    lambda value: {key: write_value(item) for key, item in value.items()},
                )
            case _:
                return self._part(kind)

    def _record(self, schema: Any) -> tuple[TypeInformation, Convert, Convert]:
        name = schema["name"]
        if name in self._open:
            # A row type cannot contain itself, so nested records of the same type stay plain data.
            return Types.PICKLED_BYTE_ARRAY(), _same, _plain
        self._open.append(name)
        names = tuple(field["name"] for field in schema["fields"])
        parts = [self._part(field["type"]) for field in schema["fields"]]
        self._open.pop()
        readers, writers = [part[1] for part in parts], [part[2] for part in parts]

        def read(value: Any) -> Row:
            return make_row(names, [one(value[field]) for field, one in zip(names, readers, strict=True)])

        def write(value: Any) -> Any:
            if not isinstance(value, Row | tuple | list):
                return value
            fields = values_of(value, names)
            return {field: one(part) for field, one, part in zip(names, writers, fields, strict=True)}

        return Types.ROW_NAMED(list(names), [part[0] for part in parts]), read, write

    def _union(self, branches: list[Any]) -> tuple[TypeInformation, Convert, Convert]:
        others = [branch for branch in branches if branch != "null"]
        if len(others) != 1:
            # A union of several types stays plain data; rows in it are converted.
            parts = [(branch, self._part(branch)[2]) for branch in others]
            moments = any(isinstance(branch, dict) and branch.get("logicalType") in _WRITE for branch in others)

            def write_any(value: Any) -> Any:
                for branch, write in parts if isinstance(value, Row) else ():
                    plain = write(value)
                    if validate(plain, branch, raise_errors=False):
                        return plain
                return _plain(_with_zone(value) if moments else value)

            return Types.PICKLED_BYTE_ARRAY(), _same, write_any
        type_info, read, write = self._part(others[0])
        if len(branches) == 1:
            return type_info, read, write
        return type_info, _nullable(read), _nullable(write)


def row_type_of(part: AvroPart, what: str) -> TypeInformation:
    """Return the type of the rows; raise InvalidProgramError if the schema is not a record."""
    if part.type_info == Types.PICKLED_BYTE_ARRAY() or not hasattr(part.type_info, "field_names"):
        raise InvalidProgramError(f"{what} needs the schema of a record; got one of {part.type_info!r}")
    return part.type_info


def _same(value: Any) -> Any:
    return value


def _nullable(convert: Convert) -> Convert:
    return convert if convert is _same else lambda value: None if value is None else convert(value)


def _plain(value: Any) -> Any:
    """Return plain data for a value that may contain Rows."""
    match value:
        case Row():
            return {name: _plain(part) for name, part in value.as_dict().items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case dict():
            return {key: _plain(part) for key, part in value.items()}
        case _:
            return value


def _with_zone(value: Any) -> Any:
    """Return a time with a zone; a time without one is in UTC."""
    if isinstance(value, Instant):
        return datetime_of(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


def _uuid_text(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


_READ: Final[dict[str, Convert]] = {
    "timestamp-millis": utc_time,
    "timestamp-micros": utc_time,
    "uuid": _uuid_text,
}
_WRITE: Final[dict[str, Convert]] = {"timestamp-millis": _with_zone, "timestamp-micros": _with_zone}
