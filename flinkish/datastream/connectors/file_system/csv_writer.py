"""The writer of CSV: lines of rows, and files of lines.

Source of the rules for quotes and texts: Jackson's CsvEncoder, as Flink uses it. A text is quoted if it is longer than 24
characters, contains a backslash, or contains a character up to the highest one with a special meaning (so also for blanks).
"""

from __future__ import annotations

import base64
import datetime
import decimal
import operator
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from flinkish.common.arrow_types import appended_values, bytes_of, values_of
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, range_check, shape_of
from flinkish.common.limits import one_character
from flinkish.common.text import text_function
from flinkish.common.time import utc_time, without_zone
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, RowTypeInfo, TimestampTypeInfo, TypeInformation
from flinkish.datastream.connectors.file_system.csv_values import CsvDialect
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriter, BulkPartWriterFactory

Text = Callable[[Any], str]

_EPOCH: Final = datetime.datetime(1970, 1, 1)

#: Longer texts are always quoted.
_LONGEST_UNQUOTED: Final = 24
#: The characters of numbers and booleans, NaN and Infinity.
_IN_NUMBERS: Final = frozenset("+-.0123456789EINaefilnrstuy")
#: The byte order mark, which readers skip at the beginning of a file.
_MARK: Final = "\ufeff"


class CsvLines:
    """Formats the values of rows as lines."""

    def __init__(self, row_type: RowTypeInfo, dialect: CsvDialect, line_separator: str, separators: Sequence[str]) -> None:
        """`separators`: separators of the elements of arrays and nested rows, by column.

        Raises InvalidProgramError for types that cannot be written as CSV.
        """
        self._names = row_type.field_names
        self._dialect = dialect
        self._line_separator = line_separator
        self._types = [plain_type(part) for part in row_type.field_types]
        meant = [dialect.delimiter, dialect.quote_char or "", "\r\n", line_separator]
        highest = max(map(ord, "".join(meant)))
        others = re.escape(f"{dialect.escape_char or ''}{dialect.comment or ''}")
        self._needs_quotes = re.compile(f"[\\x00-{re.escape(chr(highest))}\\\\{others}]").search
        #: Finds the characters that a field without quotes cannot contain. The one of comments can be in a field, but not first.
        special = {*"".join(meant), dialect.escape_char or "", (dialect.escape_char and dialect.comment) or ""}
        self._special = re.compile("|".join(re.escape(part) for part in special if part))
        #: Whether numbers and booleans contain no character with a meaning.
        self._plain_numbers = _IN_NUMBERS.isdisjoint("".join(special))
        self._texts = list(map(self._column, self._types, separators, self._names))
        null = dialect.null_values[0] if dialect.null_values else ""
        try:
            self._null = self._protected(null)
            #: The fields that no value may have, as they are read as None.
            self._nulls = frozenset({self._null, self._quoted(null)} if null else ())
        except ValueError as error:
            raise InvalidProgramError(f"the null value of CSV files cannot be written: {error}") from error

    def line(self, values: Sequence[Any]) -> str:
        """Return the line of a row; raise TypeMismatchError, which names the column, for a value that cannot be written."""
        fields = []
        nulls = self._nulls
        for index, value in enumerate(values):
            if value is None:
                fields.append(self._null)
                continue
            try:
                field = self._texts[index](value)
                if nulls and field in nulls:
                    raise ValueError(f"it would be read as None, as {self._dialect.null_values[0]!r} is the null value")
                fields.append(field)
            except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
                raise TypeMismatchError(
                    f"column {self._names[index]!r} is {self._types[index]!r}; {value!r} of type {type(value).__name__} "
                    f"cannot be written as CSV: {error}"
                ) from error
        return self._checked_line(fields, values)

    def _checked_line(self, fields: list[str], values: Sequence[Any]) -> str:
        """Return the line for fields; raise TypeMismatchError if readers would skip the line, or a part of it."""
        if fields == [""]:
            # Readers skip empty lines.
            quote = self._dialect.quote_char
            if quote is None:
                raise TypeMismatchError(
                    f"column {self._names[0]!r} is the only one, without a quote_char: {values[0]!r} would be an empty line, "
                    "which is left out when it is read"
                )
            fields = [quote + quote]
        line = self._dialect.delimiter.join(fields) + self._line_separator
        if line.startswith(_MARK):
            # There is no quote_char.
            if self._dialect.escape_char is None:
                raise TypeMismatchError(
                    f"the row {tuple(values)!r} begins with U+FEFF, which is left out at the beginning of a file when it is "
                    "read, but neither quote_char nor escape_char is set"
                )
            line = self._dialect.escape_char + line
        if self._dialect.comment is not None and self._dialect.is_comment(line):
            raise TypeMismatchError(
                f"the row {tuple(values)!r} would be a comment, which is left out when it is read: its line begins with "
                f"{self._dialect.comment!r}"
            )
        return line

    def header(self) -> str:
        line = self._dialect.delimiter.join(map(self._quoted, self._names)) + self._line_separator
        if self._dialect.is_comment(line):
            raise ValueError(f"it would be a comment, as it begins with {self._dialect.comment!r}")
        return line

    def _column(self, type_info: TypeInformation, separator: str, name: str) -> Text:
        quoted = self._quoted
        kind, types = shape_of(type_info)
        match kind:
            case Kind.BYTES:
                text: Text = lambda value: base64.b64encode(bytes_of(value)).decode("ascii")  # noqa: E731
            case Kind.LIST:
                element = _simple_text(types[0], name)
                text = lambda values: _joined([element] * len(values), values, separator)  # noqa: E731
            case Kind.ROW:
                parts = [_simple_text(part, name) for part in types]
                names = part_names(type_info)
                text = lambda row: _joined(parts, values_of(row, names), separator)  # noqa: E731
            case BasicType() if kind not in (BasicType.STRING, BasicType.CHAR, BasicType.INSTANT):
                text = _simple_text(type_info, name)
                return text if self._plain_numbers else lambda value: self._protected(text(value))
            case _:
                text = _simple_text(type_info, name)
        return lambda value: quoted(text(value))

    def _protected(self, text: str) -> str:
        """Return a text in quotes, or with escapes, only if it could not be read otherwise."""
        return self._quoted(text) if self._special.search(text) or text.startswith(_MARK) else text

    def _quoted(self, text: str) -> str:
        quote, escape = self._dialect.quote_char, self._dialect.escape_char
        if quote is None:
            if not self._special.search(text):
                return text
            if escape is None:
                raise ValueError(f"{text!r} holds a character that has a meaning, but neither quote_char nor escape_char is set")
            return self._special.sub(lambda found: escape + found.group(), text)
        if len(text) <= _LONGEST_UNQUOTED and not self._needs_quotes(text) and not text.startswith(_MARK):
            return text
        if escape is not None:
            text = text.replace(escape, escape + escape)
        return f"{quote}{text.replace(quote, quote + quote)}{quote}"


def _joined(texts: Sequence[Text], values: Sequence[Any], separator: str) -> str:
    if isinstance(values, str | bytes):
        raise TypeError("a text is no array")
    parts = ["" if value is None else text(value) for text, value in zip(texts, values, strict=True)]
    if parts == [""]:
        raise ValueError("an array of one empty element would be read as an empty array")
    if len(parts) > 1 or separator in "".join(parts):
        for part in parts:
            if separator in part:
                raise ValueError(f"the element {part!r} holds the separator {separator!r}")
    return separator.join(parts)


def _simple_text(type_info: TypeInformation, column: str) -> Text:
    """Return the text function for a simple type, alone or in an array; raise InvalidProgramError for other types."""
    type_info = plain_type(type_info)
    kind = kind_of(type_info)
    if isinstance(type_info, DecimalTypeInfo):
        rounded = type_info.rounded
        return lambda value: f"{rounded(value):f}"
    if kind in _TEXTS:
        return _TEXTS[kind]
    text = text_function(type_info)
    match kind:
        case BasicType.BOOLEAN:
            return _text_of(bool, text)
        case BasicType.FLOAT | BasicType.DOUBLE:
            return _text_of((float, int), text)
        case Kind.TIMESTAMP:
            return lambda value: text(utc_time(value))
        case Kind.DATE:
            return text
        case _:
            raise InvalidProgramError(
                f"column {column!r}: {type_info!r} cannot be written as CSV here; only simple types, and arrays and rows of them",
                hint="convert it before the sink, for example to STRING.",
            )


def _text_of(classes: type | tuple[type, ...], text: Text) -> Text:
    """Return a text function that accepts certain classes only, as values of other classes would get a wrong text."""

    def checked(value: Any) -> str:
        if not isinstance(value, classes):
            raise TypeError("it has another type")
        return text(value)

    return checked


def _integer_text(kind: BasicType | Kind) -> Text:
    in_range = range_check(kind)
    return lambda value: str(in_range(operator.index(value)))


def _moment(seconds: int, nanos: int) -> str:
    """Format a point in time as Flink writes it to CSV: `1970-01-01 00:00:01.5Z`."""
    text = text_function(TimestampTypeInfo())(_EPOCH + datetime.timedelta(seconds=seconds))
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{text.removesuffix('.0')}{fraction}Z"


def _decimal(value: Any) -> str:
    if not isinstance(value, decimal.Decimal | int) or not decimal.Decimal(value).is_finite():
        raise TypeError("it must be a Decimal that is a number")
    return f"{value:f}" if isinstance(value, decimal.Decimal) else str(int(value))


_TEXTS: Final[dict[BasicType | Kind, Text]] = {
    **{kind: _integer_text(kind) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.BIG_DEC: _decimal,
    BasicType.INSTANT: lambda value: _moment(value.seconds, value.nanos),
    BasicType.STRING: _text_of(str, str),
    BasicType.CHAR: _text_of(str, one_character),
    Kind.TIME: lambda value: without_zone(value).isoformat(),
}


class CsvWriterFactory(BulkPartWriterFactory):
    """Writer factory of CSV files of rows, with or without a header."""

    def __init__(
        self, row_type: RowTypeInfo, dialect: CsvDialect, line_separator: str, separators: Sequence[str], *, header: bool
    ) -> None:
        self._row_type = row_type
        self._make_lines = partial(CsvLines, row_type, dialect, line_separator, separators)
        lines = self._make_lines()
        try:
            self._header = lines.header().encode() if header else b""
        except ValueError as error:
            raise InvalidProgramError(f"the header of CSV files cannot be written: {error}") from error
        self.joinable = not header

    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        return _CsvPartWriter(self._row_type.field_names, self._make_lines(), self._header)

    def merge(self, paths: Sequence[str], target: str) -> None:
        with open(target, "xb") as output:
            output.write(self._header)
            for path in paths:
                with open(path, "rb") as source:
                    source.seek(len(self._header))
                    shutil.copyfileobj(source, output)


class _CsvPartWriter(BulkPartWriter):
    def __init__(self, names: tuple[str, ...], lines: CsvLines, header: bytes) -> None:
        self._lines = lines
        self._header = header
        self.check = lambda row: appended_values(row, names)

    def encode(self, values: Sequence[Any]) -> bytes:
        return "".join(map(self._lines.line, values)).encode()

    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        with open(path, "xb") as file:
            file.write(self._header)
            file.writelines(chunks)
