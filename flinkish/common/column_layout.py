"""How records of a type are columns of Arrow, and the way there and back."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from flinkish.common import pickling
from flinkish.common.arrow_types import RowsToArrow, arrow_type, is_widened, read_converter, row_type_of_schema
from flinkish.common.columns import Columns
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from flinkish.common.types import RowKind, rows_of

#: Of Python's datetime, since 1970.
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799


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
        self._converters = [read_converter(part) for part in self.types]
        self._instants = [position for position, part in enumerate(self.types) if kind_of(part) is BasicType.INSTANT]
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

        Raises InvalidProgramError if one cannot be computed, has a type that we have not, or is not of the wanted type.
        """
        empty = self.schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema=self.schema)]
        try:
            columns = evaluated(empty[0], list(expressions.values()))
        except pa.ArrowException as error:
            raise InvalidProgramError(
                f"the expressions {[str(each) for each in expressions.values()]} cannot be computed for the columns "
                f"{list(self.names)}: {error}"
            ) from error
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
        return self.schema.types == list(types) and not any(map(_has_inner_map, self.schema.types))

    def batch_of(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return columns of the schema's types, which come from outside and which it `holds`, as a batch.

        Raises ValueError or OverflowError, as `records_of` would, if Python has no value for one of theirs: a date after the year
        9999, text that is not UTF-8, a null in an array of primitives. Raises ValueError for a map with two entries of a key, of
        which a record has one.
        """
        for position, column in enumerate(columns):
            if pa.types.is_nested(column.type):
                self._check_nested(position, column)
            elif pa.types.is_temporal(column.type):
                pc.min_max(column).as_py()
            elif pa.types.is_string(column.type):
                column.validate(full=True)
        return self.batch(columns)

    def _check_nested(self, position: int, column: pa.Array) -> None:
        """Raise the errors of `batch_of` for the column of a field."""
        values, convert = column.to_pylist(), self._converters[position]
        records = values if convert is None else list(map(convert, values))
        if pa.types.is_map(column.type):
            for value, record in zip(values, records, strict=True):
                if value is not None and len(value) != len(record):
                    raise ValueError(f"a map has two entries of a key: {value!r}")

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
        if position in self._instants:
            for value in values:
                if value is not None and (value.nanos % 1000 or not _FIRST_SECOND <= value.seconds <= _LAST_SECOND):
                    raise TypeMismatchError(
                        f"column {self.names[position]!r} holds microseconds of the years 1 to 9999; got {value!r}",
                        hint="round such times before, or take a function of each record instead of columns.",
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
            table = _from_frame(table, what)
        if not isinstance(table, pa.RecordBatch | pa.Table):
            raise TypeMismatchError(
                f"{what} must return a pyarrow.RecordBatch, a pyarrow.Table or a pandas.DataFrame; "
                f"got an instance of {type(table).__name__}"
            )
        names = table.schema.names
        if len(names) != len(self.names) or (self.is_row and set(names) != set(self.names)):
            raise TypeMismatchError(f"{what} must return the columns {list(self.names)}; got {names}")
        arrays = []
        for position, field in enumerate(self.schema):
            column = whole(table.column(field.name if self.is_row else position))
            if column.null_count and not self.is_row:
                raise TypeMismatchError(
                    f"{what}: column {field.name!r} has nulls; only fields of rows may be None",
                    hint="filter such records out before, or return rows.",
                )
            try:
                arrays.append(_cast(column, field.type))
            except pa.ArrowException as error:
                raise TypeMismatchError(
                    f"{what}: column {field.name!r} must be {field.type}; got {column.type}: {error}"
                ) from error
            if pa.types.is_map(field.type):
                try:
                    self._check_nested(len(arrays) - 1, arrays[-1])
                except (ValueError, OverflowError) as error:
                    raise TypeMismatchError(f"{what}: column {field.name!r}: {error}") from error
            if pa.types.is_temporal(field.type):
                try:
                    pc.min_max(arrays[-1]).as_py()
                except (ValueError, OverflowError) as error:
                    raise TypeMismatchError(
                        f"{what}: column {field.name!r} has a time outside the years 1 to 9999, which no record has: {error}"
                    ) from error
        return self.batch(arrays)


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
            if not same or _has_inner_map(have) or (have != field.type and (rows.local or not pa.types.is_timestamp(have))):
                return None
        return positions


def _has_inner_map(arrow: pa.DataType) -> bool:
    """Return whether values of a type contain maps, in which nothing looks for two entries of a key."""
    if pa.types.is_map(arrow):
        parts = [arrow.key_type, arrow.item_type]
    else:
        parts = [arrow.field(index).type for index in range(arrow.num_fields)]
    return any(pa.types.is_map(part) or _has_inner_map(part) for part in parts)


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


def _kind_shown(record: Any) -> str:
    return "" if record is None else f" of kind {record.get_row_kind().name}"


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column as another type; raise ArrowException if values would not keep their meaning, such as texts as numbers."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    nested = pa.types.is_nested(wanted) and pa.types.is_nested(column.type)
    narrowed = pa.types.is_float32(wanted) and pa.types.is_float64(column.type)
    if not (nested or narrowed or pa.types.is_null(column.type) or is_widened(column.type, wanted)):
        raise pa.ArrowInvalid("that is another kind of values")
    found = column.cast(wanted)
    if narrowed and pc.any(pc.and_(pc.is_finite(column), pc.is_inf(found))).as_py():
        raise pa.ArrowInvalid("a number is too large for it")
    return found


def frame_of(batch: pa.RecordBatch) -> Any:
    """Return a batch as a DataFrame, in which columns of numbers and booleans with nulls have pandas' nullable types.

    As floats, large integers would be rounded, and a null would be the same as NaN.
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
    return batch.to_pandas(types_mapper=lambda arrow: nullable.get(arrow) if arrow in absent else None)


def _from_frame(frame: Any, what: str) -> pa.Table:
    """Return a DataFrame as a table, in which NaN of float columns stays NaN; None and pandas.NA become null."""
    arrays = []
    for position, name in enumerate(frame.columns):
        series = frame.iloc[:, position]
        try:
            arrays.append(pa.array(series.to_numpy() if series.dtype in (float, "float32") else series))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TypeMismatchError(f"{what}: the values of column {name!r} cannot be a column: {error}") from error
    return pa.table(arrays, names=list(map(str, frame.columns)))
