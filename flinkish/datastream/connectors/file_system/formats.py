"""Formats of files to read: what all have in common, lines of text, and where to find the others."""

from __future__ import annotations

import codecs
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from flinkish.common.errors import InvalidArgumentError, SourceError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors.file_system.lines import (
    LineReader,
    count_lines,
    decode_lines,
    detect_encoding,
    is_byte_oriented,
)
from flinkish.datastream.connectors.file_system.paths import DECOMPRESSION_ERRORS, is_compressed, open_bytes
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

if TYPE_CHECKING:
    from flinkish.common.serialization import DeserializationSchema
    from flinkish.datastream.connectors.file_system.avro_format import AvroFormat
    from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema
    from flinkish.datastream.connectors.file_system.csv_format import CsvFormat
    from flinkish.datastream.connectors.file_system.json_format import JsonLinesFormat
    from flinkish.datastream.connectors.file_system.parquet_format import ParquetFormat


class SplitReader(ABC):
    """Reads one split from the position it carries."""

    @abstractmethod
    def read(self, limit: int) -> Sequence[Any]:
        """Return the next records, about `limit` at most; none only at the end of the split.

        A record that cannot be read is replaced as the error policy says, so there may be SideOutputRecords among them.
        """

    @abstractmethod
    def split(self) -> FileSourceSplit:
        """Return the split at its present position."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the split is read to its end."""

    def close(self) -> None:  # noqa: B027 - optional
        """Release the file."""


class FileFormat(ABC):
    """How the contents of files become records: immutable and picklable."""

    #: Unit of a position in messages.
    unit = "line"

    @property
    def splittable(self) -> bool:
        """Whether several readers may read a file at the same time."""
        return False

    @property
    def split_by_default(self) -> bool:
        """Whether files are cut even if the program does not ask for it."""
        return False

    def produced_type(self) -> TypeInformation | None:
        """Return the type of the records if it is known without looking at a file."""
        return None

    def cut(self, path: str, size: int, block_size: int) -> list[FileSourceSplit]:
        """Cut a file into splits of about `block_size` bytes."""
        starts = range(0, max(size, 1), block_size)
        return [
            FileSourceSplit(
                split_id=f"{path}@{start}",
                path=path,
                offset=start,
                length=min(block_size, size - start),
                file_size=size,
                line=0 if start == 0 else None,
            )
            for start in starts
        ]

    def whole(self, path: str, size: int) -> FileSourceSplit:
        """Return one split of a whole file."""
        return FileSourceSplit(split_id=f"{path}@0", path=path, offset=0, length=None, file_size=size, line=0)

    @abstractmethod
    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        """Open a split at its position."""


class StreamFormat(FileFormat):
    """Formats that are read from the front to the back of a stream of bytes, record by record.

    Files that end in .gz, .gzip, .bz2, .xz, .zst or .deflate are decompressed. To make a format of your own, subclass it.
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Lines of text, as STRING, without the line feed (and carriage return) at their end.

        Differs from Flink: reading goes on at the exact byte after a restart, instead of skipping lines; a carriage return alone
        does not end a line.
        """
        return TextLineFormat(charset_name)

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
        """Rows of comma-separated values; see CsvFormat."""
        from flinkish.datastream.connectors.file_system.csv_format import CsvFormat

        return CsvFormat(
            schema,
            header=header,
            delimiter=delimiter,
            quote_char=quote_char,
            escape_char=escape_char,
            comment=comment,
            null_values=tuple(null_values),
            multiline=multiline,
            charset_name=charset_name,
        )

    @staticmethod
    def json_lines_format(type_info: TypeInformation | None = None, *, charset_name: str = "UTF-8") -> JsonLinesFormat:
        """One JSON value a line; see JsonLinesFormat."""
        from flinkish.datastream.connectors.file_system.json_format import JsonLinesFormat

        return JsonLinesFormat(type_info, charset_name=charset_name)

    @staticmethod
    def line_format(deserialization_schema: DeserializationSchema) -> StreamFormat:
        r"""Lines, each read by a schema, such as JsonRowDeserializationSchema; not in PyFlink.

        A line is what ends with '\n', without that and a '\r' before it. Lines that the schema reads as None are left out; what
        it raises ValueError for is a bad record.
        """
        from flinkish.datastream.connectors.file_system.schema_lines import SchemaLineFormat

        return SchemaLineFormat(schema=deserialization_schema)


class BulkFormat(FileFormat):
    """Formats that hold many records together, such as Parquet. To make a format of your own, subclass it."""

    @staticmethod
    def avro_format(schema: AvroSchema | None = None) -> AvroFormat:
        """Records of Avro files; see AvroFormat."""
        from flinkish.datastream.connectors.file_system.avro_format import AvroFormat

        return AvroFormat(schema)

    @staticmethod
    def parquet_format(
        type_info: TypeInformation | None = None, *, columns: Sequence[str] | None = None, batch_size: int = 4096
    ) -> ParquetFormat:
        """Rows of Parquet files; see ParquetFormat."""
        from flinkish.datastream.connectors.file_system.parquet_format import ParquetFormat

        return ParquetFormat(type_info, columns=columns, batch_size=batch_size)


def check_charset(charset_name: Any) -> str:
    """Return the name, or raise InvalidArgumentError if Python does not know it."""
    try:
        # A codec such as "hex" has a name, too, but no text.
        "\n".encode(charset_name)
    except (LookupError, TypeError) as error:
        raise InvalidArgumentError(
            f"charset_name {charset_name!r} is not a character set that is known here", hint="for example 'UTF-8', 'ISO-8859-1'."
        ) from error
    assert isinstance(charset_name, str)
    return charset_name


@dataclass(frozen=True)
class LineFormat(StreamFormat):
    """Base of the formats with a record on each line."""

    charset_name: str = "UTF-8"

    def __post_init__(self) -> None:
        check_charset(self.charset_name)

    @property
    def splittable(self) -> bool:
        return is_byte_oriented(self.charset_name)


class TextLineFormat(LineFormat):
    """Lines of text."""

    def produced_type(self) -> TypeInformation:
        return Types.STRING()

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        return _TextLineReader(LineSource(split, self.charset_name), errors)


class LineSource:
    """The lines of a split and where they stand, for the readers of all formats of lines."""

    def __init__(self, split: FileSourceSplit, charset: str, *, strip_bom: bool = False) -> None:
        """Open the file; raises SourceError if it is gone, was cut short since it was found, or is damaged."""
        self._split = split
        self._line = split.line
        self.path = split.path
        self.file = open_checked(split)
        try:
            head = self.file.read(4)
            self.encoding, bom = detect_encoding(head, charset)
            if strip_bom and not bom and head.startswith(codecs.BOM_UTF8) and self.encoding == "utf-8":
                bom = len(codecs.BOM_UTF8)
            start = split.offset if split.position is None else split.position
            self._content_start = bom
            end = None if split.length is None else split.offset + split.length
            self._reader = LineReader(self.file, self.encoding, max(start, bom), end)
            if split.position is None and split.offset > bom:
                self._reader.skip_partial_line()
        except DECOMPRESSION_ERRORS as error:
            self.file.close()
            raise self._damaged(error) from error

    def first_line(self, skip: Callable[[bytes], bool]) -> bytes | None:
        """Return the first line that is not to be skipped, such as a header; None if there is none. Leaves the position alone."""
        with open_bytes(self.path) as file:
            reader = LineReader(file, self.encoding, self._content_start, None)
            try:
                while lines := reader.take(1):
                    if not skip(lines[0]):
                        return lines[0]
            except DECOMPRESSION_ERRORS as error:
                raise self._damaged(error) from error
        return None

    @property
    def at_file_start(self) -> bool:
        """Whether nothing of the file was taken yet."""
        return self._reader.position == self._content_start

    def take(self, limit: int) -> list[bytes]:
        """Return up to `limit` lines, none at the end."""
        try:
            lines = self._reader.take(limit)
        except DECOMPRESSION_ERRORS as error:
            raise self._damaged(error) from error
        except OSError as error:
            raise SourceError(f"FileSource cannot read {self.path}: {error.strerror or error}") from error
        if self._line is not None:
            self._line += len(lines)
        return lines

    @property
    def exhausted(self) -> bool:
        try:
            return self._reader.exhausted
        except DECOMPRESSION_ERRORS as error:
            raise self._damaged(error) from error

    def line_number(self, back: int) -> int:
        """Return the number (from 1) of the line that was taken `back` lines ago; 1 is the last one. Dear, so for errors only."""
        if self._line is None:
            with open_bytes(self.path) as file:
                lines = count_lines(file, self.encoding, self._reader.position)
                # The last line of a file may lack a line feed.
                self._line = lines if self._ends_with_line_feed(file) else lines + 1
        return self._line - back + 1

    def _ends_with_line_feed(self, file: IO[bytes]) -> bool:
        line_feed = "\n".encode(self.encoding)
        file.seek(max(0, self._reader.position - len(line_feed)))
        return file.read(len(line_feed)) == line_feed

    def split(self) -> FileSourceSplit:
        return replace(self._split, position=self._reader.position, line=self._line)

    def close(self) -> None:
        self.file.close()

    def _damaged(self, error: Exception) -> SourceError:
        return SourceError(
            f"FileSource cannot decompress {self.path}: {str(error) or type(error).__name__}; the file is damaged or cut short"
        )


def open_checked(split: FileSourceSplit) -> IO[bytes]:
    """Open the file of a split; raises SourceError if it is gone or was cut short since it was found."""
    try:
        size = os.stat(split.path).st_size
        if size < split.file_size:
            raise SourceError(
                f"FileSource: {split.path} was {split.file_size} bytes long when it was found, and now has {size}",
                hint="files must not change once they are in the source's folder; move them there when they are complete.",
            )
        return open_bytes(split.path)
    except FileNotFoundError as error:
        raise SourceError(
            f"FileSource: {split.path} is gone; it was there when the source looked for files",
            hint="files must stay until the job has read them and a checkpoint after that is complete.",
        ) from error
    except DECOMPRESSION_ERRORS as error:
        raise SourceError(f"FileSource cannot decompress {split.path}: {str(error) or type(error).__name__}") from error
    except OSError as error:
        raise SourceError(f"FileSource cannot read {split.path}: {error.strerror or error}") from error


def compressed_or_whole(format_: FileFormat, path: str, size: int, block_size: int | None) -> list[FileSourceSplit]:
    """Cut a file as its format and its compression allow."""
    if block_size is None or not format_.splittable or size <= block_size or is_compressed(path):
        return [format_.whole(path, size)]
    return format_.cut(path, size, block_size)


class _TextLineReader(SplitReader):
    def __init__(self, source: LineSource, errors: RecordErrors) -> None:
        self._source = source
        self._errors = errors

    def read(self, limit: int) -> Sequence[Any]:
        while lines := self._source.take(limit):
            texts = decode_lines(lines, self._source.encoding)
            if None not in texts:
                return texts
            records = [
                undecodable(self._source, self._errors, lines[index], len(lines) - index) if text is None else text
                for index, text in enumerate(texts)
            ]
            kept = [record for record in records if record is not None]
            if kept:
                return kept
        return ()

    def split(self) -> FileSourceSplit:
        return self._source.split()

    @property
    def finished(self) -> bool:
        return self._source.exhausted

    def close(self) -> None:
        self._source.close()


def undecodable(source: LineSource, errors: RecordErrors, line: bytes, back: int) -> Any:
    """Treat a line that is not text in the declared character set."""
    return errors.handle(
        path=source.path,
        line=source.line_number(back),
        reason=f"the line is not text in the character set {source.encoding}",
        record=line,
    )


def describe_type(value: Any) -> str:
    """Return the name of a JSON value's kind, for messages."""
    names: Mapping[type, str] = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
