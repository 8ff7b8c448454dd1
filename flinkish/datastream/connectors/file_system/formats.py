"""Formats to read files: the public classes with a method for each format, and two formats of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkish.common.arguments import charset_of, instance_of
from flinkish.common.errors import UnsupportedError
from flinkish.common.serialization import DeserializationSchema
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors.file_system.file_format import FileFormat, SplitReader
from flinkish.datastream.connectors.file_system.lines import (
    NO_RECORD,
    LineSource,
    LineSplitReader,
    decode_lines,
    is_byte_oriented,
)
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

if TYPE_CHECKING:
    from flinkish.datastream.connectors.file_system.avro_format import AvroFormat
    from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema
    from flinkish.datastream.connectors.file_system.csv_format import CsvFormat
    from flinkish.datastream.connectors.file_system.json_format import JsonLinesFormat
    from flinkish.datastream.connectors.file_system.parquet_format import ParquetFormat

__all__ = ["BulkFormat", "FileFormat", "LineFormat", "SplitReader", "StreamFormat", "TextLineFormat"]


class StreamFormat(FileFormat):
    """Formats that read a stream of bytes from beginning to end, record by record.

    Files whose names end in .gz, .gzip, .bz2, .xz, .zst or .deflate are decompressed. Subclass it for a format of your own.
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Return the format of text lines: records are STRING, without the line feed (and carriage return) at the end of lines.

        Differs from Flink: after a restart, reading continues at the exact byte, without skipping lines; a carriage return alone
        does not end a line.
        """
        return TextLineFormat(charset_name=charset_name)

    @staticmethod
    def csv_format(
        schema: TypeInformation | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        quote_char: str | None = '"',
        escape_char: str | None = None,
        comment: str | None = None,
        null_values: Sequence[str] = (),
        multiline: bool = True,
        charset_name: str = "UTF-8",
    ) -> CsvFormat:
        """Return the format of comma-separated values; see CsvFormat."""
        from flinkish.datastream.connectors.file_system.csv_format import CsvFormat, HeaderUse
        from flinkish.datastream.connectors.file_system.csv_values import CsvDialect

        nulls = null_values if isinstance(null_values, str) else tuple(null_values)
        dialect = CsvDialect(
            delimiter=delimiter, quote_char=quote_char, escape_char=escape_char, comment=comment, null_values=nulls
        )
        use = HeaderUse.FIND if header else HeaderUse.NONE
        return CsvFormat(charset_name=charset_name, dialect=dialect, schema=schema, header=use, multiline=multiline)

    @staticmethod
    def json_lines_format(type_info: TypeInformation | None = None, *, charset_name: str = "UTF-8") -> JsonLinesFormat:
        """Return the format with one JSON value per line; see JsonLinesFormat."""
        from flinkish.datastream.connectors.file_system.json_format import JsonLinesFormat

        return JsonLinesFormat(type_info, charset_name=charset_name)

    @staticmethod
    def line_format(deserialization_schema: DeserializationSchema) -> StreamFormat:
        r"""Return the format of lines that a schema reads, such as JsonRowDeserializationSchema; not in PyFlink.

        Lines end with '\n' or '\r\n', which the schema does not get. Lines that the schema reads as None are skipped; a line for
        which it raises ValueError is a bad record.
        """
        return SchemaLineFormat(schema=deserialization_schema)


class BulkFormat(FileFormat):
    """Formats that store many records together, such as Parquet. Subclass it for a format of your own."""

    @staticmethod
    def avro_format(schema: AvroSchema | None = None) -> AvroFormat:
        """Return the format of Avro files; see AvroFormat."""
        from flinkish.datastream.connectors.file_system.avro_format import AvroFormat

        return AvroFormat(schema)

    @staticmethod
    def parquet_format(
        type_info: TypeInformation | None = None, *, columns: Sequence[str] | None = None, batch_size: int = 4096
    ) -> ParquetFormat:
        """Return the format of Parquet files; see ParquetFormat."""
        from flinkish.datastream.connectors.file_system.parquet_format import ParquetFormat

        return ParquetFormat(type_info, columns=columns, batch_size=batch_size)


@dataclass(frozen=True, kw_only=True)
class LineFormat(StreamFormat):
    """Base of formats with one record per line."""

    charset_name: str = "UTF-8"

    def __post_init__(self) -> None:
        charset_of("charset_name", self.charset_name)

    @property
    def splittable(self) -> bool:
        return is_byte_oriented(self.charset_name)


class TextLineFormat(LineFormat):
    """Lines of text."""

    def produced_type(self) -> TypeInformation:
        return Types.STRING()

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        return _TextLineReader(LineSource(split, self.charset_name), errors)


class _TextLineReader(LineSplitReader):
    def records(self, lines: list[bytes]) -> Sequence[Any]:
        texts = decode_lines(lines, self._source.encoding)
        return super().records(lines) if None in texts else texts

    def parse(self, line: bytes) -> str:
        return self.decoded(line).removesuffix("\r")


@dataclass(frozen=True)
class SchemaLineFormat(LineFormat):
    """Lines read by a schema; a line for which it raises ValueError is a bad record, and one read as None is skipped."""

    schema: DeserializationSchema = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        instance_of("StreamFormat.line_format()", self.schema, DeserializationSchema)
        if type(self.schema).is_end_of_stream is not DeserializationSchema.is_end_of_stream:
            raise UnsupportedError(
                f"StreamFormat.line_format: {type(self.schema).__name__}.is_end_of_stream() would not be asked, as files end by "
                "themselves",
                hint="leave the method out, and drop the records after such a record by filter().",
            )

    def produced_type(self) -> TypeInformation:
        return self.schema.get_produced_type()

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        return self.schema.why_records

    @property
    def makes_new_records(self) -> bool:  # type: ignore[override]
        return self.schema.makes_new_records

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        self.schema.open()
        reader = _SchemaLineReader(LineSource(split, self.charset_name), self.schema, errors)
        if by_columns:
            reader.batch = lambda lines: self.schema.deserialize_batch([line.removesuffix(b"\r") for line in lines])
        return reader


class _SchemaLineReader(LineSplitReader):
    def __init__(self, source: LineSource, schema: DeserializationSchema, errors: RecordErrors) -> None:
        super().__init__(source, errors)
        self._schema = schema

    def parse(self, line: bytes) -> Any:
        record = self._schema.deserialize(line.removesuffix(b"\r"))
        return NO_RECORD if record is None else record
