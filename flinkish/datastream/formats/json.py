"""JSON objects as messages, with PyFlink's builders. For files see `StreamFormat.json_lines_format` and `Encoder.of_schema`."""

from __future__ import annotations

from typing import Any

import msgspec

from flinkish.common.errors import DeserializationError, InvalidArgumentError, InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import plain_type
from flinkish.common.serialization import DeserializationSchema, SerializationSchema
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system.json_values import json_decoder
from flinkish.datastream.formats._json_schema import type_of_json_schema
from flinkish.datastream.formats._json_values import LenientJsonConverters, json_writer
from flinkish.datastream.formats._prepared import Prepared

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


def _row_type(type_info: Any, what: str) -> RowTypeInfo:
    unwrapped = plain_type(type_info) if isinstance(type_info, TypeInformation) else None
    if not isinstance(unwrapped, RowTypeInfo):
        raise InvalidArgumentError(f"{what}: Only RowTypeInfo is supported; got {type_info!r}", hint="Types.ROW_NAMED(...).")
    return unwrapped


class JsonRowDeserializationSchema(Prepared, DeserializationSchema):
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

    _made = ("_decoder", "_convert")

    def __init__(self, row_type: RowTypeInfo, fail_on_missing_field: bool, ignore_parse_errors: bool) -> None:
        self._row_type = row_type
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors
        self._prepare()

    def _prepare(self) -> None:
        self._decoder = json_decoder(self._row_type)
        self._convert = LenientJsonConverters(
            fail_on_missing_field=self._fail_on_missing_field, ignore_parse_errors=self._ignore_parse_errors
        ).build(self._row_type)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder of a schema."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of an object, None for null; raise DeserializationError if it cannot be read.

        With `ignore_parse_errors`, fields that cannot be read are None, and so is a message that is no JSON object.
        """
        try:
            row: Row | None = self._convert(self._decoder.decode(message), "")
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            if self._ignore_parse_errors:
                return None
            text = bytes(message).decode("utf-8", "backslashreplace")
            shown = text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
            raise DeserializationError(f"Failed to deserialize JSON {shown!r}: {error}") from error
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._row_type

    class Builder:
        """Builder of a JsonRowDeserializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows, whose field names are the names in the JSON objects."""
            self._type_info = _row_type(type_info, "type_info of JsonRowDeserializationSchema")
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows by a JSON schema."""
            if json_schema is None:
                raise InvalidArgumentError("The json_schema must not be None.")
            self._type_info = type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Fail if a field is missing, instead of reading None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Read None for values that cannot be read, instead of failing."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema."""
            if self._type_info is None:
                raise InvalidArgumentError("type_info() or json_schema() must be called first.")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise InvalidProgramError("JSON format doesn't support failOnMissingField and ignoreParseErrors are both true.")
            row_type = _row_type(self._type_info, "the JSON schema")
            return JsonRowDeserializationSchema(row_type, self._fail_on_missing_field, self._ignore_parse_errors)


class JsonRowSerializationSchema(Prepared, SerializationSchema):
    """Writes a Row as a JSON object.

    >>> from flinkish.common import Row, Types
    >>> row_type = Types.ROW_NAMED(["id", "at"], [Types.INT(), Types.INSTANT()])
    >>> JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(Row(id=7, at=None))
    b'{"id":7,"at":null}'
    """

    _made = ("_write", "_encoder")

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._row_type = row_type
        self._prepare()

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder of a schema."""
        return JsonRowSerializationSchema.Builder()

    def _prepare(self) -> None:
        self._write = json_writer(self._row_type)
        self._encoder = msgspec.json.Encoder(decimal_format="number")

    def serialize(self, element: Any) -> bytes:
        """Return the JSON object of a row as bytes; raise TypeMismatchError for a value that is no row of the type."""
        try:
            return self._encoder.encode(self._write(element))
        except (ValueError, TypeError) as error:
            raise TypeMismatchError(
                f"Could not serialize row {element!r}. Make sure that the schema matches the input: {error}"
            ) from error

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
