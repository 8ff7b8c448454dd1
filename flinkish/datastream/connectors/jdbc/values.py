"""Conversion of records to rows of a database, and back.

A sink's record first becomes a plain row: a list of values of a few Python types that are the same for all databases, and that
state and checkpoints can store by their declared types. Then each value is converted to what the database's driver needs.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from types import GenericAlias
from typing import Any, Final

import msgspec

from flinkish.common.conversion import converter, lenient_converter
from flinkish.common.errors import InvalidProgramError, RecordRefusedError, SourceError, TypeMismatchError
from flinkish.common.kinds import Kind, fields_of, kind_of, plain_type, shape_of
from flinkish.common.time import Instant, datetime_of, instant_of, utc_time
from flinkish.common.typeinfo import (
    BasicType,
    DecimalTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from flinkish.common.types import Row, RowKind, make_row
from flinkish.program.refused_records import REFUSED_HINT

Convert = Callable[[Any], Any]
Rows = Sequence[Sequence[Any]]

#: The Python types of plain values, by the types of fields that a column of a database can hold.
_CLASSES: Final[dict[BasicType | Kind, type]] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BOOLEAN: bool,
    BasicType.BYTE: int,
    BasicType.SHORT: int,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    # MessagePack has no larger integers than those of 64 bits.
    BasicType.BIG_INT: Decimal,
    BasicType.BIG_DEC: Decimal,
    BasicType.INSTANT: datetime.datetime,
    Kind.DATE: datetime.date,
    Kind.TIME: datetime.time,
    Kind.TIMESTAMP: datetime.datetime,
    Kind.BYTES: bytes,
}


def row_fields(type_info: Any, what: str) -> tuple[tuple[str, ...], tuple[TypeInformation, ...]]:
    """Return the names and types of the fields of a row or tuple.

    Raises InvalidProgramError for other types, and for field types that no column can hold.
    """
    fields = fields_of(type_info) if isinstance(type_info, TypeInformation) else None
    if fields is None:
        raise InvalidProgramError(
            f"{what} needs the type of a row or tuple; got {type_info!r}",
            hint='Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]), for example.',
        )
    for name, field in zip(*fields, strict=True):
        if kind_of(field) not in _CLASSES:
            raise InvalidProgramError(
                f"{what}: field {name!r} of type {plain_type(field)!r} fits no column of a database",
                hint="convert it before the sink, or in the query of a source: to STRING, for example as JSON.",
            )
    return fields


def _with_microseconds(type_info: TypeInformation) -> TypeInformation:
    """Return the type of the same values whose converter does not cut times to milliseconds: databases hold microseconds."""
    match type_info:
        case TimestampTypeInfo():
            return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME)
        case TimeTypeInfo():
            return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME)
        case _:
            return type_info


class RowShape:
    """The fields of a sink's rows, and their conversion to plain rows and to a driver's values."""

    def __init__(self, type_info: TypeInformation, what: str) -> None:
        self._what = what
        #: The printed form of the type, by which stored rows are recognized.
        self.described = repr(type_info)
        self.names, self.types = row_fields(type_info, what)
        row = GenericAlias(tuple, tuple([_CLASSES[kind_of(field)] | None for field in self.types]))
        #: Convert plain rows to bytes, and back.
        self.encode: Callable[[Rows], bytes] = msgspec.msgpack.Encoder().encode
        self.decode: Callable[[bytes], list[tuple[Any, ...]]] = msgspec.msgpack.Decoder(GenericAlias(list, (row,))).decode

    def reader(self, input_type: TypeInformation, dialect: str, *, deletions: bool) -> Callable[[Any], Sequence[Any]]:
        """Return the function that converts records of a stream of this type to plain rows.

        `deletions`: whether rows of the kinds DELETE and UPDATE_BEFORE are allowed. The function raises TypeMismatchError for
        records that do not match the type, and RecordRefusedError for values that a database of the dialect cannot hold.
        """
        checked = shape_of(input_type)[1] == self.types
        converts = [
            _both(
                _both(None if checked else converter(_with_microseconds(field)), _PLAIN_CONVERTS.get(kind_of(field))),
                _holdable(field, dialect, f"{self._what}: field {name!r}"),
            )
            for name, field in zip(self.names, map(plain_type, self.types), strict=True)
        ]
        count, what, names = len(self.types), self._what, self.names
        needed = [(i, convert) for i, convert in enumerate(converts) if convert is not None]
        removed = () if deletions else (RowKind.DELETE, RowKind.UPDATE_BEFORE)

        def values_of(record: Any) -> Sequence[Any]:
            if isinstance(record, Row):
                if record._row_kind in removed:
                    raise TypeMismatchError(
                        f"{what}: a row of kind {record._row_kind.name} came, which the statement would write as if it were new",
                        hint="filter rows of kind UPDATE_BEFORE; map those of kind DELETE to rows of kind INSERT with a column "
                        "that marks them as deleted. A second sink with a DELETE statement would have no order with this one.",
                    )
                values: Sequence[Any] = record._values
            elif isinstance(record, tuple):
                values = record
            else:
                raise TypeMismatchError(f"{what} writes rows and tuples; got {record!r} of type {type(record).__name__}")
            if len(values) != count:
                raise TypeMismatchError(f"{what}: a record of {len(values)} fields came; expected {count}: {record!r}")
            if not needed:
                return values
            values = list(values)
            for i, convert in needed:
                value = values[i]
                if value is not None:
                    try:
                        values[i] = convert(value)
                    except (TypeMismatchError, OverflowError, ValueError) as error:
                        raise TypeMismatchError(f"{what}: field {names[i]!r}: {error}") from error
            return values

        return values_of

    def binder(self, dialect: str) -> Callable[[Rows], list[Sequence[Any]]]:
        """Return the function that converts plain rows to the values that the database's driver needs."""
        needed = [
            (i, convert)
            for i, field in enumerate(self.types)
            if (convert := _bound(field, dialect, f"{self._what}: field {self.names[i]!r}")) is not None
        ]
        if not needed:
            return lambda rows: [tuple(row) for row in rows]

        def bind(rows: Rows) -> list[Sequence[Any]]:
            bound = [list(row) for row in rows]
            for i, convert in needed:
                for row in bound:
                    if row[i] is not None:
                        row[i] = convert(row[i])
            return [tuple(row) for row in bound]

        return bind


def _both(first: Convert | None, second: Convert | None) -> Convert | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


_PLAIN_CONVERTS: Final[dict[BasicType | Kind, Convert]] = {
    BasicType.BIG_INT: Decimal,
    BasicType.INSTANT: datetime_of,
}


def _holdable(type_info: TypeInformation, dialect: str, what: str) -> Convert | None:
    """Return the function that raises RecordRefusedError for a plain value that no column of the database can hold.

    It returns all other values. None if every value can be held, as far as that is known without the database.
    """
    kind = kind_of(type_info)
    plain = _CLASSES[kind]
    mysql = dialect in ("mysql", "mariadb")

    def refused(why: str) -> RecordRefusedError:
        return RecordRefusedError(f"{what} {why}", hint=f"change such records before the sink, or {REFUSED_HINT}")

    def text(value: str) -> str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise refused(f"is text with a lone surrogate, which has no UTF-8: {value!r}") from None
        if dialect == "postgresql" and "\0" in value:
            raise refused(f"is text with a NUL character, which PostgreSQL cannot store: {value!r}")
        return value

    def number(value: float) -> float:
        if math.isnan(value) or (mysql and math.isinf(value)):
            what_happens = "MySQL cannot store" if mysql else "SQLite would store as NULL"
            raise refused(f"is {'NaN' if math.isnan(value) else value}, which {what_happens}")
        return value

    def integer(value: Decimal) -> Decimal:
        if not -(1 << 63) <= value < 1 << 63:
            raise refused(f"is {value}, which is outside the 64 bits of an integer in SQLite")
        return value

    def decimal(value: Decimal) -> Decimal:
        if not value.is_finite():
            raise refused(f"is {value}, which MySQL cannot store")
        return value

    if plain is str:
        return text
    if plain is float and (mysql or dialect == "sqlite"):
        return number
    if plain is Decimal and mysql:
        return decimal
    return integer if dialect == "sqlite" and kind is BasicType.BIG_INT else None


def _bound(type_info: TypeInformation, dialect: str, what: str) -> Convert | None:
    """Return the function that converts a field's plain values for the driver; None if they stay the same."""
    kind = kind_of(type_info)
    if kind is BasicType.BIG_INT:
        return int
    if dialect != "sqlite":
        return utc_time if kind is BasicType.INSTANT and dialect != "postgresql" else None
    plain = _CLASSES[kind]
    # A checkpoint of a sink that had another database may hold NaN.
    return _holdable(type_info, dialect, what) if plain is float else _SQLITE.get(plain)


#: SQLite has no such types; SQLAlchemy stores and reads the same texts.
_SQLITE: Final[dict[type, Convert]] = {
    Decimal: str,
    datetime.date: datetime.date.isoformat,
    datetime.time: lambda value: value.isoformat("microseconds"),
    datetime.datetime: lambda value: utc_time(value).isoformat(" ", "microseconds"),
}


_ERRORS: Final = (TypeMismatchError, ValueError, TypeError, OverflowError, InvalidOperation)


def rows_from(
    names: tuple[str, ...], types: tuple[TypeInformation, ...], what: str
) -> Callable[[Sequence[Sequence[Any]]], list[Row]]:
    """Return the function that converts a database's rows to records.

    It raises SourceError, which names the column and the value, if a value does not have its declared type.
    """
    needed = [(i, convert) for i, field in enumerate(types) if (convert := _field(plain_type(field))) is not None]

    def make(rows: Sequence[Sequence[Any]]) -> list[Row]:
        made = [list(row) for row in rows]
        for i, convert in needed:
            for row in made:
                value = row[i]
                if value is not None:
                    try:
                        row[i] = convert(value)
                    except _ERRORS as error:
                        raise SourceError(
                            f"JdbcSource: {what}: column {names[i]!r} is declared {types[i]!r} and holds {value!r} of type "
                            f"{type(value).__name__}: {error}",
                            hint="declare the type that the database has, or cast the column in a query.",
                        ) from error
        return [make_row(names, row, RowKind.INSERT) for row in made]

    return make


def _field(type_info: TypeInformation) -> Convert | None:
    """Return the function that converts a driver's values of a column to the declared type; None if they stay the same."""
    convert = _both(_FROM_DRIVER.get(kind_of(type_info)), lenient_converter(_with_microseconds(type_info)))
    if isinstance(type_info, DecimalTypeInfo):
        return _both(convert, lambda value: _exactly(type_info, value))
    return convert


def _instant(value: Any) -> Instant:
    moment = _timestamp(value)
    if not isinstance(moment, datetime.datetime):
        raise TypeError("no timestamp")
    return instant_of(moment)


def _big_integer(value: Any) -> Any:
    # A column of type TEXT, which SQLite needs for more than 64 bits, has numbers as text.
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value) else value


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, uuid.UUID) else value


def _float(value: Any) -> Any:
    if isinstance(value, Decimal) and value.is_finite() and math.isinf(value):
        raise OverflowError("too large for a float")
    return value


def _exactly(type_info: DecimalTypeInfo, number: Decimal) -> Decimal:
    try:
        if type_info.rounded(number) == number:
            return number
    except InvalidOperation:
        pass  # too many digits
    raise ValueError(f"a {type_info} cannot hold it")


def _date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise TypeError("a timestamp, not a date")
    return datetime.date.fromisoformat(value) if isinstance(value, str) else value


def _time(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):  # MySQL
        if not datetime.timedelta(0) <= value < datetime.timedelta(days=1):
            raise ValueError("not a time of day")
        return (datetime.datetime.min + value).time()
    return datetime.time.fromisoformat(value) if isinstance(value, str) else value


def _timestamp(value: Any) -> Any:
    return datetime.datetime.fromisoformat(value) if isinstance(value, str) else value


#: What the converters for elements of collections do not take: texts of SQLite, and Python types that drivers choose.
_FROM_DRIVER: Final[dict[BasicType | Kind, Convert]] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _text,
    BasicType.FLOAT: _float,
    BasicType.DOUBLE: _float,
    BasicType.BIG_INT: _big_integer,
    BasicType.INSTANT: _instant,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
}
