"""Comma-separated values."""

from __future__ import annotations

import csv
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceError
from flinkish.common.typeinfo import (
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flinkish.common.types import make_row
from flinkish.datastream.connectors._arrow import unwrap
from flinkish.datastream.connectors.file_system.csv_values import UNSUPPORTED, column_parser, null_parser, parser
from flinkish.datastream.connectors.file_system.formats import LineFormat, LineSource, SplitReader
from flinkish.datastream.connectors.file_system.lines import decode_lines
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

#: What stands in a text for bytes that could not be decoded (surrogateescape).
_ESCAPED: Final = frozenset(map(chr, range(0xDC80, 0xDD00)))


@dataclass(frozen=True)
class CsvFormat(LineFormat):
    """Rows of comma-separated values, read as RFC 4180 says.

    `schema`: the type of the records, ROW_NAMED or TUPLE. With a header, the columns of a ROW_NAMED are found by their names, and
    others in the file are left out; a TUPLE, and all files without a header, are read by position. Without a schema the file must
    have a header; records are then Rows with its names and STRING values, and their type is not declared.
    Empty fields are None except for STRING columns; what is in `null_values` (such as "NA") is None for all.
    `multiline`: whether quoted fields may hold line feeds; False lets readers share a big file. Empty lines are skipped.
    Differs from Flink: its CsvReaderFormat takes a CsvSchema of the Table API.
    """

    schema: TypeInformation | None = None
    header: bool = True
    delimiter: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    comment: str | None = None
    null_values: tuple[str, ...] = ()
    multiline: bool = True

    def __init__(
        self,
        schema: TypeInformation | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        quote_char: str | None = '"',
        escape_char: str | None = None,
        comment: str | None = None,
        null_values: tuple[str, ...] = (),
        multiline: bool = True,
        charset_name: str = "UTF-8",
    ) -> None:
        values = locals()
        for name in self.__dataclass_fields__:
            object.__setattr__(self, name, values[name])
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("delimiter", "quote_char", "escape_char", "comment"):
            value = getattr(self, name)
            optional = name != "delimiter"
            if not ((optional and value is None) or (isinstance(value, str) and len(value) == 1 and value not in "\r\n")):
                raise InvalidArgumentError(
                    f"{name} of the CSV format must be one character{' or None' if optional else ''}; got {value!r}"
                )
        if isinstance(self.null_values, str) or not all(isinstance(value, str) for value in self.null_values):
            raise InvalidArgumentError(f"null_values of the CSV format must be texts; got {self.null_values!r}")
        if self.schema is None:
            if not self.header:
                raise InvalidProgramError(
                    "a CSV format without a header needs a schema", hint="give Types.ROW_NAMED(names, types)."
                )
            return
        schema = unwrap(self.schema)
        if not isinstance(schema, RowTypeInfo | TupleTypeInfo):
            raise InvalidArgumentError(f"schema of the CSV format must be ROW_NAMED, ROW or TUPLE; got {self.schema!r}")
        names = schema.field_names if isinstance(schema, RowTypeInfo) else tuple(f"f{i}" for i in range(len(schema.field_types)))
        for name, part in zip(names, schema.field_types, strict=True):
            if parser(unwrap(part), frozenset()) is UNSUPPORTED:
                raise InvalidProgramError(
                    f"column {name!r} of type {part!r} cannot be read from CSV",
                    hint="declare it as STRING and convert it in a map().",
                )

    @property
    def splittable(self) -> bool:
        return super().splittable and not self.multiline

    def produced_type(self) -> TypeInformation | None:
        return self.schema

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        source = LineSource(split, self.charset_name, strip_bom=True)
        try:
            return _CsvReader(self, source, errors)
        except BaseException:
            source.close()
            raise

    def reader(self, lines: Iterator[str]) -> Any:
        """Return a csv.reader with the format's settings."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote_char,
            escapechar=self.escape_char,
            quoting=csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            strict=True,
        )


class _CsvReader(SplitReader):
    def __init__(self, format_: CsvFormat, source: LineSource, errors: RecordErrors) -> None:
        self._format = format_
        self._source = source
        self._errors = errors
        header = self._read_header() if format_.header else None
        schema = None if format_.schema is None else unwrap(format_.schema)
        nulls = frozenset(format_.null_values)
        self._names: tuple[str, ...] | None = None
        if isinstance(schema, RowTypeInfo | TupleTypeInfo):
            types = [unwrap(part) for part in schema.field_types]
            self._parsers = [parser(part, nulls) for part in types]
            if isinstance(schema, RowTypeInfo):
                self._names = schema.field_names
            self._types: Sequence[TypeInformation | None] = types
            self._columns = self._find_columns(header, len(types))
        else:
            assert header is not None
            self._names = tuple(header)
            self._parsers = [null_parser(nulls) if nulls else None] * len(header)
            self._types = [None] * len(header)
            self._columns = list(range(len(header)))
        self._width = len(self._columns) if header is None else len(header)
        self._in_order = self._columns == list(range(self._width))
        self._plain = not any(self._parsers)
        self._getters = [operator.itemgetter(i) for i in self._columns]
        self.column_parsers = [column_parser(part, parse, nulls) for part, parse in zip(self._types, self._parsers, strict=True)]
        quote = format_.quote_char
        self._quote = None if quote is None else quote.encode(source.encoding)

    def _read_header(self) -> list[str]:
        path = self._source.path
        if self._source.at_file_start:
            self._source.take(1)
        line = self._source.first_line()
        if line is None:
            return list(self._names_of_schema())
        text = decode_lines([line], self._source.encoding)[0]
        if text is None:
            raise SourceError(f"{path}, line 1: the header is not text in the character set {self._source.encoding}")
        try:
            header: list[str] = next(self._format.reader(iter([text])), [])
        except csv.Error as error:
            raise SourceError(f"{path}, line 1: the header is not valid CSV: {error}") from error
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated and (self._format.schema is None or set(repeated) & set(self._names_of_schema())):
            raise SourceError(f"{path}, line 1: columns {repeated} stand more than once in the header {header}")
        return header

    def _names_of_schema(self) -> tuple[str, ...]:
        schema = None if self._format.schema is None else unwrap(self._format.schema)
        if isinstance(schema, TupleTypeInfo):
            return tuple(f"f{i}" for i in range(len(schema.field_types)))
        return schema.field_names if isinstance(schema, RowTypeInfo) else ()

    def _find_columns(self, header: list[str] | None, count: int) -> list[int]:
        path = self._source.path
        if header is None:
            return list(range(count))
        if self._names is None:
            if len(header) != count:
                raise SourceError(f"{path}, line 1: the schema has {count} columns, the header {len(header)}: {header}")
            return list(range(count))
        missing = [name for name in self._names if name not in header]
        if missing:
            raise SourceError(
                f"{path}, line 1: columns {missing} of the schema are missing; the header has {header}",
                hint="names must be equal in upper and lower case; is `delimiter` right, and is there a header at all?",
            )
        return [header.index(name) for name in self._names]

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
            if self._format.multiline:
                # What a field within quotes keeps.
                texts = [f"{text}\n" for text in texts]
            self._parse(texts, records, escaped)  # type: ignore[arg-type]
        return records

    def _is_plain(self, lines: list[bytes]) -> bool:
        """Whether each line is a record of its own, so far as one can tell without parsing."""
        if self._format.comment is not None or self._format.escape_char is not None:
            return False
        quote = self._quote
        return quote is None or not any(quote in line for line in lines)

    def _parse_plain(self, texts: list[str]) -> list[Any] | None:
        """Parse lines that are a record each, column by column, in a third of the time; None if there is anything wrong."""
        try:
            rows: list[list[str]] = [fields for fields in self._format.reader(iter(texts)) if fields]
        except csv.Error:
            return None
        width = self._width
        if any(len(fields) != width for fields in rows):
            return None
        try:
            columns = [
                list(map(getter, rows)) if parse is None else parse(list(map(getter, rows)))
                for getter, parse in zip(self._getters, self.column_parsers, strict=True)
            ]
        except (ValueError, ArithmeticError):
            return None
        if self._names is None:
            return list(zip(*columns, strict=True))
        names = self._names
        return [make_row(names, list(values)) for values in zip(*columns, strict=True)]

    def _parse(self, texts: list[str], records: list[Any], escaped: bool) -> None:
        """Parse lines that were taken last; takes more if the last one ends within quotes."""
        continued = [0]  # how many more lines were taken
        start = 0  # index of the line that the next record begins with
        count = len(texts)
        comment = self._format.comment
        while start < count:
            lines = chain(texts[start:], self._continue(continued) if self._format.multiline else ())
            reader = self._format.reader(lines)
            origin = start
            try:
                for fields in reader:
                    # Errors name the line that the record begins with.
                    if fields and not (comment is not None and texts[start].startswith(comment)):
                        back = count + continued[0] - start
                        record = self._record(fields, back, escaped)
                        if record is not None:
                            records.append(record)
                    start = origin + reader.line_num
                    if start >= count:
                        return
                return
            except csv.Error as error:
                if comment is None or not texts[start].startswith(comment):
                    self._bad(
                        f"not valid CSV: {error}",
                        "".join(texts[start : origin + reader.line_num]).rstrip("\r\n"),
                        count + continued[0] - start,
                        records,
                    )
                start = max(origin + reader.line_num, start + 1)

    def _continue(self, continued: list[int]) -> Iterator[str]:
        while more := self._source.take(1):
            continued[0] += 1
            text = decode_lines(more, self._source.encoding, strip=False)[0]
            yield f"{text if text is not None else _escape(more[0], self._source.encoding)}\n"

    def _record(self, fields: list[str], back: int, escaped: bool) -> Any:
        if len(fields) != self._width:
            return self._error(f"expected {self._width} fields", fields, back, f"{len(fields)}")
        if escaped and any(not _ESCAPED.isdisjoint(field) for field in fields):
            return self._error(f"the line is not text in the character set {self._source.encoding}", fields, back)
        picked = fields if self._in_order else [fields[i] for i in self._columns]
        if self._plain:
            values: list[Any] = picked
        else:
            try:
                values = [field if parse is None else parse(field) for parse, field in zip(self._parsers, picked, strict=True)]
            except (ValueError, ArithmeticError):
                return self._error(self._describe(picked), fields, back)
        if self._names is None:
            return tuple(values)
        return make_row(self._names, values)

    def _describe(self, fields: Sequence[str]) -> str:
        """Say which column is wrong."""
        for index, (parse, field) in enumerate(zip(self._parsers, fields, strict=True)):
            try:
                if parse is not None:
                    parse(field)
            except (ValueError, ArithmeticError):
                name = self._names[index] if self._names is not None else f"{index + 1}"
                return f"column {name!r} must be {self._types[index]!r}; got {field!r}"
        return "a column has a wrong value"

    def _error(self, reason: str, fields: Sequence[str], back: int, got: str | None = None) -> Any:
        return self._errors.handle(
            path=self._source.path,
            line=self._source.line_number(back),
            reason=reason if got is None else f"{reason}, found {got}",
            record=self._format.delimiter.join(fields),
        )

    def _bad(self, reason: str, record: str, back: int, records: list[Any]) -> None:
        result = self._errors.handle(path=self._source.path, line=self._source.line_number(back), reason=reason, record=record)
        if result is not None:
            records.append(result)

    def split(self) -> FileSourceSplit:
        return self._source.split()

    @property
    def finished(self) -> bool:
        return self._source.exhausted

    def close(self) -> None:
        self._source.close()


def _escape(line: bytes, encoding: str) -> str:
    """Return a line with what cannot be decoded replaced by single surrogates, so that its record can be told from the others."""
    try:
        return line.decode(encoding, "surrogateescape")
    except UnicodeDecodeError:  # encodings that cannot escape
        return line.decode(encoding, "replace") + "\udc80"
