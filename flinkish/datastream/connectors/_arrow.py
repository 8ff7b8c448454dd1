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

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError, TypeMismatchError
from flinkish.common.limits import to_float32
from flinkish.common.time import Instant
from flinkish.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from flinkish.common.types import Row, RowKind, make_row

Convert = Callable[[Any], Any]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

_BASIC: dict[BasicType, pa.DataType] = {
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
}


def unwrap(type_info: TypeInformation) -> TypeInformation:
    """Return the type inside an ExternalTypeInfo."""
    while isinstance(type_info, ExternalTypeInfo):
        type_info = type_info.type_info
    return type_info


def fields_of(type_info: TypeInformation) -> tuple[tuple[str, ...], tuple[TypeInformation, ...]] | None:
    """Return names and types of the fields of a row or tuple type (f0, f1, ... for a tuple); None for other types."""
    type_info = unwrap(type_info)
    if isinstance(type_info, RowTypeInfo):
        return type_info.field_names, type_info.field_types
    if isinstance(type_info, TupleTypeInfo):
        return tuple(f"f{i}" for i in range(len(type_info.field_types))), type_info.field_types
    return None


def is_bytes(type_info: TypeInformation) -> bool:
    """Return whether values are `bytes`: PRIMITIVE_ARRAY(BYTE)."""
    return (
        isinstance(type_info, PrimitiveArrayTypeInfo)
        and isinstance(type_info.element_type, BasicTypeInfo)
        and type_info.element_type.basic_type is BasicType.BYTE
    )


def arrow_type(type_info: TypeInformation, what: str, *, zoned: bool, time_of_day: bool = True) -> pa.DataType:
    """Return the Arrow type for a type; `what` names the column in the error.

    `zoned`: SQL_TIMESTAMP becomes a point in time (UTC). `time_of_day`: whether SQL_TIME may be stored.
    Raises InvalidProgramError for types that tables cannot store.
    """
    type_info = unwrap(type_info)
    timestamp = pa.timestamp("us", "UTC") if zoned else pa.timestamp("us")

    def inner(part: TypeInformation, name: str) -> pa.DataType:
        return arrow_type(part, f"{what}.{name}", zoned=zoned, time_of_day=time_of_day)

    match type_info:
        case DecimalTypeInfo():
            return pa.decimal128(type_info.precision, type_info.scale)
        case BasicTypeInfo():
            return _BASIC[type_info.basic_type]
        case DateTypeInfo():
            return pa.date32()
        case TimestampTypeInfo():
            return timestamp
        case TimeTypeInfo() if time_of_day:
            return pa.time64("us")
        case LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE):
            return pa.date32()
        case LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME):
            return timestamp
        case LocalTimeTypeInfo() if time_of_day:
            return pa.time64("us")
        case PrimitiveArrayTypeInfo() if is_bytes(type_info):
            return pa.binary()
        case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
            return pa.list_(inner(type_info.element_type, "element"))
        case MapTypeInfo():
            return pa.map_(inner(type_info.key_type, "key"), inner(type_info.value_type, "value"))
        case RowTypeInfo() | TupleTypeInfo():
            fields = fields_of(type_info)
            assert fields is not None
            return pa.struct([pa.field(name, inner(part, name)) for name, part in zip(*fields, strict=True)])
        case _:
            raise InvalidProgramError(
                f"{what} of type {type_info!r} cannot be stored in a table",
                hint="convert it before the sink, for example to STRING, and give the operator an output_type.",
            )


def _is_timestamp(type_info: TypeInformation) -> bool:
    local_date_time = LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME
    return isinstance(type_info, TimestampTypeInfo) or (
        isinstance(type_info, LocalTimeTypeInfo) and type_info.time_type is local_date_time
    )


def stored_key(type_info: TypeInformation) -> Convert | None:
    """Return the function that makes keys equal if they are stored as the same value; None if equal keys are stored so.

    A column has microseconds, and the digits of its type. Values that no column can hold are returned as they are.
    """
    type_info = unwrap(type_info)
    convert: Convert
    match type_info:
        case DecimalTypeInfo():
            rounded = type_info.rounded
            convert = lambda value: rounded(decimal.Decimal(value))  # noqa: E731
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            convert = _instant_to_micros
        case TimestampTypeInfo() | LocalTimeTypeInfo() if _is_timestamp(type_info):
            convert = utc_time
        case DateTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE):
            convert = lambda value: datetime.date(value.year, value.month, value.day)  # noqa: E731
        case _:
            return None

    def stored(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            return value

    return stored


def bytes_of(value: Any) -> bytes:
    """Return the bytes of a bytes-like value; raise TypeError or ValueError for others. (Python's bytes(5) would be 5 zeros.)"""
    if isinstance(value, int):
        raise TypeError("an int is no bytes")
    return bytes(value)


def utc_time(value: datetime.datetime) -> datetime.datetime:
    """Return a time without zone; a time with a zone is converted to UTC."""
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def _taken(type_info: TypeInformation) -> Callable[[type], bool] | None:
    """Return the valid classes of values for a type if Arrow would silently change other values; None if Arrow refuses them.

    Arrow cuts off the decimals of floats, reads an int as days or microseconds, and a text as a list of its letters.
    """
    integers = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG)
    match unwrap(type_info):
        case BasicTypeInfo(basic_type=basic) if basic in integers:
            return lambda cls: hasattr(cls, "__index__")
        case BasicTypeInfo(basic_type=BasicType.STRING | BasicType.CHAR):
            return lambda cls: issubclass(cls, str)
        case DateTypeInfo() | TimestampTypeInfo() | TimeTypeInfo() | LocalTimeTypeInfo():
            return lambda cls: issubclass(cls, datetime.date | datetime.time)
        case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
            return lambda cls: not issubclass(cls, str | bytes | bytearray)
        case _:
            return None


def _nested_converter(type_info: TypeInformation, local: bool) -> Convert | None:
    """Return the function for nested values, which also refuses values of another type."""
    convert, taken = _write_converter(type_info, local), _taken(type_info)
    if is_bytes(unwrap(type_info)) or taken is None:
        return convert

    def check(value: Any) -> Any:
        if value is not None and not taken(value.__class__):
            raise TypeError(f"{value!r} of type {type(value).__name__} is no {type_info!r}")
        return value if convert is None else convert(value)

    return check


def _write_converter(type_info: TypeInformation, local: bool) -> Convert | None:
    """Return the function that converts values of a type for Arrow; None if no conversion is needed."""
    type_info = unwrap(type_info)
    convert: Convert
    match type_info:
        case DecimalTypeInfo():
            rounded = type_info.rounded
            convert = lambda value: rounded(decimal.Decimal(value))  # noqa: E731
        case TimestampTypeInfo() | LocalTimeTypeInfo() if local and _is_timestamp(type_info):
            # A time without a zone is in the machine's zone.
            convert = lambda value: value.astimezone(datetime.UTC)  # noqa: E731
        case TimeTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_TIME):
            convert = _without_offset
        case BasicTypeInfo(basic_type=BasicType.BIG_INT):
            convert = decimal.Decimal
        case BasicTypeInfo(basic_type=BasicType.FLOAT):
            # Arrow would store a float that is too large as infinite; it checks other numbers.
            convert = lambda value: to_float32(value) if isinstance(value, float) else value  # noqa: E731
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            convert = _instant_to_micros
        case PrimitiveArrayTypeInfo() if is_bytes(type_info):
            convert = bytes_of
        case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
            element = _nested_converter(type_info.element_type, local)
            if element is None:
                return None
            convert = lambda values: list(map(element, values))  # noqa: E731
        case MapTypeInfo():
            key = _nested_converter(type_info.key_type, local) or _same
            value = _nested_converter(type_info.value_type, local) or _same
            convert = lambda entries: [(key(k), value(v)) for k, v in entries.items()]  # noqa: E731
        case RowTypeInfo() | TupleTypeInfo():
            fields = fields_of(type_info)
            assert fields is not None
            names = fields[0]
            converters = [_nested_converter(part, local) or _same for part in fields[1]]
            convert = lambda row: {  # noqa: E731
                name: one(part) for name, one, part in zip(names, converters, values_of(row, names), strict=True)
            }
        case _:
            return None
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _without_offset(value: datetime.time) -> datetime.time:
    """Return a time of day; raise ValueError if it has a zone other than UTC, which Arrow would drop."""
    if value.utcoffset():
        raise ValueError("without a date, a time cannot be converted to UTC")
    return value


def _instant_to_micros(value: Any) -> int:
    if isinstance(value, Instant):
        return value.seconds * 1_000_000 + value.nanos // 1000
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.UTC)
        micros: int = (value - _EPOCH) // _MICROSECOND
        return micros
    raise TypeError(f"expected an Instant, got {type(value).__name__}")


def values_of(row: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """Return the values of a Row, dict, tuple or list in the order of the names; raise TypeError or ValueError for others."""
    values: Sequence[Any]
    if isinstance(row, Row):
        values = row.get_fields_by_names(names)
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
        self.names = tuple(names)
        # Column by column, as zip(*rows) makes an iterator for each row and takes 10 times as long.
        self._getters = [operator.itemgetter(i) for i in (range(len(names)) if positions is None else positions)]
        self._types = tuple(types)
        self.schema = pa.schema(
            [
                pa.field(name, arrow_type(part, f"column {name!r}", zoned=zoned, time_of_day=time_of_day))
                for name, part in zip(names, types, strict=True)
            ]
        )
        self._converters = [_write_converter(part, local) for part in types]
        self._taken = [None if is_bytes(unwrap(part)) else _taken(part) for part in types]

    def values(self, row: Any) -> Sequence[Any]:
        """Return the values of a record in column order; raise the errors of `appended_values`."""
        if self.by_position and isinstance(row, Row) and row.get_row_kind() is RowKind.INSERT:
            row = tuple(row)
        return appended_values(row, self.names)

    def batch(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Return a batch of rows that `values` returned; raise TypeMismatchError, which names column and value."""
        arrays = [self._column(index, list(map(getter, rows))) for index, getter in enumerate(self._getters)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, index: int, values: Sequence[Any]) -> pa.Array:
        convert = self._converters[index]
        arrow = self.schema.field(index).type
        taken = self._taken[index]
        if taken is not None:
            for cls in set(map(type, values)):
                if cls is not type(None) and not taken(cls):
                    value = next(value for value in values if value.__class__ is cls)
                    raise TypeMismatchError(
                        f"column {self.names[index]!r} is {self._types[index]!r}, stored as {arrow}; got {value!r} of type "
                        f"{cls.__name__}"
                    )
        try:
            return pa.array(values if convert is None else list(map(convert, values)), type=arrow)
        except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError, ArithmeticError) as error:
            value, reason = self._culprit(convert, arrow, values, error)
            raise TypeMismatchError(
                f"column {self.names[index]!r} is {self._types[index]!r}, stored as {arrow}; got {value!r} "
                f"of type {type(value).__name__}: {reason}"
            ) from error

    @staticmethod
    def _culprit(convert: Convert | None, arrow: pa.DataType, values: Sequence[Any], error: Exception) -> tuple[Any, Exception]:
        for value in values:
            try:
                pa.array([value if convert is None else convert(value)], type=arrow)
            except Exception as own:
                return value, own
        return None, error


def type_of_arrow(arrow: pa.DataType, what: str) -> TypeInformation:
    """Return our type for an Arrow type of a Parquet file; raise InvalidArgumentError if there is none."""
    types = pa.types
    simple: list[tuple[Callable[[pa.DataType], bool], Callable[[], TypeInformation]]] = [
        (types.is_boolean, Types.BOOLEAN),
        (types.is_int8, Types.BYTE),
        (types.is_int16, Types.SHORT),
        (types.is_uint8, Types.SHORT),
        (types.is_int32, Types.INT),
        (types.is_uint16, Types.INT),
        (types.is_int64, Types.LONG),
        (types.is_uint32, Types.LONG),
        (types.is_uint64, Types.BIG_INT),
        (types.is_float16, Types.FLOAT),
        (types.is_float32, Types.FLOAT),
        (types.is_float64, Types.DOUBLE),
        (types.is_string, Types.STRING),
        (types.is_large_string, Types.STRING),
        (types.is_string_view, Types.STRING),
        (types.is_null, Types.STRING),
        (types.is_decimal, Types.BIG_DEC),
        (types.is_date, Types.SQL_DATE),
        (types.is_time, Types.SQL_TIME),
    ]
    for test, make in simple:
        if test(arrow):
            return make()
    if types.is_timestamp(arrow):
        return Types.SQL_TIMESTAMP() if arrow.tz is None else Types.INSTANT()
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow) or types.is_fixed_size_binary(arrow):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if types.is_dictionary(arrow):
        return type_of_arrow(arrow.value_type, what)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return Types.LIST(type_of_arrow(arrow.value_type, f"{what}.element"))
    if types.is_map(arrow):
        return Types.MAP(type_of_arrow(arrow.key_type, f"{what}.key"), type_of_arrow(arrow.item_type, f"{what}.value"))
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
    type_info = unwrap(type_info)
    if pa.types.is_dictionary(have):
        return reading_type(have.value_type, type_info)
    parts: list[tuple[str, pa.DataType | None]]
    match type_info:
        case _ if pa.types.is_null(have):
            return arrow_type(type_info, "the column", zoned=False)
        case RowTypeInfo() | TupleTypeInfo():
            if not pa.types.is_struct(have):
                return None
            names = [have.field(i).name for i in range(have.num_fields)]
            fields = fields_of(type_info)
            assert fields is not None
            wanted = fields[0] if isinstance(type_info, RowTypeInfo) else names
            if len(set(names)) < len(names) or not set(wanted) <= set(names) or len(wanted) != len(fields[1]):
                return None
            parts = [(name, reading_type(have.field(name).type, part)) for name, part in zip(wanted, fields[1], strict=True)]
        case MapTypeInfo():
            if not pa.types.is_map(have):
                return None
            parts = [
                ("key", reading_type(have.key_type, type_info.key_type)),
                ("value", reading_type(have.item_type, type_info.value_type)),
            ]
        case _ if is_bytes(type_info) or not hasattr(type_info, "element_type"):
            arrow = arrow_type(type_info, "the column", zoned=False)
            if isinstance(type_info, DecimalTypeInfo):
                return arrow if _holds(arrow, have) else None
            if pa.types.is_decimal(have) and type_info == Types.BIG_DEC():
                return have
            if pa.types.is_timestamp(have) and have.unit == "ns" and not _is_timestamp(type_info):
                return pa.int64() if arrow == _BASIC[BasicType.INSTANT] else None  # datetime cannot hold nanoseconds
            return arrow if is_widened(have, arrow) else None
        case _:
            if not is_list(have):
                return None
            parts = [("element", reading_type(have.value_type, type_info.element_type))]
    if any(part is None for _, part in parts):
        return None
    if pa.types.is_struct(have):
        return pa.struct([pa.field(name, part) for name, part in parts])
    return pa.map_(parts[0][1], parts[1][1]) if pa.types.is_map(have) else pa.list_(parts[0][1])


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
    binaries = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    binary = any(test(have) for test in binaries)
    text = types.is_string(have) or types.is_large_string(have) or types.is_string_view(have)
    if types.is_string(wanted) or types.is_binary(wanted):
        return bool(binary or text)
    return bool((types.is_date(wanted) and types.is_date(have)) or (types.is_time(wanted) and types.is_time(have)))


def widened(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column cast to the result of `reading_type`; raise ArrowInvalid (a ValueError) for a value that does not fit.

    Times are cut to microseconds, which is the precision of Python's datetime.
    """
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # Round down, even before 1970, where a cast would round towards zero. Drop the zone, which Arrow may not know.
        column = pc.floor_temporal(column.cast(pa.timestamp("ns")), unit="microsecond")
    return column.cast(wanted)


def read_converter(type_info: TypeInformation, *, local: bool = False) -> Convert | None:
    """Return the function that converts values of Arrow's `to_pylist` to a type; None if no conversion is needed."""
    type_info = unwrap(type_info)
    convert: Convert
    match type_info:
        case TimestampTypeInfo() | LocalTimeTypeInfo() if local and _is_timestamp(type_info):
            # Arrow returns the time in UTC.
            convert = lambda value: value.replace(tzinfo=datetime.UTC).astimezone().replace(tzinfo=None)  # noqa: E731
        case BasicTypeInfo(basic_type=BasicType.BIG_INT):
            convert = int
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            convert = _to_instant
        case BasicTypeInfo(basic_type=BasicType.CHAR):
            convert = _one_character
        case PrimitiveArrayTypeInfo() if is_bytes(type_info):
            return None
        case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
            element = read_converter(type_info.element_type, local=local)
            if isinstance(type_info, PrimitiveArrayTypeInfo):
                convert = _without_nulls
            elif element is None:
                return None
            else:
                convert = lambda values: list(map(element, values))  # noqa: E731
        case MapTypeInfo():
            key = read_converter(type_info.key_type, local=local) or _same
            value = read_converter(type_info.value_type, local=local) or _same
            convert = lambda entries: {key(k): value(v) for k, v in entries}  # noqa: E731
        case RowTypeInfo():
            names = type_info.field_names
            converters = [read_converter(part, local=local) or _same for part in type_info.field_types]
            convert = lambda struct: make_row(  # noqa: E731
                names, [one(struct[name]) for name, one in zip(names, converters, strict=True)]
            )
        case TupleTypeInfo():
            parts = [read_converter(part, local=local) or _same for part in type_info.field_types]
            convert = lambda struct: tuple([one(part) for one, part in zip(parts, struct.values(), strict=True)])  # noqa: E731
        case _:
            return None
    return lambda value: None if value is None else convert(value)


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


def _one_character(value: str) -> str:
    if len(value) != 1:
        raise ValueError(f"{value!r} is not one character")
    return value


def _to_instant(value: datetime.datetime | int) -> Instant:
    """Return the Instant for a time, or for nanoseconds since 1970."""
    if isinstance(value, int):
        return Instant(*divmod(value, 1_000_000_000))
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    micros = (value - _EPOCH) // _MICROSECOND
    seconds, rest = divmod(micros, 1_000_000)
    return Instant(seconds, rest * 1000)
