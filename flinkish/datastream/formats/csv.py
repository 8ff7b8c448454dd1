"""CSV with PyFlink's builders: a CsvSchema for files, and the type of a row for messages.

Types of columns may be given as `flinkish.table.DataTypes` or as `flinkish.common.Types`.
"""

from __future__ import annotations

import csv
import io
from typing import Any, Self

from flinkish.common.arguments import bool_of, instance_of, text_of
from flinkish.common.arrow_types import values_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.errors import DeserializationError, InvalidArgumentError, InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import plain_type
from flinkish.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation
from flinkish.common.types import Row, make_row
from flinkish.datastream.connectors.file_system.csv_format import CsvFormat, HeaderUse
from flinkish.datastream.connectors.file_system.csv_values import ARRAY_SEPARATOR, CsvDialect, row_parsers
from flinkish.datastream.connectors.file_system.csv_writer import CsvLines, CsvWriterFactory
from flinkish.datastream.formats._csv_schema import COMMENT, CsvSchema, CsvSchemaBuilder, character
from flinkish.datastream.formats._schemas import Made, shown
from flinkish.table.types import type_info_of

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


class CsvReaderFormat(CsvFormat):
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
        return CsvReaderFormat(
            dialect=schema.dialect,
            schema=schema.row_type(),
            header=header,
            skip_first_row=schema.skip_first_data_row,
            extra_fields=schema.any_property_name is not None,
            separators=schema.separators(),
        )


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
        separators, header = schema.separators(), schema.use_header
        return CsvWriterFactory(schema.row_type(), schema.dialect, schema.line_separator, separators, header=header)


def _row_type(type_info: Any, what: str) -> RowTypeInfo:
    if type_info is None:
        raise InvalidArgumentError(f"{what}: Type information must not be None")
    unwrapped = plain_type(type_info_of(type_info, f"type_info of {what}"))
    if not isinstance(unwrapped, RowTypeInfo):
        raise InvalidArgumentError(f"{what}: Row type information expected; got {type_info!r}", hint="Types.ROW_NAMED(...).")
    return unwrapped


class _Builder(SettingsBuilder[CsvDialect]):
    """The settings of both builders: the dialect and others. `schema`: the name of the schema, for messages."""

    def __init__(self, type_info: TypeInformation, schema: str) -> None:
        super().__init__(CsvDialect())
        self._row_type = _row_type(type_info, schema)
        self._separator = ARRAY_SEPARATOR

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Set the separator of the elements of arrays and nested rows."""
        self._separator = text_of("the delimiter of array elements", delimiter)
        return self

    def set_quote_character(self, c: str) -> Self:
        """Set the character that quotes a field."""
        return self._set(quote_char=character(c, "Quote char"))

    def set_escape_character(self, c: str) -> Self:
        """Set the escape character: the next character loses its special meaning."""
        return self._set(escape_char=character(c, "Escape char"))


class CsvRowDeserializationSchema(DeserializationSchema):
    """Reads one line of CSV as a Row.

    >>> from flinkish.common import Types
    >>> schema = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])).build()
    >>> schema.deserialize(b'7,"Ann, Bob"')
    Row(id=7, name='Ann, Bob')

    A nested row or array is in one field. For the differences from Flink see CsvReaderFormat.
    """

    def __init__(self, row_type: RowTypeInfo, dialect: CsvDialect, separator: str, ignore_parse_errors: bool) -> None:
        self._row_type = row_type
        self._dialect = dialect
        self._ignore_parse_errors = ignore_parse_errors
        names = row_type.field_names
        self._parsers = Made(row_parsers, names, row_type.field_types, dialect, [separator] * len(names))

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of a line; raise DeserializationError if it cannot be read.

        With `ignore_parse_errors`, fields that are missing or cannot be read are None, and so is a line that is no CSV at all.
        """
        try:
            return self._row(message)
        except (ValueError, csv.Error) as error:
            if self._ignore_parse_errors:
                return None
            raise DeserializationError(f"Failed to deserialize CSV row {shown(message)}: {error}") from error

    def _row(self, message: bytes) -> Row:
        # Only line feeds and carriage returns end a line; str.splitlines splits at other characters, too.
        content = io.StringIO(message.decode(), newline="")
        lines = (line for line in content if not self._dialect.is_comment(line))
        fields: list[str] = next(self._dialect.reader(lines), [])
        names = self._row_type.field_names
        if not fields or len(fields) > len(names) or (len(fields) < len(names) and not self._ignore_parse_errors):
            raise ValueError(f"Row length mismatch. {len(names)} fields expected but was {len(fields)}.")
        values: list[Any] = [None] * len(names)
        for index, (parse, field) in enumerate(zip(self._parsers.value, fields, strict=False)):
            try:
                values[index] = field if parse is None else parse(field)
            except (ValueError, ArithmeticError):
                if not self._ignore_parse_errors:
                    expected = self._row_type.field_types[index]
                    raise ValueError(f"field {names[index]!r} must be {expected!r}; got {field!r}") from None
        return make_row(names, values)

    def get_produced_type(self) -> TypeInformation:
        return self._row_type

    class Builder(_Builder):
        """Builder of a CsvRowDeserializationSchema."""

        def __init__(self, type_info: TypeInformation) -> None:
            super().__init__(type_info, "CsvRowDeserializationSchema")
            self._ignore_parse_errors = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the delimiter of fields, one character."""
            return self._set(delimiter=delimiter)

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Skip lines that begin with '#'."""
            return self._set(comment=COMMENT if bool_of("allow_comments", allow_comments) else None)

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text that stands for None."""
            return self._set(null_values=(text_of("null_literal", null_literal, empty=True),))

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Read None for fields that cannot be read, instead of failing."""
            self._ignore_parse_errors = bool_of("ignore_parse_errors", ignore_parse_errors)
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema."""
            return CsvRowDeserializationSchema(self._row_type, self._settings, self._separator, self._ignore_parse_errors)


class CsvRowSerializationSchema(SerializationSchema):
    """Writes a Row as one line of CSV.

    >>> from flinkish.common import Row, Types
    >>> schema = CsvRowSerializationSchema.Builder(Types.ROW([Types.INT(), Types.STRING()])).build()
    >>> schema.serialize(Row(7, "a b"))
    b'7,"a b"\\n'

    Differs from Flink: values that could not be read back are refused with an error, see CsvBulkWriters.
    """

    def __init__(self, row_type: RowTypeInfo, dialect: CsvDialect, line_delimiter: str, separator: str) -> None:
        self._names = row_type.field_names
        self._lines = Made(CsvLines, row_type, dialect, line_delimiter, [separator] * len(self._names))

    def serialize(self, element: Any) -> bytes:
        """Return the line of a row; raise TypeMismatchError for a value that is no row of the type."""
        try:
            values = values_of(element, self._names)
        except (TypeError, ValueError) as error:
            raise TypeMismatchError(f"Could not serialize row {element!r}: {error}") from None
        return self._lines.value.line(values).encode()

    class Builder(_Builder):
        """Builder of a CsvRowSerializationSchema."""

        def __init__(self, type_info: TypeInformation) -> None:
            super().__init__(type_info, "CsvRowSerializationSchema")
            self._line_delimiter = "\n"

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the delimiter of fields, one character."""
            return self._set(delimiter=c)

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            r"""Set the end of a line: '\n', '\r', '\r\n' or nothing."""
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise InvalidArgumentError(
                    f"Unsupported new line delimiter {delimiter!r}. Only \\n, \\r, \\r\\n, or empty string are supported."
                )
            self._line_delimiter = delimiter
            return self

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Never quote fields."""
            return self._set(quote_char=None)

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that stands for None."""
            return self._set(null_values=(text_of("null literal", s, empty=True),))

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema."""
            return CsvRowSerializationSchema(self._row_type, self._settings, self._line_delimiter, self._separator)
