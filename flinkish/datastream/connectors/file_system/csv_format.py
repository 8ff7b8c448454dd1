"""The format of comma-separated values."""

from __future__ import annotations

import codecs
import csv
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceError
from flinkish.common.kinds import Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, TypeInformation, Types
from flinkish.common.types import make_row, rows_of
from flinkish.datastream.connectors.file_system.csv_values import CsvDialect, column_parser, row_parsers
from flinkish.datastream.connectors.file_system.file_format import SplitReader
from flinkish.datastream.connectors.file_system.formats import LineFormat
from flinkish.datastream.connectors.file_system.lines import LineSource, LineSplitReader, decode_lines
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

__all__ = ["CsvFormat"]


class HeaderUse(Enum):
    """The use of a header in the first line of a file."""

    #: There is no header.
    NONE = "none"
    #: The header gives the positions of a row's columns; for a tuple it must have the same number of columns.
    FIND = "find"
    #: The header must contain the names of the columns in their order.
    CHECK = "check"
    #: The header is skipped.
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True)
class CsvFormat(LineFormat):
    """Reads rows of comma-separated values, as in RFC 4180.

    `schema`: the type of the records, ROW_NAMED or TUPLE. With a header, the columns of a ROW_NAMED are found by name, and other
    columns of the file are ignored; columns of a TUPLE, and of files without a header, are found by position. Without a schema
    the file must have a header; records are then Rows with the names of the header and STRING values, and their type is not
    declared. Empty fields are None, except in columns of STRING, arrays and bytes; texts in `null_values` (such as "NA") are
    always None. An array or nested row is in one field, with its elements separated by ';'; bytes are base64.
    `multiline`: whether quoted fields may contain line feeds; with False, several readers can share a large file. Empty lines are
    skipped.
    For PyFlink's CsvSchema see flinkish.datastream.formats.csv.
    """

    dialect: CsvDialect
    schema: TypeInformation | None
    header: HeaderUse
    #: Whether the line after the header, or the first one without a header, is skipped.
    skip_first_row: bool = False
    #: Whether a line may have more fields than columns; surplus fields are ignored.
    extra_fields: bool = False
    multiline: bool = True
    #: Separators of array elements by column; empty = ';' for all columns.
    separators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schema is None and self.header is HeaderUse.NONE:
            raise InvalidProgramError("a CSV format without a header needs a schema", hint="give Types.ROW_NAMED(names, types).")
        if self.schema is not None and kind_of(self.schema) not in (Kind.ROW, Kind.TUPLE):
            raise InvalidArgumentError(f"schema of the CSV format must be ROW_NAMED, ROW or TUPLE; got {self.schema!r}")
        row_parsers(self.names, self.types, self.dialect, self.separators)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns: f0, f1, ... for a tuple; none without a schema."""
        return () if self.schema is None else part_names(self.schema)

    @property
    def types(self) -> list[TypeInformation]:
        """The types of the columns; none without a schema."""
        return [] if self.schema is None else list(map(plain_type, shape_of(self.schema)[1]))

    @property
    def is_tuple(self) -> bool:
        """Whether records are tuples, whose columns have no names in a file."""
        return self.schema is not None and kind_of(self.schema) is Kind.TUPLE

    @property
    def splittable(self) -> bool:
        return super().splittable and not self.multiline

    def produced_type(self) -> TypeInformation | None:
        return self.schema

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        if self.schema is None:
            return "the CSV format has no schema"
        if codecs.lookup(self.charset_name).name != "utf-8" or not f"{self.dialect.delimiter}{self.dialect.quote_char}".isascii():
            return "only CSV of UTF-8, with a delimiter and quotes of ASCII, is read as columns"
        parts = zip(self.names, self.types, strict=True)
        found = next((name for name, part in parts if kind_of(part) in (Kind.LIST, Kind.ROW) or _has_free_scale(part)), None)
        return None if found is None else f"the field {found!r} of CSV lines is read one by one"

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        source = LineSource(split, self.charset_name, strip_bom=True)
        try:
            return _CsvReader(self, source, errors, by_columns=by_columns)
        except BaseException:
            source.close()
            raise


def _has_free_scale(type_info: TypeInformation) -> bool:
    """Return whether a column would give values of a type 18 digits after the point."""
    return kind_of(type_info) is BasicType.BIG_DEC and not isinstance(type_info, DecimalTypeInfo)


#: Characters that replace bytes which cannot be decoded (surrogateescape).
_ESCAPED: Final = frozenset(map(chr, range(0xDC80, 0xDD00)))


class _CsvReader(LineSplitReader):
    """Parses lines together, column by column; and record by record if there is an error among them."""

    def __init__(self, format_: CsvFormat, source: LineSource, errors: RecordErrors, *, by_columns: bool) -> None:
        super().__init__(source, errors)
        self._format = format_
        self._dialect = dialect = format_.dialect
        self._is_tuple = format_.is_tuple
        at_start = source.at_file_start
        header = None if format_.header is HeaderUse.NONE else self._read_header()
        if format_.skip_first_row and at_start:
            self._skip_line()
        self._names = tuple(header) if format_.schema is None and header is not None else format_.names
        self._types = [Types.STRING()] * len(self._names) if format_.schema is None else format_.types
        self._columns = self._find_columns(header)
        self._width = len(header) if format_.header is HeaderUse.FIND and header is not None else len(self._columns)
        self._parsers = row_parsers(self._names, self._types, dialect, format_.separators)
        nulls = frozenset(dialect.null_values)
        self._getters = [operator.itemgetter(i) for i in self._columns]
        self._column_parsers = [column_parser(part, parse, nulls) for part, parse in zip(self._types, self._parsers, strict=True)]
        #: Whether some lines are not text in the character set.
        self._escaped = False
        self._quote = None if dialect.quote_char is None else dialect.quote_char.encode(source.encoding)
        if by_columns:
            # These import Arrow, which takes half a second.
            from flinkish.common.column_layout import needed_layout
            from flinkish.datastream.connectors.file_system.csv_columns import CsvColumns

            assert format_.schema is not None
            layout = needed_layout(format_.schema, "a block of CSV lines")
            self.batch = CsvColumns(dialect, layout, self._columns, self._width, self._parsers).batch

    def _read_header(self) -> list[str]:
        path = self._source.path
        if self._source.at_file_start:
            self._skip_line()
        line = self._source.first_line(self._is_comment)
        if line is None:
            return list(self._format.names)
        text = decode_lines([line], self._source.encoding)[0]
        if text is None:
            raise SourceError(f"{path}, line 1: the header is not text in the character set {self._source.encoding}")
        try:
            header: list[str] = next(self._dialect.reader([text]), [])
        except csv.Error as error:
            raise SourceError(f"{path}, line 1: the header is not valid CSV: {error}") from error
        repeated = sorted({name for name in header if header.count(name) > 1})
        wanted = header if self._format.schema is None else self._format.names
        if self._format.header is HeaderUse.FIND and not set(repeated).isdisjoint(wanted):
            raise SourceError(f"{path}, line 1: columns {repeated} appear more than once in the header {header}")
        return header

    def _skip_line(self) -> None:
        """Skip the next line, and the comments before it."""
        while (lines := self._source.take(1)) and self._is_comment(lines[0]):
            pass

    def _is_comment(self, line: bytes) -> bool:
        return self._dialect.comment is not None and self._dialect.is_comment(line.decode(self._source.encoding, "replace"))

    def _find_columns(self, header: list[str] | None) -> list[int]:
        """Return the positions of the columns; raise SourceError for a header that does not fit the schema."""
        place, names = f"{self._source.path}, line 1", list(self._names)
        if header is not None and header != names:
            match self._format.header:
                case HeaderUse.CHECK:
                    raise SourceError(
                        f"{place}: the header must be {names}; it is {header}",
                        hint="leave out set_strict_headers() to go by the position of the columns.",
                    )
                case HeaderUse.FIND if not self._is_tuple:
                    if missing := [name for name in names if name not in header]:
                        raise SourceError(
                            f"{place}: columns {missing} of the schema are missing; the header has {header}",
                            hint="names must be equal in upper and lower case; is `delimiter` right, and is there a header?",
                        )
                    return [header.index(name) for name in names]
                case HeaderUse.FIND if len(header) != len(names):
                    raise SourceError(f"{place}: the schema has {len(names)} columns, the header {len(header)}: {header}")
        return list(range(len(names)))

    def records(self, lines: list[bytes]) -> Sequence[Any]:
        texts: list[Any] = decode_lines(lines, self._source.encoding, strip=False)
        self._escaped = None in texts
        if self._escaped:
            texts = [self._escape(line) if text is None else text for text, line in zip(texts, lines, strict=True)]
        # A field in quotes may go on in the next line; it keeps its line feeds.
        quote = self._quote
        may_go_on = self._dialect.escape_char is not None or (quote is not None and any(quote in line for line in lines))
        goes_on = self._format.multiline and may_go_on
        if goes_on:
            texts = [f"{text}\n" for text in texts]
        is_comment = self._dialect.is_comment
        data = texts if self._dialect.comment is None else [text for text in texts if not is_comment(text)]
        # A line of a quoted field may look like a comment, which only shows record by record.
        found = None if goes_on and len(data) < len(texts) else self._parse_together(texts if goes_on else data, goes_on)
        return self._parse(texts, goes_on) if found is None else found

    def _parse_together(self, texts: list[str], goes_on: bool) -> list[Any] | None:
        """Parse lines column by column, in a third of the time; None if there is any error."""
        try:
            rows: list[list[str]] = []
            if goes_on:
                reader = self._dialect.reader(self._lines(texts, 0))
                while reader.line_num < len(texts):
                    rows.append(next(reader))
            else:
                rows = list(self._dialect.reader(texts))
                if len(rows) != len(texts):
                    return None  # an open quote has hidden the end of a line
            rows = [fields for fields in rows if fields]
            if self._escaped or not all(map(self._is_width, set(map(len, rows)))):
                return None
            columns = [
                list(map(getter, rows)) if parse is None else parse(list(map(getter, rows)))
                for getter, parse in zip(self._getters, self._column_parsers, strict=True)
            ]
        except (csv.Error, ValueError, ArithmeticError):
            return None
        return list(zip(*columns, strict=True)) if self._is_tuple else rows_of(self._names, columns)

    def _parse(self, texts: list[str], goes_on: bool) -> list[Any]:
        """Parse lines record by record, so that errors name the line in which a record begins."""
        records: list[Any] = []
        syntax = self._dialect.reader(()).dialect
        begin = 0
        while begin < len(texts):
            if self._dialect.is_comment(texts[begin]):
                begin += 1
                continue
            reader = csv.reader(self._lines(texts, begin) if goes_on else texts[begin : begin + 1], syntax)
            try:
                fields: list[str] = next(reader, [])
                record = self._record(fields) if fields else None
            except (csv.Error, ValueError) as error:
                reason = f"not valid CSV: {error}" if isinstance(error, csv.Error) else str(error)
                text = "".join(texts[begin : begin + reader.line_num])
                record = self._errors.handle(
                    path=self._source.path,
                    line=self._source.line_number(len(texts) - begin),
                    reason=reason,
                    record=text.rstrip("\r\n"),
                    raw=self._unescape(text.rstrip("\n")),
                )
            begin += reader.line_num
            if record is not None:
                records.append(record)
        return records

    def _lines(self, texts: list[str], begin: int) -> Iterator[str]:
        """Yield lines, and after the last one add further lines of the source, for a record that goes on."""
        while True:
            if begin == len(texts):
                more = self._source.take(1)
                if not more:
                    return
                text = decode_lines(more, self._source.encoding, strip=False)[0]
                self._escaped = self._escaped or text is None
                texts.append(f"{self._escape(more[0]) if text is None else text}\n")
            yield texts[begin]
            begin += 1

    def _is_width(self, count: int) -> bool:
        return count == self._width or (self._format.extra_fields and count > self._width)

    def _record(self, fields: list[str]) -> Any:
        """Return the record for the fields of a line; raise ValueError with the reason if there is none."""
        if not self._is_width(len(fields)):
            raise ValueError(f"expected {self._width} fields, found {len(fields)}")
        if self._escaped and any(not _ESCAPED.isdisjoint(field) for field in fields):
            raise ValueError(self.undecodable)
        values: list[Any] = []
        try:
            for i, parse in zip(self._columns, self._parsers, strict=True):
                values.append(fields[i] if parse is None else parse(fields[i]))
        except (ValueError, ArithmeticError):
            index = len(values)
            name = str(index + 1) if self._is_tuple else self._names[index]
            raise ValueError(f"column {name!r} must be {self._types[index]!r}; got {fields[i]!r}") from None
        return tuple(values) if self._is_tuple else make_row(self._names, values)

    def _escape(self, line: bytes) -> str:
        """Return a line with undecodable bytes replaced by single surrogates, by which its record is recognized."""
        try:
            return line.decode(self._source.encoding, "surrogateescape")
        except UnicodeDecodeError:  # encodings without surrogateescape
            return line.decode(self._source.encoding, "replace") + "\udc80"

    def _unescape(self, line: str) -> bytes:
        """Return the bytes of a line that `_escape` may have made."""
        try:
            return line.encode(self._source.encoding, "surrogateescape")
        except UnicodeEncodeError:
            return line.encode(self._source.encoding, "replace")
