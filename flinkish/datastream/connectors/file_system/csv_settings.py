"""The syntax and the columns of CSV files, as plain data for readers and writers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.kinds import Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.typeinfo import TypeInformation

#: Maximum number of characters in a field, as with Jackson; Python's limit is 128 Ki, for the whole process.
_LONGEST_FIELD: Final = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """The characters with a special meaning."""

    delimiter: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    #: First character of comment lines.
    comment: str | None = None
    null_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote_char", "escape_char", "comment"):
            value = getattr(self, name)
            optional = name != "delimiter"
            if not ((optional and value is None) or (isinstance(value, str) and len(value) == 1 and value not in "\r\n")):
                raise InvalidArgumentError(
                    f"{name} of the CSV format must be one character{' or None' if optional else ''}; got {value!r}"
                )
        if isinstance(self.null_values, str) or not all(isinstance(value, str) for value in self.null_values):
            raise InvalidArgumentError(f"null_values of the CSV format must be texts; got {self.null_values!r}")

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Return a csv.reader of lines, which raises csv.Error."""
        if csv.field_size_limit() < _LONGEST_FIELD:
            csv.field_size_limit(_LONGEST_FIELD)
        reader: Any = csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote_char,
            escapechar=self.escape_char,
            quoting=csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            strict=True,
        )
        return reader  # type: ignore[no-any-return]

    def is_comment(self, line: str) -> bool:
        """Return whether a line is a comment; blanks may precede the character."""
        return self.comment is not None and line.lstrip(" \t").startswith(self.comment)


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


#: Default separator of the elements of an array or nested row.
ARRAY_SEPARATOR = ";"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvSettings:
    """All settings of a reader of CSV files."""

    dialect: CsvDialect
    #: ROW_NAMED, ROW or TUPLE; None = rows of text with the names of the header.
    schema: TypeInformation | None
    header: HeaderUse
    #: Whether the line after the header, or the first one without a header, is skipped.
    skip_first_row: bool = False
    #: Whether a line may have more fields than columns; surplus fields are ignored.
    extra_fields: bool = False
    #: Whether quoted fields may contain line feeds.
    multiline: bool = True
    #: Separators of array elements by column; empty = the default for all columns.
    separators: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns: f0, f1, ... for a tuple; none without a schema."""
        return () if self.schema is None else part_names(self.schema)

    @property
    def types(self) -> tuple[TypeInformation, ...]:
        """The types of the columns; none without a schema."""
        return () if self.schema is None else tuple(map(plain_type, shape_of(self.schema)[1]))

    @property
    def is_tuple(self) -> bool:
        """Whether records are tuples, so that columns have no names."""
        return self.schema is not None and kind_of(self.schema) is Kind.TUPLE

    def separator(self, index: int) -> str:
        """Return the separator of the elements of a column."""
        return self.separators[index] if self.separators else ARRAY_SEPARATOR

    def check(self) -> None:
        """Raise an error for a schema that cannot be read."""
        from flinkish.datastream.connectors.file_system.csv_values import parser

        if self.schema is None:
            if self.header is HeaderUse.NONE:
                raise InvalidProgramError(
                    "a CSV format without a header needs a schema", hint="give Types.ROW_NAMED(names, types)."
                )
            return
        if kind_of(self.schema) not in (Kind.ROW, Kind.TUPLE):
            raise InvalidArgumentError(f"schema of the CSV format must be ROW_NAMED, ROW or TUPLE; got {self.schema!r}")
        for index, (name, part) in enumerate(zip(self.names, self.types, strict=True)):
            parser(part, frozenset(), separator=self.separator(index), column=name)
