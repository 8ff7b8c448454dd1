"""Avro with PyFlink's names: files of records, and records as messages.

Records are plain Python data, as in fastavro: a dict for a record, a list for an array, a str for an enum, and `datetime`s,
`Decimal`s and `UUID`s for logical types.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa

from flinkish.common.columns import Columns
from flinkish.common.errors import DeserializationError, InvalidArgumentError, UnsupportedError
from flinkish.common.io import InputFormat
from flinkish.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system.avro_columns import AvroColumns
from flinkish.datastream.connectors.file_system.avro_format import AvroFormat
from flinkish.datastream.connectors.file_system.avro_messages import AvroMessages
from flinkish.datastream.connectors.file_system.avro_schema import AvroPart, AvroSchema, GenericRecordAvroTypeInfo, row_type_of
from flinkish.datastream.connectors.file_system.avro_writer import AvroWriterFactory, RecordEncoder
from flinkish.datastream.connectors.file_system.source import FileSource
from flinkish.datastream.formats._schemas import Made

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


class AvroInputFormat(InputFormat):
    """Avro files for `StreamExecutionEnvironment.create_input`; the same as a FileSource of `BulkFormat.avro_format(schema)`.

    Differs from Flink: files with another schema are resolved to the given one, as the Avro specification says.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        """Make an input for a file, or a folder of files, at `path`."""
        super().__init__()
        self._source = FileSource.for_bulk_file_format(AvroFormat(schema), path).build()
        self._type_info = GenericRecordAvroTypeInfo(schema)

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Return the type of the records."""
        return self._type_info

    def create_source(self) -> FileSource:
        return self._source


class AvroBulkWriters:
    """Writes Avro files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Return a writer factory for FileSink.for_bulk_format; the records are plain Python data of the schema, or Rows.

        Differs from Flink: the output type of the operator before the sink need not be GenericRecordAvroTypeInfo; if it is,
        records are checked in that operator. A field that is not in the schema is an error (Flink ignores it).
        """
        return AvroWriterFactory(schema)


def _schema(record_class: Any, avro_schema_string: Any) -> AvroSchema:
    if record_class is not None:
        raise UnsupportedError(
            "record_class names a Java class, and flinkish runs no Java user code", hint="give the avro_schema_string instead."
        )
    if avro_schema_string is None:
        raise InvalidArgumentError("record_class or avro_schema_string should be specified.")
    return AvroSchema.parse_string(avro_schema_string)


class AvroRowDeserializationSchema(DeserializationSchema):
    """Reads a record in Avro's binary form, without its schema, as a Row.

    Records are read as Rows, arrays as lists, maps as dicts, timestamps as SQL_TIMESTAMP in UTC, and unions of several types as
    any Python object.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema(record_class, avro_schema_string)
        self._part = Made(AvroPart, self._schema)
        self._row_type = row_type_of(self._part.value, "AvroRowDeserializationSchema")
        self._columns = Made(AvroColumns, self._schema, self._row_type)

    def deserialize(self, message: bytes) -> Row:
        """Return the row of a record; raise DeserializationError if the bytes are not exactly one record of the schema."""
        buffer = io.BytesIO(message)
        try:
            record = fastavro.schemaless_reader(buffer, self._schema.parsed, None)
            left = len(message) - buffer.tell()
            if left:
                raise ValueError(f"{left} bytes are left over; were they written with another schema?")
            row: Row = self._part.value.to_row(record)
        except (ValueError, TypeError, EOFError, LookupError, ArithmeticError, MemoryError) as error:
            shown = bytes(message[:64])
            raise DeserializationError(
                f"Failed to deserialize Avro record {shown!r}: {str(error) or type(error).__name__}"
            ) from error
        return row

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        # A subclass may decode in another way.
        return self._columns.value.why_records if type(self) is AvroRowDeserializationSchema else super().why_records

    @property
    def makes_new_records(self) -> bool:  # type: ignore[override]
        # A subclass may keep them.
        return type(self) is AvroRowDeserializationSchema

    def deserialize_batch(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        return self._columns.value.batch(messages)

    def get_produced_type(self) -> TypeInformation:
        return self._row_type


class AvroRowSerializationSchema(SerializationSchema):
    """Writes a Row in Avro's binary form, without its schema; fields are found by name, or by position if the row has none."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        schema = _schema(record_class, avro_schema_string)
        self._encoder = Made(RecordEncoder, schema)
        row_type = row_type_of(self._encoder.value.part, "AvroRowSerializationSchema")
        self._columns = Made(AvroMessages, schema, row_type)

    def serialize(self, element: Any) -> bytes:
        """Return the record of a row as bytes; raise TypeMismatchError for a value that is no record of the schema."""
        buffer = io.BytesIO()
        self._encoder.value.write(buffer, element, is_row=True)
        return buffer.getvalue()

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        # A subclass may encode in another way.
        return self._columns.value.why_records if type(self) is AvroRowSerializationSchema else super().why_records

    def serialize_columns(self, columns: Columns) -> list[bytes] | None:
        return self._columns.value.encode(columns)
