"""Conversions between our types and Arrow's types, for Parquet files and Delta tables.

Times: SQL_TIMESTAMP is a time without zone. Delta tables of protocol (1, 2) only store points in time, so there it is stored in
UTC (`zoned`), as Spark reads it with spark.sql.session.timeZone=UTC. Numbers: BIG_INT is decimal(38, 0), BIG_DEC decimal(38, 18),
as in Flink's Table API; a value that does not fit is an error. DECIMAL(p, s) is decimal(p, s).
Files of Flink and Hive store times without zone as points in time. With `local` they are read and written in the machine's zone.
"""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common.conversion import nullable, same
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError, TypeMismatchError, without_hint
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.limits import one_character, to_float32
from flinkish.common.time import Instant, instant_of, utc_time, without_zone
from flinkish.common.typeinfo import (
    BasicType,
    DecimalTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)
from flinkish.common.types import Row, RowKind, make_row

Convert = Callable[[Any], Any]

_SIMPLE: dict[BasicType | Kind, pa.DataType] = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.BIG_INT: pa.decimal128(38, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),
    BasicType.INSTANT: pa.timestamp("us", "UTC"),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.BYTES: pa.binary(),
}


def arrow_type(type_info: TypeInformation, what: str, *, zoned: bool, time_of_day: bool = True) -> pa.DataType:
    """Return the Arrow type for a type; `what` names the column in the error.

    `zoned`: SQL_TIMESTAMP becomes a point in time (UTC). `time_of_day`: whether SQL_TIME may be stored.
    Raises InvalidProgramError for types that tables cannot store.
    """
    type_info = plain_type(type_info)
    kind, types = shape_of(type_info)
    names = part_names(type_info)
    parts = [
        arrow_type(part, f"{what}.{name}", zoned=zoned, time_of_day=time_of_day) for name, part in zip(names, types, strict=True)
    ]
    match kind:
        case Kind.LIST:
            return pa.list_(*parts)
        case Kind.MAP:
            return pa.map_(*parts)
        case Kind.ROW | Kind.TUPLE:
            return pa.struct(list(zip(names, parts, strict=True)))
        case Kind.TIMESTAMP if zoned:
            return _SIMPLE[BasicType.INSTANT]
        case BasicType.BIG_DEC if isinstance(type_info, DecimalTypeInfo):
            return pa.decimal128(type_info.precision, type_info.scale)
        case _ if kind in _SIMPLE and (time_of_day or kind is not Kind.TIME):
            return _SIMPLE[kind]
        case _:
            raise InvalidProgramError(
                f"{what} of type {type_info!r} cannot be stored in a table",
                hint="convert it before the sink, for example to STRING, and give the operator an output_type.",
            )


def _rounding(type_info: TypeInformation) -> Convert | None:
    """Return the function that rounds decimals to the scale of a type; None if it has no scale."""
    type_info = plain_type(type_info)
    if not isinstance(type_info, DecimalTypeInfo):
        return None
    rounded = type_info.rounded
    return lambda value: rounded(decimal.Decimal(value))


def stored_key(type_info: TypeInformation) -> Convert | None:
    """Return the function that makes keys equal if they are stored as the same value; None if equal keys are stored so.

    A column has microseconds, and the digits of its type. Values that no column can hold are returned as they are.
    """
    convert = _rounding(type_info) or _STORED_KEYS.get(kind_of(type_info))
    if convert is None:
        return None

    def stored(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            return value

    return stored


def bytes_of(value: Any) -> bytes:
    """Return the bytes of a bytes-like value; raise TypeError or ValueError for others.

    Python itself makes five zeros of bytes(5), and bytes of the keys of a dict.
    """
    if isinstance(value, int | dict):
        raise TypeError(f"a value of type {type(value).__name__} is no bytes")
    return bytes(value)


#: The valid classes of values by kind, where Arrow would silently change other values: it cuts off the decimals of floats, and
#: reads an int as days or microseconds, a text as a list of its letters, and a dict as a list of its keys.
_TAKEN: dict[BasicType | Kind, Callable[[type], bool]] = {
    **dict.fromkeys(INTEGER_BITS, lambda cls: hasattr(cls, "__index__")),
    **dict.fromkeys((BasicType.STRING, BasicType.CHAR), lambda cls: issubclass(cls, str)),
    **dict.fromkeys((Kind.DATE, Kind.TIME, Kind.TIMESTAMP), lambda cls: issubclass(cls, datetime.date | datetime.time)),
    Kind.LIST: lambda cls: not issubclass(cls, str | bytes | bytearray | dict),
}


def _nested_converter(type_info: TypeInformation, local: bool) -> Convert | None:
    """Return the function for nested values, which also refuses values of another type."""
    convert, taken = _write_converter(type_info, local), _TAKEN.get(kind_of(type_info))
    if taken is None:
        return convert

    def check(value: Any) -> Any:
        if value is not None and not taken(value.__class__):
            raise TypeError(f"{value!r} of type {type(value).__name__} is no {type_info!r}")
        return value if convert is None else convert(value)

    return check


def _write_converter(type_info: TypeInformation, local: bool) -> Convert | None:
    """Return the function that converts values of a type for Arrow; None if no conversion is needed."""
    kind, types = shape_of(type_info)
    parts = [_nested_converter(part, local) for part in types]
    convert: Convert | None
    match kind:
        case Kind.TIMESTAMP if local:
            # A time without a zone is in the machine's zone.
            convert = lambda value: value.astimezone(datetime.UTC)  # noqa: E731
        case Kind.LIST:
            (element,) = parts
            convert = None if element is None else lambda values: list(map(element, values))
        case Kind.MAP:
            key, value = [part or same for part in parts]
            convert = lambda entries: [(key(k), value(v)) for k, v in entries.items()]  # noqa: E731
        case Kind.ROW | Kind.TUPLE:
            names = part_names(type_info)
            converters = [part or same for part in parts]
            convert = lambda row: {  # noqa: E731
                name: one(part) for name, one, part in zip(names, converters, values_of(row, names), strict=True)
            }
        case _:
            convert = _rounding(type_info) or _WRITE.get(kind)
    return nullable(convert)


def _instant_to_micros(value: Any) -> int:
    if isinstance(value, Instant):
        return value.seconds * 1_000_000 + value.nanos // 1000
    if isinstance(value, datetime.datetime):
        return _instant_to_micros(instant_of(value))
    raise TypeError(f"expected an Instant, got {type(value).__name__}")


_WRITE: dict[BasicType | Kind, Convert] = {
    BasicType.BIG_INT: decimal.Decimal,
    BasicType.CHAR: one_character,
    # Arrow would store a float that is too large as infinite; it checks other numbers.
    BasicType.FLOAT: lambda value: to_float32(value) if isinstance(value, float) else value,
    BasicType.INSTANT: _instant_to_micros,
    # Arrow would drop the zone.
    Kind.TIME: without_zone,
    Kind.BYTES: bytes_of,
}
_STORED_KEYS: dict[BasicType | Kind, Convert] = {
    BasicType.INSTANT: _instant_to_micros,
    Kind.TIMESTAMP: utc_time,
    Kind.DATE: lambda value: datetime.date(value.year, value.month, value.day),
}


def values_of(row: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """Return the values of a Row, dict, tuple or list in the order of the names; raise TypeError or ValueError for others.

    A field that no name stands for is an error, too: its value would be lost.
    """
    values: Sequence[Any]
    if isinstance(row, Row):
        values = row.get_fields_by_names(names)
        if len(row) > len(values):
            raise ValueError(f"unknown fields {sorted(row.as_dict().keys() - set(names))}")
    elif isinstance(row, tuple | list):
        values = row
    elif isinstance(row, dict):
        unknown = row.keys() - set(names)
        if unknown:
            raise ValueError(f"unknown fields {sorted(map(str, unknown))}")
        values = [row.get(name) for name in names]
    else:
        raise TypeError(f"expected a Row, tuple, list or dict, got {type(row).__name__}")
    if len(values) != len(names):
        raise ValueError(f"expected {len(names)} fields, got {len(values)}")
    return values


def appended_values(row: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """Return the values of a record to append, in the order of the names.

    Raises SinkError for a row that is not of kind INSERT, and TypeMismatchError for a value that is no row with these names.
    """
    if isinstance(row, Row) and row.get_row_kind() is not RowKind.INSERT:
        raise SinkError(
            f"this sink only appends; got a row of kind {row.get_row_kind()!s}: {row!r}",
            hint="filter such rows out, or map them to rows of kind RowKind.INSERT.",
        )
    try:
        return values_of(row, names)
    except (TypeError, ValueError) as error:
        raise TypeMismatchError(f"expected a row with the fields {list(names)}; got {row!r}: {error}") from None


class RowsToArrow:
    """Turns rows into Arrow batches, column by column."""

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[TypeInformation],
        *,
        zoned: bool,
        time_of_day: bool = True,
        positions: Sequence[int] | None = None,
        by_position: bool = False,
        local: bool = False,
    ) -> None:
        """Make a converter for columns with these names and types.

        `positions`: positions of the columns in the rows given to `batch`, if they are not in the order of the names.
        `by_position`: names in the rows are ignored. `local`, with `zoned`: SQL_TIMESTAMP is a time in the machine's zone.
        """
        self.by_position = by_position
        self.local = local
        self.names = tuple(names)
        self.types = tuple(types)
        # Column by column, as zip(*rows) makes an iterator for each row and takes 10 times as long.
        self._getters = [operator.itemgetter(i) for i in (range(len(names)) if positions is None else positions)]
        self.schema = pa.schema(
            [
                pa.field(name, arrow_type(part, f"column {name!r}", zoned=zoned, time_of_day=time_of_day))
                for name, part in zip(names, types, strict=True)
            ]
        )
        self._converters = [_write_converter(part, local) for part in types]
        self._taken = [_TAKEN.get(kind_of(part)) for part in types]
        self._what = [
            f"column {field.name!r} is {part!r}, stored as {field.type}; got"
            for field, part in zip(self.schema, types, strict=True)
        ]

    def values(self, row: Any) -> Sequence[Any]:
        """Return the values of a record in column order; raise the errors of `appended_values`."""
        if self.by_position and isinstance(row, Row) and row.get_row_kind() is RowKind.INSERT:
            row = tuple(row)
        return appended_values(row, self.names)

    def batch(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Return a batch of rows that `values` returned; raise TypeMismatchError, which names column and value."""
        arrays = [self.column(index, list(map(getter, rows))) for index, getter in enumerate(self._getters)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def column(self, index: int, values: Sequence[Any]) -> pa.Array:
        """Return the values of one column; raises TypeMismatchError, which names column and value."""
        convert = self._converters[index]
        arrow = self.schema.field(index).type
        taken = self._taken[index]
        what = self._what[index]
        if taken is not None:
            for cls in set(map(type, values)):
                if cls is not type(None) and not taken(cls):
                    value = next(value for value in values if value.__class__ is cls)
                    raise TypeMismatchError(f"{what} {value!r} of type {cls.__name__}")
        try:
            return pa.array(values if convert is None else list(map(convert, values)), type=arrow)
        except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError, ArithmeticError) as error:
            value, reason = self._culprit(convert, arrow, values, error)
            raise TypeMismatchError(f"{what} {value!r} of type {type(value).__name__}: {reason}") from error

    @staticmethod
    def _culprit(convert: Convert | None, arrow: pa.DataType, values: Sequence[Any], error: Exception) -> tuple[Any, Exception]:
        for value in values:
            try:
                pa.array([value if convert is None else convert(value)], type=arrow)
            except Exception as own:
                return value, own
        return None, error


_BINARIES = ("binary", "large_binary", "binary_view", "fixed_size_binary")
#: Our types, by the tests of `pa.types` for the Arrow types that are read as them.
_BY_ARROW_TYPE: dict[str, Callable[[], TypeInformation]] = {
    "boolean": Types.BOOLEAN,
    "int8": Types.BYTE,
    **dict.fromkeys(("int16", "uint8"), Types.SHORT),
    **dict.fromkeys(("int32", "uint16"), Types.INT),
    **dict.fromkeys(("int64", "uint32"), Types.LONG),
    "uint64": Types.BIG_INT,
    **dict.fromkeys(("float16", "float32"), Types.FLOAT),
    "float64": Types.DOUBLE,
    **dict.fromkeys(("string", "large_string", "string_view", "null"), Types.STRING),
    "decimal": Types.BIG_DEC,
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
    **dict.fromkeys(_BINARIES, lambda: Types.PRIMITIVE_ARRAY(Types.BYTE())),
}


def type_of_arrow(arrow: pa.DataType, what: str) -> TypeInformation:
    """Return our type for an Arrow type of a Parquet file; raise InvalidArgumentError if there is none."""
    types = pa.types
    for name, make in _BY_ARROW_TYPE.items():
        if getattr(types, f"is_{name}")(arrow):
            return make()
    if types.is_timestamp(arrow):
        return Types.SQL_TIMESTAMP() if arrow.tz is None else Types.INSTANT()
    if types.is_dictionary(arrow):
        return type_of_arrow(arrow.value_type, what)
    if is_list(arrow):
        return Types.LIST(type_of_arrow(arrow.value_type, f"{what}.element"))
    if types.is_map(arrow):
        key, value = type_of_arrow(arrow.key_type, f"{what}.key"), type_of_arrow(arrow.item_type, f"{what}.value")
        try:
            return Types.MAP(key, value)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{what} has the Arrow type {arrow}: {without_hint(error)}") from error
    if types.is_struct(arrow):
        fields = [arrow.field(i) for i in range(arrow.num_fields)]
        return Types.ROW_NAMED([f.name for f in fields], [type_of_arrow(f.type, f"{what}.{f.name}") for f in fields])
    raise InvalidArgumentError(f"{what} has the Arrow type {arrow}, which has no counterpart among Types")


def row_type_of_schema(schema: pa.Schema) -> RowTypeInfo:
    """Return the row type of a Parquet file."""
    return Types.ROW_NAMED(list(schema.names), [type_of_arrow(field.type, f"column {field.name!r}") for field in schema])


def reading_type(have: pa.DataType, type_info: TypeInformation) -> pa.DataType | None:
    """Return the Arrow type to which a file's column is cast for `read_converter`; None if it cannot be read as the type.

    Fields of rows are found by name, fields of tuples by position.
    """
    type_info = plain_type(type_info)
    if pa.types.is_dictionary(have):
        return reading_type(have.value_type, type_info)
    kind, types = shape_of(type_info)
    wanted = part_names(type_info)
    match kind:
        case _ if pa.types.is_null(have):
            return arrow_type(type_info, "the column", zoned=False)
        case Kind.ROW | Kind.TUPLE:
            if not pa.types.is_struct(have):
                return None
            names = [have.field(i).name for i in range(have.num_fields)]
            if kind is Kind.TUPLE:
                wanted = tuple(names)
            if len(set(names)) < len(names) or not set(wanted) <= set(names) or len(wanted) != len(types):
                return None
            found = [have.field(name).type for name in wanted]
        case Kind.MAP:
            if not pa.types.is_map(have):
                return None
            found = [have.key_type, have.item_type]
        case Kind.LIST:
            if not is_list(have):
                return None
            found = [have.value_type]
        case _:
            arrow = arrow_type(type_info, "the column", zoned=False)
            if isinstance(type_info, DecimalTypeInfo):
                return arrow if _holds(arrow, have) else None
            if pa.types.is_decimal(have) and kind is BasicType.BIG_DEC:
                return have
            if pa.types.is_timestamp(have) and have.unit == "ns" and kind is not Kind.TIMESTAMP:
                return pa.int64() if kind is BasicType.INSTANT else None  # datetime cannot hold nanoseconds
            return arrow if is_widened(have, arrow) else None
    parts = [reading_type(one, part) for one, part in zip(found, types, strict=True)]
    if any(part is None for part in parts):
        return None
    if pa.types.is_struct(have):
        return pa.struct(list(zip(wanted, parts, strict=True)))
    return pa.map_(*parts) if pa.types.is_map(have) else pa.list_(*parts)


def _holds(wanted: pa.DataType, have: pa.DataType) -> bool:
    """Return whether a decimal type can hold all values of a decimal or integer type."""
    if pa.types.is_decimal(have):
        return bool(wanted.scale >= have.scale and wanted.precision - wanted.scale >= have.precision - have.scale)
    return bool(pa.types.is_integer(have) and wanted.precision - wanted.scale >= _DIGITS[have.bit_width])


#: Digits of the decimal that Arrow demands for integers with these numbers of bits, signed or not.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def is_list(arrow: pa.DataType) -> bool:
    """Return whether values are lists, of whatever layout."""
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow))


def is_widened(have: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column of simple values can be read as another type: values keep their meaning, and Arrow checks each."""
    types = pa.types
    if have == wanted:
        return True
    if types.is_integer(wanted):
        return bool(types.is_integer(have) or types.is_floating(have) or types.is_decimal(have))
    if types.is_floating(wanted):
        # Arrow would round a DOUBLE to narrow it, and turn large numbers into infinity.
        narrower = types.is_floating(have) and have.bit_width <= wanted.bit_width
        return bool(types.is_integer(have) or narrower or (types.is_decimal(have) and types.is_float64(wanted)))
    if types.is_decimal(wanted):
        return bool(types.is_integer(have) or types.is_decimal(have))
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(have) or (types.is_date(have) and wanted.tz is None))
    if types.is_string(wanted) or types.is_binary(wanted):
        return any(getattr(types, f"is_{name}")(have) for name in (*_BINARIES, "string", "large_string", "string_view"))
    return bool((types.is_date(wanted) and types.is_date(have)) or (types.is_time(wanted) and types.is_time(have)))


#: A day in the units of Arrow's times of day.
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def widened(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column cast to the result of `reading_type`; raise ArrowInvalid (a ValueError) for a value that does not fit.

    Times are cut to microseconds, the precision of Python's datetime; nanoseconds within lists, maps and structs must fit.
    """
    if pa.types.is_time(column.type) and len(column):
        ends = pc.min_max(column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())).as_py()
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < _DAY[column.type.unit]:
            raise ValueError("a time of day must be from 00:00 to before 24:00")
        return column.cast(wanted, safe=False)
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # Round down, even before 1970, where a cast would round towards zero. Drop the zone, which Arrow may not know.
        column = pc.floor_temporal(column.cast(pa.timestamp("ns")), unit="microsecond")
    return column.cast(wanted)


def plain_column(column: pa.Array) -> Any:
    """Return the values of a column that need no conversion, as RowColumns takes them: numbers as an array of numpy."""
    numbers = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return column.to_numpy() if numbers and not column.null_count else column.to_pylist()


def read_converter(type_info: TypeInformation, *, local: bool = False, keys_once: bool = False) -> Convert | None:
    """Return the function that converts values of Arrow's `to_pylist` to a type; None if no conversion is needed.

    `keys_once`: it raises ValueError for a map with two entries of a key, of which a dict has the last one.
    """
    kind, types = shape_of(type_info)
    parts = [read_converter(part, local=local, keys_once=keys_once) for part in types]
    converters = [part or same for part in parts]
    convert: Convert | None
    match kind:
        case Kind.TIMESTAMP if local:
            # Arrow returns the time in UTC.
            convert = lambda value: value.replace(tzinfo=datetime.UTC).astimezone().replace(tzinfo=None)  # noqa: E731
        case Kind.LIST if isinstance(plain_type(type_info), PrimitiveArrayTypeInfo):
            convert = _without_nulls
        case Kind.LIST:
            (element,) = parts
            convert = None if element is None else lambda values: list(map(element, values))
        case Kind.MAP:
            key, value = converters
            convert = lambda entries: {key(k): value(v) for k, v in entries}  # noqa: E731
            if keys_once:
                convert = _with_keys_once(convert)
        case Kind.ROW:
            names = part_names(type_info)
            convert = lambda struct: make_row(  # noqa: E731
                names, [one(struct[name]) for name, one in zip(names, converters, strict=True)]
            )
        case Kind.TUPLE:
            convert = lambda struct: tuple(  # noqa: E731
                [one(part) for one, part in zip(converters, struct.values(), strict=True)]
            )
        case _:
            convert = _READ.get(kind)
    return nullable(convert)


def _with_keys_once(convert: Convert) -> Convert:
    def checked(entries: list[Any]) -> Any:
        value = convert(entries)
        if len(value) != len(entries):
            raise ValueError(f"a map has two entries of a key: {entries!r}")
        return value

    return checked


def texts_of(row: Sequence[pa.Array]) -> list[str]:
    """Return the values of a row, arrays of one value, as texts, also where Python has no such value (years after 9999)."""
    try:
        return [str(part[0]) for part in row]
    except (ValueError, OverflowError):
        return [_as_number(part) for part in row]


def _as_number(part: pa.Array) -> str:
    """Return a value as text, if it is a date or time as the number that Arrow stores."""
    if pa.types.is_temporal(part.type):
        part = part.view(pa.int32() if part.type.bit_width == 32 else pa.int64())
    try:
        return str(part[0])
    except (ValueError, OverflowError):
        return f"a {part.type} that Python cannot hold"


def _without_nulls(values: list[Any]) -> list[Any]:
    if None in values:
        raise ValueError("an array of primitives has a null")
    return values


def _to_instant(value: datetime.datetime | int) -> Instant:
    """Return the Instant for a time, or for nanoseconds since 1970."""
    return Instant(*divmod(value, 1_000_000_000)) if isinstance(value, int) else instant_of(value)


_READ: dict[BasicType | Kind, Convert] = {
    BasicType.BIG_INT: int,
    BasicType.INSTANT: _to_instant,
    BasicType.CHAR: one_character,
}
