"""The reader of a split of a CSV file."""

from __future__ import annotations

import csv
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

from flinkish.common.errors import SourceError
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.types import make_row, rows_of
from flinkish.datastream.connectors.file_system.csv_settings import CsvDialect, CsvSettings, HeaderUse
from flinkish.datastream.connectors.file_system.csv_values import column_parser, null_parser, parser
from flinkish.datastream.connectors.file_system.line_source import LineSource, LineSplitReader
from flinkish.datastream.connectors.file_system.lines import decode_lines
from flinkish.datastream.connectors.record_errors import RecordErrors

#: Characters that replace bytes which cannot be decoded (surrogateescape).
_ESCAPED: Final = frozenset(map(chr, range(0xDC80, 0xDD00)))


class CsvReader(LineSplitReader):
    """Parses lines with one record each column by column, and other lines one by one."""

    def __init__(self, settings: CsvSettings, source: LineSource, errors: RecordErrors) -> None:
        super().__init__(source, errors)
        self._settings = settings
        self._dialect = settings.dialect
        at_start = source.at_file_start
        header = None if settings.header is HeaderUse.NONE else self._read_header()
        if settings.skip_first_row and at_start:
            self._skip_line()
        nulls = frozenset(settings.dialect.null_values)
        self._names: tuple[str, ...] | None
        if settings.schema is not None:
            types = settings.types
            self._names = None if settings.is_tuple else settings.names
            self._parsers = [
                parser(part, nulls, separator=settings.separator(index), column=name)
                for index, (name, part) in enumerate(zip(settings.names, types, strict=True))
            ]
            self._types: Sequence[TypeInformation | None] = types
            self._columns = self._find_columns(header, len(types))
        else:
            assert header is not None
            self._names = tuple(header)
            self._parsers = [null_parser(nulls) if nulls else None] * len(header)
            self._types = [None] * len(header)
            self._columns = list(range(len(header)))
        by_name = settings.header is HeaderUse.FIND and header is not None
        self._width = len(header) if by_name and header is not None else len(self._columns)
        self._in_order = self._columns == list(range(self._width)) and not settings.extra_fields
        self._plain = not any(self._parsers)
        self._getters = [operator.itemgetter(i) for i in self._columns]
        self._column_parsers = [column_parser(part, parse, nulls) for part, parse in zip(self._types, self._parsers, strict=True)]
        quote = settings.dialect.quote_char
        self._quote = None if quote is None else quote.encode(source.encoding)

    # -- the header ----------------------------------------------------------------------------------------------------------

    def _read_header(self) -> list[str]:
        path = self._source.path
        if self._source.at_file_start:
            self._skip_line()
        line = self._source.first_line(self._is_comment)
        if line is None:
            return list(self._settings.names)
        text = decode_lines([line], self._source.encoding)[0]
        if text is None:
            raise SourceError(f"{path}, line 1: the header is not text in the character set {self._source.encoding}")
        try:
            header = next(self._dialect.reader(iter([text])), [])
        except csv.Error as error:
            raise SourceError(f"{path}, line 1: the header is not valid CSV: {error}") from error
        repeated = sorted({name for name in header if header.count(name) > 1})
        if (
            repeated
            and self._settings.header is HeaderUse.FIND
            and (self._settings.schema is None or set(repeated) & set(self._settings.names))
        ):
            raise SourceError(f"{path}, line 1: columns {repeated} appear more than once in the header {header}")
        return header

    def _skip_line(self) -> None:
        """Skip the next line, and the comments before it."""
        while (lines := self._source.take(1)) and self._is_comment(lines[0]):
            pass

    def _is_comment(self, line: bytes) -> bool:
        return self._dialect.comment is not None and self._dialect.is_comment(line.decode(self._source.encoding, "replace"))

    def _find_columns(self, header: list[str] | None, count: int) -> list[int]:
        path = self._source.path
        match self._settings.header:
            case HeaderUse.CHECK:
                names = list(self._settings.names)
                if header is not None and header != names:
                    raise SourceError(
                        f"{path}, line 1: the header must be {names}; it is {header}",
                        hint="leave out set_strict_headers() to go by the position of the columns.",
                    )
            case HeaderUse.FIND if header is not None and self._names is None:
                if len(header) != count:
                    raise SourceError(f"{path}, line 1: the schema has {count} columns, the header {len(header)}: {header}")
            case HeaderUse.FIND if header is not None and self._names is not None:
                missing = [name for name in self._names if name not in header]
                if missing:
                    raise SourceError(
                        f"{path}, line 1: columns {missing} of the schema are missing; the header has {header}",
                        hint="names must be equal in upper and lower case; is `delimiter` right, and is there a header at all?",
                    )
                return [header.index(name) for name in self._names]
        return list(range(count))

    # -- records -------------------------------------------------------------------------------------------------------------

    def read(self, limit: int) -> Sequence[Any]:
        records: list[Any] = []
        while not records:
            lines = self._source.take(limit)
            if not lines:
                break
            texts = decode_lines(lines, self._source.encoding, strip=False)
            escaped = None in texts
            if escaped:
                texts = [
                    text if text is not None else _escape(line, self._source.encoding)
                    for text, line in zip(texts, lines, strict=True)
                ]
            elif self._is_plain(lines):
                plain = self._parse_plain(texts)  # type: ignore[arg-type]
                if plain is not None:
                    records = plain
                    continue
            if self._settings.multiline:
                # A field in quotes keeps its line feeds.
                texts = [f"{text}\n" for text in texts]
            self._parse(texts, records, escaped)  # type: ignore[arg-type]
        return records

    def _is_plain(self, lines: list[bytes]) -> bool:
        """Return whether each line seems to be a record of its own, judged without parsing."""
        if self._dialect.comment is not None or self._dialect.escape_char is not None or self._settings.extra_fields:
            return False
        quote = self._quote
        return quote is None or not any(quote in line for line in lines)

    def _parse_plain(self, texts: list[str]) -> list[Any] | None:
        """Parse lines with one record each column by column, in a third of the time; None if there is any error."""
        try:
            rows: list[list[str]] = [fields for fields in self._dialect.reader(iter(texts)) if fields]
        except csv.Error:
            return None
        width = self._width
        if any(len(fields) != width for fields in rows):
            return None
        try:
            columns = [
                list(map(getter, rows)) if parse is None else parse(list(map(getter, rows)))
                for getter, parse in zip(self._getters, self._column_parsers, strict=True)
            ]
        except (ValueError, ArithmeticError):
            return None
        if self._names is None:
            return list(zip(*columns, strict=True))
        return rows_of(self._names, columns)

    def _parse(self, texts: list[str], records: list[Any], escaped: bool) -> None:
        """Parse the lines taken last; take more lines if the last one ends within quotes."""
        lines = _RecordLines(texts, self._continue() if self._settings.multiline else None, self._dialect)
        reader = self._dialect.reader(lines)
        while True:
            lines.at_record = True
            try:
                fields = next(reader, None)
                if fields is None:
                    return
                if fields:
                    record = self._record(fields, lines, escaped)
                    if record is not None:
                        records.append(record)
            except csv.Error as error:
                # Errors name the line in which the record begins.
                result = self._bad(f"not valid CSV: {error}", "".join(lines.record).rstrip("\r\n"), lines)
                if result is not None:
                    records.append(result)
                reader = self._dialect.reader(lines)

    def _continue(self) -> Iterator[str]:
        while more := self._source.take(1):
            text = decode_lines(more, self._source.encoding, strip=False)[0]
            yield f"{text if text is not None else _escape(more[0], self._source.encoding)}\n"

    def _record(self, fields: list[str], lines: _RecordLines, escaped: bool) -> Any:
        if len(fields) != self._width and not (self._settings.extra_fields and len(fields) > self._width):
            return self._error(f"expected {self._width} fields", fields, lines, f"{len(fields)}")
        if escaped and any(not _ESCAPED.isdisjoint(field) for field in fields):
            return self._error(self._undecodable, fields, lines)
        picked = fields if self._in_order else [fields[i] for i in self._columns]
        if self._plain:
            values: list[Any] = picked
        else:
            try:
                values = [field if parse is None else parse(field) for parse, field in zip(self._parsers, picked, strict=True)]
            except (ValueError, ArithmeticError):
                return self._error(self._describe(picked), fields, lines)
        if self._names is None:
            return tuple(values)
        return make_row(self._names, values)

    def _describe(self, fields: Sequence[str]) -> str:
        """Return a description of the wrong column."""
        for index, (parse, field) in enumerate(zip(self._parsers, fields, strict=True)):
            try:
                if parse is not None:
                    parse(field)
            except (ValueError, ArithmeticError):
                name = self._names[index] if self._names is not None else f"{index + 1}"
                return f"column {name!r} must be {self._types[index]!r}; got {field!r}"
        return "a column has a wrong value"

    def _error(self, reason: str, fields: Sequence[str], lines: _RecordLines, got: str | None = None) -> Any:
        return self._bad(reason if got is None else f"{reason}, found {got}", self._dialect.delimiter.join(fields), lines)

    def _bad(self, reason: str, record: str, lines: _RecordLines) -> Any:
        return self._errors.handle(
            path=self._source.path,
            line=self._source.line_number(lines.taken - lines.begin),
            reason=reason,
            record=record,
            raw=_unescape("".join(lines.record).rstrip("\n"), self._source.encoding),
        )


class _RecordLines:
    """Lines for a csv.reader; skips comments between records, and knows the line in which each record begins."""

    def __init__(self, texts: list[str], more: Iterator[str] | None, dialect: CsvDialect) -> None:
        """`more`: the lines after `texts`, for a record that does not end with them; None = each line is a record."""
        self._texts = texts
        self._more = more
        self._dialect = dialect
        #: Index of the line in which the record begins, and of the next line.
        self.begin = self.next = 0
        #: The lines of the record so far.
        self.record: list[str] = []
        #: Set before each record.
        self.at_record = True

    @property
    def taken(self) -> int:
        """Number of lines taken from the source."""
        return max(len(self._texts), self.next)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while True:
            if self._more is None and not self.at_record:
                raise StopIteration
            if self.next < len(self._texts):
                line = self._texts[self.next]
            elif self._more is None or self.at_record:
                raise StopIteration
            else:
                line = next(self._more)
            self.next += 1
            if not self.at_record:
                self.record.append(line)
                return line
            self.begin = self.next - 1
            if not self._dialect.is_comment(line):
                self.at_record = False
                self.record = [line]
                return line


def _escape(line: bytes, encoding: str) -> str:
    """Return a line with undecodable bytes replaced by single surrogates, by which its record is recognized."""
    try:
        return line.decode(encoding, "surrogateescape")
    except UnicodeDecodeError:  # encodings without surrogateescape
        return line.decode(encoding, "replace") + "\udc80"


def _unescape(line: str, encoding: str) -> bytes:
    """Return the bytes of a line that `_escape` may have made."""
    try:
        return line.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return line.encode(encoding, "replace")
