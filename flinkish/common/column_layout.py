"""How records of a type are columns of Arrow, and the way there and back."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from flinkish.common import pickling
from flinkish.common.arrow_types import RowsToArrow, arrow_type, is_list, is_widened, read_converter, row_type_of_schema
from flinkish.common.columns import Columns
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.limits import one_character
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, PrimitiveArrayTypeInfo, RowTypeInfo, TypeInformation
from flinkish.common.types import RowKind, rows_of

#: Of Python's datetime, since 1970.
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799

#: Functions of pyarrow.compute that have a twin, such as add_checked, which fails where they wrap.
_WRAPPING: Final = re.compile(r"(?<!\w)(abs|add|divide|multiply|negate|power|shift_left|shift_right|subtract)\(")
#: Literal texts in an expression that is written as text.
_TEXTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
#: In the text of an expression: a cast to 32-bit floats that the program itself asks for.
_TO_FLOAT32: Final = "to_type=float,"
#: The least integer that a 32-bit float does not hold, and what Arrow says of it.
_NOT_IN_FLOAT32: Final = 2**24 + 1
_REFUSED_AS_FLOAT32: Final = "not in range: -16777216 to 16777216"


class _Unread:
    """The value of a field that was not sent, because the next operator does not read it."""

    def __repr__(self) -> str:
        return "..."


UNREAD = _Unread()


class Layout:
    """One column for each field of a row or tuple; records of other types are in one column, `value`.

    Raises InvalidProgramError if the values of the type cannot be columns.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        kind, types = shape_of(type_info)
        #: Whether records have fields, and whether these have names.
        self.has_fields = bool(types) and kind in (Kind.ROW, Kind.TUPLE)
        self.is_row = self.has_fields and kind is Kind.ROW
        self.names: tuple[str, ...] = part_names(type_info) if self.has_fields else ("value",)
        self.types: tuple[TypeInformation, ...] = types if self.has_fields else (plain_type(type_info),)
        columns = zip(self.names, self.types, strict=True)
        self.schema = pa.schema([(name, arrow_type(part, name, zoned=False)) for name, part in columns])
        self._converters = [read_converter(part, keys_once=True) for part in self.types]
        self._changed = list(map(_changed, self.types))
        self._rows = RowsToArrow(self.names, self.types, zoned=False)

    @functools.cached_property
    def encoded(self) -> bytes:
        """The pickled type, by which another process makes this layout."""
        return pickling.dumps(self.type_info)

    def position(self, field: int | str) -> int | None:
        """Return the position of the column of a field, given by name or position; None if there is none."""
        if isinstance(field, str):
            return self.names.index(field) if self.is_row and field in self.names else None
        return field % len(self.names) if -len(self.names) <= field < len(self.names) else None

    def type_of(self, expressions: Mapping[str, pc.Expression], wanted: TypeInformation | None = None) -> RowTypeInfo:
        """Return the type of rows with the values of expressions as fields; one that is only a field keeps its type.

        Raises InvalidProgramError if one cannot be computed, has a type that we have not, is not of the wanted type, or might
        compute something else than Python without an error.
        """
        for expression in expressions.values():
            self._check_exact(expression)
        try:
            columns = evaluated(self.batch([pa.nulls(1, each) for each in self.schema.types]), list(expressions.values()))
        except pa.ArrowException as error:
            raise InvalidProgramError(
                f"the expressions {[str(each) for each in expressions.values()]} cannot be computed for the columns "
                f"{list(self.names)}: {error}"
            ) from error
        for expression, column in zip(expressions.values(), columns, strict=True):
            if pa.types.is_float32(column.type) and pa.float32() not in self.schema.types and _TO_FLOAT32 not in str(expression):
                raise _narrowed(expression)
        found = row_type_of_schema(pa.schema([(name, each.type) for name, each in zip(expressions, columns, strict=True)]))
        if wanted is not None and found.field_types[0] != wanted:
            raise InvalidProgramError(f"the expression {next(iter(expressions.values()))} must be {wanted!r}; it is {found!r}")
        types = [
            next(
                (own for known, own in zip(self.names, self.types, strict=True) if expression.equals(pc.field(known))), type_info
            )
            for expression, type_info in zip(expressions.values(), found.field_types, strict=True)
        ]
        return RowTypeInfo(types, list(expressions))

    def _check_exact(self, expression: pc.Expression) -> None:
        """Raise InvalidProgramError for functions whose integers wrap, and for integers that are computed as 32-bit floats."""
        text = str(expression)
        wrapping = _WRAPPING.search(_TEXTS.sub("", text))
        if wrapping is not None:
            raise InvalidProgramError(
                f"the expression {text} calls {wrapping[1]}(), whose results wrap if they are too large for their type.",
                hint=f"take the operator, or pyarrow.compute.{wrapping[1]}_checked(), with which the job fails instead.",
            )
        if _TO_FLOAT32 not in text:
            large = (pa.int32(), pa.int64())
            columns = [pa.array([_NOT_IN_FLOAT32 if each in large else None], each) for each in self.schema.types]
            try:
                evaluated(self.batch(columns), [expression])
            except pa.ArrowException as error:
                # Other errors come from this number alone, or `type_of` meets them, too.
                if _REFUSED_AS_FLOAT32 in str(error):
                    raise _narrowed(expression) from error

    def records_of(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the rows of a batch with this schema as records."""
        lists = [self.values_of(position, column) for position, column in enumerate(batch.columns)]
        if self.is_row:
            return rows_of(self.names, lists)
        return list(zip(*lists, strict=True)) if self.has_fields else lists[0]

    def values_of(self, position: int, column: pa.Array) -> list[Any]:
        """Return the values of a field, whose column this is, as in records."""
        if pa.types.is_null(column.type):
            return [UNREAD] * len(column)
        convert = self._converters[position]
        values: list[Any] = column.to_pylist()
        return values if convert is None else list(map(convert, values))

    def holds(self, types: Sequence[pa.DataType | None]) -> bool:
        """Return whether columns of these Arrow types can be as good as their records, see `batch_of`."""
        return bool(self.schema.types == list(types))

    def batch_of(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return columns of the schema's types, which come from outside and which it `holds`, as a batch.

        Raises ValueError or OverflowError, as `records_of` would, if Python has no value for one of theirs: a date after the year
        9999, text that is not UTF-8, a null in an array of primitives. Raises ValueError for a map with two entries of a key, of
        which a record has one.
        """
        for type_info, column in zip(self.types, columns, strict=True):
            _check(type_info, column)
        return self.batch(columns)

    def columns_of(self, records: Sequence[Any], timestamps: Sequence[int | None] | None) -> Columns:
        """Return records that were checked against the type as columns.

        Raises TypeMismatchError for what columns cannot hold: None, and rows that are not of kind INSERT.
        """
        for record in records:
            if record is None or getattr(record, "_kind", RowKind.INSERT) is not RowKind.INSERT:
                raise TypeMismatchError(
                    f"columns hold only records that exist, of kind INSERT; got {record!r}{_kind_shown(record)}",
                    hint="filter such records out before.",
                )
        rows = list(map(tuple, records)) if self.has_fields else [(record,) for record in records]
        batch = self.batch([self.column(position, [row[position] for row in rows]) for position in range(len(self.names))])
        times = None if timestamps is None or all(time is None for time in timestamps) else pa.array(timestamps, pa.int64())
        return Columns(self, batch, times)

    def column(self, position: int, values: Sequence[Any]) -> pa.Array:
        """Return the values of a field as its column; raise TypeMismatchError for values that it cannot hold."""
        changed = self._changed[position]
        if changed is not None:
            try:
                other = next((value for value in values if value is not None and changed(value)), None)
            except (AttributeError, TypeError, ValueError):
                other = None  # a value of another type, which is named below
            if other is not None:
                raise TypeMismatchError(
                    f"column {self.names[position]!r} of type {self.types[position]!r} would change {other!r}: it holds "
                    "microseconds of the years 1 to 9999, decimals of its scale, and within them rows of kind INSERT",
                    hint="round such values before, or take a function of each record instead of columns.",
                )
        return self._rows.column(position, values)

    def batch(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return columns of the schema's types, one for each field, as a batch."""
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def checked(self, table: object, what: str) -> pa.RecordBatch:
        """Return what a user's function has returned as one batch with exactly this schema.

        It may be a RecordBatch, a Table or a pandas DataFrame. Columns are found by name for rows, otherwise by position, and are
        cast where values keep their meaning. Raises TypeMismatchError, which begins with `what`, for anything else.
        """
        if hasattr(table, "iloc"):
            table = self._from_frame(table, what)
        if not isinstance(table, pa.RecordBatch | pa.Table):
            raise TypeMismatchError(
                f"{what} must return a pyarrow.RecordBatch, a pyarrow.Table or a pandas.DataFrame; "
                f"got an instance of {type(table).__name__}"
            )
        names = table.schema.names
        named = set(names) == set(self.names)
        if len(names) != len(self.names) or (self.is_row and not named):
            raise TypeMismatchError(f"{what} must return the columns {list(self.names)}; got {names}")
        arrays = []
        for position, field in enumerate(self.schema):
            column = whole(table.column(field.name if named else position))
            if column.null_count and not self.is_row:
                raise TypeMismatchError(
                    f"{what}: column {field.name!r} has nulls; only fields of rows may be None",
                    hint="filter such records out before, or return rows.",
                )
            try:
                arrays.append(_cast(column, field.type))
                _check(self.types[position], arrays[-1])
            except (ValueError, OverflowError) as error:  # ArrowInvalid is a ValueError
                raise TypeMismatchError(
                    f"{what}: column {field.name!r} must be {field.type}; got {column.type}: {error}"
                ) from error
        return self.batch(arrays)

    def _from_frame(self, frame: Any, what: str) -> pa.Table:
        """Return a DataFrame as a table, in which NaN of float columns stays NaN; None and pandas.NA become null."""
        arrays = []
        for position, name in enumerate(map(str, frame.columns)):
            series, place = frame.iloc[:, position], self.names.index(name) if name in self.names else position
            wanted = self.schema.field(place).type if place < len(self.names) else None
            try:
                nested, floating = (wanted is not None and test(wanted) for test in (pa.types.is_nested, pa.types.is_floating))
                if series.dtype == object and (nested or floating):
                    there = series.notna() | (series.map(_is_nan) if floating else False)
                    values = [value if own else None for value, own in zip(series, there, strict=True)]
                    arrays.append(pa.array(values, wanted, from_pandas=False))
                else:
                    arrays.append(pa.array(series.to_numpy() if series.dtype in (float, "float32") else series))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise TypeMismatchError(f"{what}: the values of column {name!r} cannot be a column: {error}") from error
        return pa.table(arrays, names=list(map(str, frame.columns)))


def _check(type_info: TypeInformation, column: pa.Array) -> None:
    """Raise the errors of `Layout.batch_of` for a column whose values have a type."""
    kind, types = shape_of(type_info)
    match kind:
        case Kind.ROW | Kind.TUPLE:
            for part, values in zip(types, column.flatten(), strict=True):
                _check(part, values)
        case Kind.LIST:
            values = column.flatten()
            if values.null_count and isinstance(plain_type(type_info), PrimitiveArrayTypeInfo):
                raise ValueError("an array of primitives has a null")
            (element,) = types
            _check(element, values)
        case Kind.MAP:
            convert = read_converter(type_info, keys_once=True)
            assert convert is not None
            for entries in column.to_pylist():
                convert(entries)
        case _ if pa.types.is_temporal(column.type):
            try:
                pc.min_max(column).as_py()
            except (ValueError, OverflowError) as error:
                raise ValueError(f"a time is outside the years 1 to 9999, and no record has it: {error}") from error
        case BasicType.STRING:
            column.validate(full=True)
        case BasicType.CHAR:
            for value in column.unique().to_pylist():
                if value is not None:
                    one_character(value)


class StoredColumns:
    """Turns columns into batches with the schema of `rows`, which hold the same as those of their records."""

    def __init__(self, rows: RowsToArrow) -> None:
        self._rows = rows
        self._positions: dict[Layout, list[int] | None] = {}

    def batch(self, columns: Columns) -> pa.RecordBatch | None:
        """Return the batch; None if the records must be looked at one by one, as their type differs from that of `rows`."""
        positions = self.positions(columns.layout)
        if positions is None:
            return None
        # A time without zone is stored as the point in time that it is in UTC.
        arrays = [columns.column(place).cast(field.type) for place, field in zip(positions, self._rows.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._rows.schema)

    def positions(self, layout: Layout) -> list[int] | None:
        """Return the position in a layout of each stored column; None if values would be converted."""
        if layout not in self._positions:
            self._positions[layout] = self._find(layout)
        return self._positions[layout]

    def _find(self, layout: Layout) -> list[int] | None:
        rows = self._rows
        if not layout.has_fields or len(layout.names) != len(rows.names):
            return None
        positions = list(range(len(rows.names)))
        if layout.is_row and not rows.by_position:
            if set(layout.names) != set(rows.names):
                return None
            positions = [layout.names.index(name) for name in rows.names]
        for position, wanted, field in zip(positions, rows.types, rows.schema, strict=True):
            same = plain_type(layout.types[position]) == plain_type(wanted) and kind_of(wanted) is not BasicType.CHAR
            have = layout.schema.field(position).type
            if not same or (have != field.type and (rows.local or not pa.types.is_timestamp(have))):
                return None
        return positions


def layout_of(type_info: TypeInformation) -> Layout | None:
    """Return the layout of a type; None if its values cannot be columns: it is not declared, or Arrow has no such type."""
    try:
        return Layout(type_info)
    except InvalidProgramError:
        return None


def needed_layout(type_info: TypeInformation, what: str) -> Layout:
    """Return the layout of a type; raise InvalidProgramError, which begins with `what`, if there is none."""
    layout = layout_of(type_info)
    if layout is None:
        raise InvalidProgramError(
            f"{what} needs records of a declared type that Arrow has, too; got {type_info!r}.",
            hint="give the operator before it an output_type, such as Types.ROW_NAMED([...], [...]).",
        )
    return layout


def evaluated(batch: pa.RecordBatch, expressions: Sequence[pc.Expression]) -> list[pa.Array]:
    """Return the values of expressions for the rows of a batch, in their order; raise ArrowException if one has none."""
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    names = [str(number) for number in range(len(expressions))]
    project = acero.Declaration("project", acero.ProjectNodeOptions(list(expressions), names), inputs=[source])
    return [whole(column) for column in project.to_table(use_threads=False).columns]


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _changed(type_info: TypeInformation) -> Callable[[Any], bool] | None:
    """Return the function that tells whether a column would change a value, which is not None; None if it changes none."""
    kind, types = shape_of(type_info)
    parts = [None if (changed := _changed(part)) is None else _unless_none(changed) for part in types]
    own = plain_type(type_info)
    match kind:
        case BasicType.INSTANT:
            return lambda value: bool(value.nanos % 1000) or not _FIRST_SECOND <= value.seconds <= _LAST_SECOND
        case BasicType.BIG_DEC if isinstance(own, DecimalTypeInfo):
            return lambda value: _is_rounded(own, value)
        case Kind.ROW:
            return lambda row: (
                row.get_row_kind() is not RowKind.INSERT
                or any(changed(part) for changed, part in zip(parts, row, strict=True) if changed is not None)
            )
        case _ if not any(parts):
            return None
        case Kind.TUPLE:
            return lambda value: any(changed(part) for changed, part in zip(parts, value, strict=True) if changed is not None)
        case Kind.MAP:
            key, item = [changed or _never for changed in parts]
            return lambda entries: any(key(one) or item(other) for one, other in entries.items())
        case _:
            (element,) = parts
            return lambda values: any(map(element or _never, values))


def _is_rounded(own: DecimalTypeInfo, value: Any) -> bool:
    try:
        return bool(own.rounded(value) != value)
    except ArithmeticError:
        return False  # Arrow refuses it and says why


def _never(_: Any) -> bool:
    return False


def _unless_none(changed: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is not None and changed(value)


def _narrowed(expression: pc.Expression) -> InvalidProgramError:
    return InvalidProgramError(
        f"Arrow computes the expression {expression} with 32-bit floats, as they can hold its literal: it would refuse large "
        "integers while the job runs, and round results.",
        hint='cast the integers, as in pyarrow.compute.field("n").cast("float64") * 1.5.',
    )


def _kind_shown(record: Any) -> str:
    return "" if record is None else f" of kind {record.get_row_kind().name}"


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column as another type; raise ArrowException if values would not keep their meaning, such as texts as numbers."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    narrowed = pa.types.is_float32(wanted) and pa.types.is_float64(column.type)
    if not (narrowed or _is_alike(column.type, wanted)):
        raise pa.ArrowInvalid("that is another kind of values")
    found = column.cast(wanted)
    if narrowed and pc.any(pc.and_(pc.is_finite(column), pc.is_inf(found))).as_py():
        raise pa.ArrowInvalid("a number is too large for it")
    return found


def _is_alike(have: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type can be cast to another one and keep their meaning; fields of rows are found by name."""
    types = pa.types
    if types.is_null(have):
        return True
    if types.is_struct(have) and types.is_struct(wanted):
        names = [have.field(index).name for index in range(have.num_fields)]
        fields = [wanted.field(index) for index in range(wanted.num_fields)]
        return sorted(names) == sorted(field.name for field in fields) and all(
            _is_alike(have.field(field.name).type, field.type) for field in fields
        )
    if types.is_map(have) and types.is_map(wanted):
        return _is_alike(have.key_type, wanted.key_type) and _is_alike(have.item_type, wanted.item_type)
    if is_list(have) and is_list(wanted):
        return _is_alike(have.value_type, wanted.value_type)
    return not (types.is_nested(have) or types.is_nested(wanted)) and is_widened(have, wanted)


def frame_of(batch: pa.RecordBatch) -> Any:
    """Return a batch as a DataFrame, in which columns of numbers and booleans with nulls have pandas' nullable types.

    As floats, large integers would be rounded, and a null would be the same as NaN. Nested values are Python's: lists, dicts for
    rows, and lists of pairs for maps.
    """
    # Not a plain import, by which all processes would seem to need pandas.
    pandas = importlib.import_module("pandas")
    nullable = {
        pa.float64(): pandas.Float64Dtype(),
        pa.float32(): pandas.Float32Dtype(),
        pa.bool_(): pandas.BooleanDtype(),
        **{getattr(pa, f"int{bits}")(): getattr(pandas, f"Int{bits}Dtype")() for bits in INTEGER_BITS.values()},
    }
    absent = {column.type for column in batch.columns if column.null_count}
    frame = batch.to_pandas(types_mapper=lambda arrow: nullable.get(arrow) if arrow in absent else None)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_nested(column.type):
            frame[name] = pandas.Series(column.to_pylist(), dtype=object)
    return frame


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value
