"""CSV with PyFlink's builders: a CsvSchema for files, and the type of a row for messages.

Types of columns may be given as `flinkish.table.DataTypes` or as `flinkish.common.Types`.
"""

from __future__ import annotations

from typing import Any

from flinkish.common.arguments import instance_of
from flinkish.common.errors import InvalidProgramError
from flinkish.common.serialization import BulkWriterFactory
from flinkish.datastream.connectors.file_system.csv_format import CsvLinesFormat
from flinkish.datastream.connectors.file_system.csv_settings import CsvSettings, HeaderUse
from flinkish.datastream.connectors.file_system.csv_writer import CsvWriterFactory
from flinkish.datastream.formats._csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flinkish.datastream.formats._csv_schema import CsvSchema, CsvSchemaBuilder

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


def _schema(given: Any, method: str) -> CsvSchema:
    schema = instance_of(f"{method}()", given, CsvSchema, hint="call build() on a builder.")
    if not schema.columns:
        raise InvalidProgramError(f"{method}: the schema has no columns", hint="add_string_column(name), and so on.")
    return schema


class CsvReaderFormat(CsvLinesFormat):
    """Reads CSV files by a CsvSchema, as Rows with the names of its columns.

    Columns are found by their position; a header is skipped, or checked with `set_strict_headers`. Numbers may have blanks around
    them. Each file is read by one reader, as quoted fields may contain line feeds.
    Differs from Flink: an empty field in a column of numbers or BOOLEAN is None even without `set_null_value` (an error in
    Flink); BOOLEAN is true, false, 1 or 0, and any other text is a bad record (Flink reads false); a decimal with too many digits
    is a bad record (Flink reads None); a carriage return alone does not end a line.
    """

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Return the format for a schema; raise an error if it is no CsvSchema, or has no columns."""
        _schema(schema, "CsvReaderFormat.for_schema")
        header = HeaderUse.NONE
        if schema.use_header:
            header = HeaderUse.CHECK if schema.strict_headers else HeaderUse.SKIP
        settings = CsvSettings(
            dialect=schema.dialect(),
            schema=schema.row_type(),
            header=header,
            skip_first_row=schema.skip_first_data_row,
            extra_fields=schema.any_property_name is not None,
            separators=schema.separators(),
        )
        return CsvReaderFormat(settings=settings)


class CsvBulkWriters:
    """Writes CSV files by a CsvSchema."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """Return a writer factory for FileSink.for_bulk_format; the records are Rows, tuples or dicts with the schema's columns.

        Differs from Flink: values that could not be read back are refused with an error, such as an element that contains the
        separator of its array, a value that equals the null value (unless that is empty), or a text that contains a delimiter if
        there is no quote character. An empty field is quoted if it is the only one of its line.
        """
        _schema(schema, "CsvBulkWriters.for_schema")
        return CsvWriterFactory(
            schema.row_type(),
            schema.dialect(),
            line_separator=schema.line_separator,
            separators=schema.separators(),
            header=schema.use_header,
        )
