"""AvroSchema, the type of records with such a schema, and conversions between Avro's data and rows.

Source of the types of rows: Flink's AvroSchemaConverter. As in Flink, fields are found by position.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import fastavro
import fastavro.schema
from fastavro.validation import ValidationError, validate

from flinkish.common.arguments import instance_of, text_of
from flinkish.common.arrow_types import bytes_of, values_of
from flinkish.common.conversion import same
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, TypeMismatchError
from flinkish.common.text import shortened
from flinkish.common.time import Instant, datetime_of, utc_time
from flinkish.common.typeinfo import PickledBytesTypeInfo, TypeInformation, Types
from flinkish.common.types import Row, make_row


class AvroSchema:
    """An Avro schema; its printed form is JSON.

    >>> print(AvroSchema.parse_string('{"type": "array", "items": "long"}'))
    {"type":"array","items":"long"}
    """

    def __init__(self, schema: Any) -> None:
        """`schema`: JSON text, or the decoded JSON. Raises InvalidArgumentError if it is no Avro schema."""
        try:
            self.definition: Any = json.loads(schema) if isinstance(schema, str) else schema
            self._text = json.dumps(self.definition, separators=(",", ":"))
            #: The named types in the schema, as parsed by fastavro.
            self.named: dict[str, Any] = {}
            #: The schema as parsed by fastavro.
            self.parsed: Any = fastavro.parse_schema(json.loads(self._text), named_schemas=self.named)
        except (ValueError, TypeError, fastavro.schema.SchemaParseException) as error:
            reason = f"unknown type {error}" if isinstance(error, fastavro.schema.UnknownType) else str(error)
            raise InvalidArgumentError(f"not an Avro schema: {reason}; got {shortened(str(schema))}") from error

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Return the schema that a JSON text describes."""
        return AvroSchema(text_of("parse_string()", json_schema, empty=True))

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Return the schema that a file (.avsc) describes."""
        try:
            with open(os.fspath(file_path), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"cannot read the Avro schema {file_path!r}: {error}") from error
        return AvroSchema(text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"AvroSchema({self._text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.definition == other.definition

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> Any:
        return AvroSchema, (self._text,)


def avro_schema(schema: Any, what: str) -> AvroSchema:
    """Return the schema; raise InvalidArgumentError if it is no AvroSchema."""
    return instance_of(f"the schema of {what}", schema, AvroSchema, hint="AvroSchema.parse_string(json).")


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """Plain Python data of an Avro schema, as in fastavro: a dict for a record, a list for an array and so on.

    The results of operators are checked against the schema. Times are `datetime`s (timestamps in UTC), decimals are `Decimal`s.
    Differs from Flink: from_collection accepts this type, too.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = avro_schema(schema, "GenericRecordAvroTypeInfo")

    def checker(self) -> Callable[[Any], Any]:
        schema = self.schema

        def check(value: Any) -> Any:
            reason = mismatch(value, schema)
            if reason is not None:
                raise record_error(value, reason)
            return value

        return check

    def _parts(self) -> tuple[Any, ...]:
        return (str(self.schema),)

    def __repr__(self) -> str:
        return f'GenericRecord("{self.schema}")'


def mismatch(value: Any, schema: AvroSchema) -> str | None:
    """Return the reason why a value does not fit a schema; None if it fits."""
    try:
        if validate(value, schema.parsed, raise_errors=False):
            return None
        validate(value, schema.definition)
    except ValidationError as error:
        return "; ".join(str(part).strip() for part in error.errors)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        return str(error)
    return None


def record_error(value: Any, reason: str) -> TypeMismatchError:
    """Return the error for a record that does not fit its schema."""
    return TypeMismatchError(f"the record is not of its Avro schema: {reason}; got {shortened(repr(value))}")


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

#: The types of rows for the logical types, which fastavro reads as another class than the underlying type.
LOGICAL: Final[dict[str, Callable[[], TypeInformation]]] = {
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
            return _PRIMITIVES[schema](), same, bytes_of if schema == "bytes" else same
        logical, kind = schema.get("logicalType"), schema["type"]
        if logical in LOGICAL:
            to_row = _READ.get(logical, same)
            return LOGICAL[logical](), to_row, _WRITE.get(logical, same)
        match kind:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return Types.STRING(), same, same
            case "fixed":
                return Types.PRIMITIVE_ARRAY(Types.BYTE()), same, bytes_of
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
            return Types.PICKLED_BYTE_ARRAY(), same, _plain
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
            # A union of several types stays plain data; a row in it becomes the record with most of its values.
            records = [
                (branch["name"], holder(branch, self._named), self._part(branch)[2])
                for branch in (self._named.get(other, other) if isinstance(other, str) else other for other in others)
                if isinstance(branch, dict) and branch["type"] == "record"
            ]
            moments = any(isinstance(branch, dict) and branch.get("logicalType") in _WRITE for branch in others)

            def write_any(value: Any) -> Any:
                if not isinstance(value, Row):
                    return _plain(_with_zone(value) if moments else value)
                fitting: list[tuple[str, Any]] = []
                for name, held, write in records:
                    with suppress(ValueError, TypeError, AttributeError):
                        plain = write(value)
                        if validate({"value": plain}, held, raise_errors=False):
                            fitting.append((name, plain))
                if not fitting:
                    raise ValueError(f"no record of the union has the values of {value!r}")
                # With its name, as fastavro may also take it for a map.
                return max(fitting, key=lambda found: len(found[1]))

            return Types.PICKLED_BYTE_ARRAY(), same, write_any
        type_info, read, write = self._part(others[0])
        if len(branches) == 1:
            return type_info, read, write
        return type_info, _nullable(read), _nullable(write)


def holder(schema: Any, named: dict[str, Any]) -> Any:
    """Return a parsed record whose one field, `value`, has a schema that may refer to named types, which fastavro must know."""
    fields = [{"name": "value", "type": schema}]
    return {"type": "record", "name": "Holder", "fields": fields, "__fastavro_parsed": True, "__named_schemas": named}


def row_type_of(part: AvroPart, what: str) -> TypeInformation:
    """Return the type of the rows; raise InvalidProgramError if the schema is not a record."""
    if part.type_info == Types.PICKLED_BYTE_ARRAY() or not hasattr(part.type_info, "field_names"):
        raise InvalidProgramError(f"{what} needs the schema of a record; got one of {part.type_info!r}")
    return part.type_info


def _nullable(convert: Convert) -> Convert:
    return convert if convert is same else lambda value: None if value is None else convert(value)


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


_READ: Final[dict[str, Convert]] = {
    "timestamp-millis": utc_time,
    "timestamp-micros": utc_time,
    "uuid": lambda value: str(value) if isinstance(value, UUID) else value,
}
_WRITE: Final[dict[str, Convert]] = {"timestamp-millis": _with_zone, "timestamp-micros": _with_zone}


def meaning(schema: Any) -> str:
    """Return the logical type that fastavro obeys, or else the underlying type."""
    logical = schema.get("logicalType")
    if logical not in LOGICAL:
        return str(schema["type"])
    return f"decimal of scale {schema.get('scale', 0)}" if logical == "decimal" else str(logical)
