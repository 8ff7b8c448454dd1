"""The syntax of CSV, and the conversion of fields to their declared types."""

from __future__ import annotations

import base64
import csv
import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, range_check, shape_of
from flinkish.common.limits import one_character, to_float32
from flinkish.common.time import Instant, instant_of, utc_time, without_zone
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, PrimitiveArrayTypeInfo, TypeInformation
from flinkish.common.types import make_row

#: Maximum number of characters in a field, as with Jackson; Python's limit is 128 Ki, for the whole process.
LONGEST_FIELD: Final = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """The characters with a special meaning."""

    delimiter: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    #: First character of comment lines.
    comment: str | None = None
    null_values: Sequence[str] = ()

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

    def reader(self, lines: Iterable[str]) -> Any:
        """Return a csv.reader of lines, which raises csv.Error."""
        if csv.field_size_limit() < LONGEST_FIELD:
            csv.field_size_limit(LONGEST_FIELD)
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote_char,
            escapechar=self.escape_char,
            quoting=csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            strict=True,
        )

    def is_comment(self, line: str) -> bool:
        """Return whether a line is a comment; blanks may precede the character."""
        return self.comment is not None and line.lstrip(" \t").startswith(self.comment)


#: Default separator of the elements of an array or nested row.
ARRAY_SEPARATOR: Final = ";"

Parse = Callable[[str], Any]


def row_parsers(
    names: Sequence[str], types: Iterable[TypeInformation], dialect: CsvDialect, separators: Sequence[str]
) -> list[Parse | None]:
    """Return the function for each column that converts a field's text to a value; None if the text itself is the value.

    A function raises ValueError or ArithmeticError. An array or nested row is in one field, with the column's separator between
    its elements (no separators = ';' for all columns). Raises InvalidProgramError, which names the column, for types that cannot
    be read from CSV.
    """
    nulls = frozenset(dialect.null_values)
    own = separators or [ARRAY_SEPARATOR] * len(names)
    return [_parser(plain_type(part), nulls, each, name) for part, each, name in zip(types, own, names, strict=True)]


def _parser(type_info: TypeInformation, nulls: frozenset[str], separator: str, column: str) -> Parse | None:
    kind, types = shape_of(type_info)
    match kind:
        case Kind.BYTES:
            return lambda text: None if text in nulls and text else base64.b64decode(text, validate=True)
        case Kind.LIST:
            element = _simple_parser(types[0], separator, column)
            return _array_parser(element, nulls, separator, isinstance(type_info, PrimitiveArrayTypeInfo))
        case Kind.ROW:
            return _row_parser(
                part_names(type_info), [_simple_parser(part, separator, column) for part in types], nulls, separator
            )
        case BasicType.STRING:
            return (lambda text: None if text in nulls else text) if nulls else None
    if kind not in _PARSERS:
        raise InvalidProgramError(
            f"column {column!r} of type {type_info!r} cannot be read from CSV",
            hint="declare it as STRING and convert it in a map().",
        )
    parse = _PARSERS[kind]
    if isinstance(type_info, DecimalTypeInfo):
        rounded = type_info.rounded
        parse = lambda text: rounded(parse_decimal(text))  # noqa: E731
    empty = nulls | {""}
    return lambda text: None if text in empty else parse(text)


def _simple_parser(type_info: TypeInformation, separator: str, column: str) -> Parse:
    type_info = plain_type(type_info)
    if kind_of(type_info) not in (BasicType.STRING, *_PARSERS):
        raise InvalidProgramError(
            f"column {column!r} cannot be read from CSV: its elements are {type_info!r}, but only simple types can be nested",
            hint="declare it as STRING and convert it in a map().",
        )
    return _parser(type_info, frozenset(), separator, column) or str


def _array_parser(element: Parse, nulls: frozenset[str], separator: str, primitive: bool) -> Parse:
    def parse(text: str) -> Any:
        if not text:
            return []
        if text in nulls:
            return None
        values = list(map(element, text.split(separator)))
        if primitive and None in values:
            raise ValueError(text)
        return values

    return parse


def _row_parser(names: tuple[str, ...], parts: list[Parse], nulls: frozenset[str], separator: str) -> Parse:
    def parse(text: str) -> Any:
        if not text or text in nulls:
            return None
        fields = text.split(separator)
        if len(fields) != len(parts):
            raise ValueError(text)
        return make_row(names, [one(field) for one, field in zip(parts, fields, strict=True)])

    return parse


#: Numbers of integer types with this many digits (and a sign) always fit.
_SAFE_DIGITS: Final[dict[BasicType | Kind, int]] = {BasicType.BYTE: 2, BasicType.SHORT: 4, BasicType.INT: 9, BasicType.LONG: 18}
#: Functions that read most fields as `_PARSERS` do, but faster.
_FAST: Final[dict[BasicType | Kind, Parse]] = {
    **dict.fromkeys(_SAFE_DIGITS, int),
    BasicType.DOUBLE: float,
    Kind.DATE: datetime.date.fromisoformat,
}

ParseColumn = Callable[[list[str]], list[Any]]


def column_parser(type_info: TypeInformation, parse: Parse | None, nulls: frozenset[str]) -> ParseColumn | None:
    """Return a function that applies `parse` to all fields of a column at once, without a call for each if possible."""
    if parse is None:
        return None
    kind = kind_of(type_info)
    fast, digits = _FAST.get(kind), _SAFE_DIGITS.get(kind)
    empty = nulls | {""}
    if fast is None:
        return lambda texts: list(map(parse, texts))

    def parse_column(texts: list[str]) -> list[Any]:
        # Python's functions accept 1_000, integers of any size, and 1e400.
        if "_" in "".join(texts) or (digits is not None and max(map(len, texts), default=0) > digits):
            return list(map(parse, texts))
        values = [None if text in empty else fast(text) for text in texts]
        if fast is float and (math.inf in values or -math.inf in values):
            return list(map(parse, texts))
        return values

    return parse_column


_DIGIT: Final = re.compile(r"\d")


def _int_parser(kind: BasicType | Kind) -> Parse:
    in_range = range_check(kind)

    def parse(text: str) -> int:
        if "_" in text:  # Python's int() accepts 1_000
            raise ValueError(text)
        return in_range(int(text))

    return parse


def parse_float(text: str) -> float:
    """Return the float for a text; raise ValueError for other texts, and OverflowError for a number that is too large."""
    if "_" in text:
        raise ValueError(text)
    value = float(text)
    if math.isinf(value) and _DIGIT.search(text):  # 1e400, not the word
        raise OverflowError(text)
    return value


def parse_decimal(text: str) -> decimal.Decimal:
    """Return the Decimal for a text; raise ValueError for other texts and, as in Java, for NaN and infinity."""
    value = decimal.Decimal(text)
    if "_" in text or not value.is_finite():
        raise ValueError(text)
    return value


def parse_time(text: str) -> datetime.time:
    """Return a time of day; raise ValueError for other texts, and for a zone other than UTC."""
    return without_zone(datetime.time.fromisoformat(text))


def _parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "1", "false", "0"):
        raise ValueError(text)
    return word in ("true", "1")


def parse_timestamp(text: str) -> datetime.datetime:
    """Return a time without zone, in microseconds; a time with a zone is converted to UTC. Raises ValueError."""
    return utc_time(datetime.datetime.fromisoformat(text))


#: Matches more decimals of a second than Python can read.
_FINER: Final = re.compile(r"[.,]\d{6}(\d+)")


def parse_instant(text: str) -> Instant:
    """Return the Instant for ISO 8601 text, with nanoseconds, in UTC if it has no zone. Raises ValueError."""
    value = datetime.datetime.fromisoformat(text)
    finer = _FINER.search(text)
    nanos = finer.group(1) if finer else ""
    if len(nanos) > 3:
        raise ValueError(text)
    moment = instant_of(value)
    return Instant(moment.seconds, moment.nanos + int(nanos.ljust(3, "0")))


_PARSERS: Final[dict[BasicType | Kind, Parse]] = {
    **{kind: _int_parser(kind) for kind in (BasicType.BIG_INT, *INTEGER_BITS)},
    BasicType.CHAR: one_character,
    BasicType.BOOLEAN: _parse_boolean,
    BasicType.FLOAT: lambda text: to_float32(parse_float(text)),
    BasicType.DOUBLE: parse_float,
    BasicType.BIG_DEC: parse_decimal,
    BasicType.INSTANT: parse_instant,
    Kind.DATE: datetime.date.fromisoformat,
    Kind.TIME: parse_time,
    Kind.TIMESTAMP: parse_timestamp,
}
