"""The source of from_collection: values that are sent with the program."""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.common.conversion import lenient_converter
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.kinds import plain_type
from flinkish.common.pickling import dumps, loads
from flinkish.common.records import is_one_record, is_table
from flinkish.common.text import shortened
from flinkish.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from flinkish.common.types import rows_of
from flinkish.datastream.connectors._sequences import FixedSplitsSource, SequentialReader
from flinkish.program.sources import Boundedness, ReaderOutput, SourceReaderContext, SourceSplit

_SCALARS = frozenset(
    {int, float, complex, str, bool, bytes, type(None), decimal.Decimal}
    | {datetime.date, datetime.datetime, datetime.time, datetime.timedelta}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSplit(SourceSplit):
    """The elements of the collection from index `position` on."""

    position: int


class CollectionSource(FixedSplitsSource[Any, CollectionSplit]):
    """Emits the elements of a collection in their order, with one reader. An iterator, which may never end, is refused.

    With a type the elements are converted when the source is made, as leniently as in Flink: a row may be given as a list, tuple,
    dict or object. A pandas DataFrame is the collection of its rows. The elements of a set are sorted. Raises TypeMismatchError
    for elements that cannot be converted, and InvalidArgumentError if the argument is no collection of records.
    """

    boundedness = Boundedness.BOUNDED
    split_type = CollectionSplit
    is_in_program = True

    def __init__(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> None:
        elements = _rows(collection, type_info) if is_table(collection) else _checked(collection)
        convert = None if type_info is None else lenient_converter(type_info)
        self._values = tuple(elements) if convert is None else tuple(map(convert, elements))
        self._type_info = type_info
        self._immutable = all(map(_is_immutable, self._values))

    def splits(self, parallelism: int) -> list[CollectionSplit]:
        return [CollectionSplit(split_id="0", position=0)] if self._values else []

    def create_reader(self, context: SourceReaderContext) -> _CollectionReader:
        return _CollectionReader(self._values, self._immutable)

    def produced_type(self) -> TypeInformation | None:
        return self._type_info


def _rows(table: Any, type_info: TypeInformation | None) -> Iterable[Any]:
    """Return the rows of a pandas DataFrame in their order, without its index: as tuples if the type is a TUPLE, else as Rows.

    The fields of a ROW are found in the columns by name. They are found by position if the ROW has the default names (f0, f1,
    ...) and the columns have other names. Without a type the rows have the names of the columns. Values are Python objects;
    missing values are None, except for NaN in columns of floats. Raises InvalidArgumentError for other tables, and if the columns
    do not fit the type.
    """
    # A program with a DataFrame has already imported pandas; others do not need it.
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(table, pandas.DataFrame):
        raise InvalidArgumentError(
            f"from_collection takes a collection of records or a pandas DataFrame, not another table; {_shown(table)}",
            hint="give its rows, or a DataFrame: table.to_pylist() or table.to_pandas() of Arrow, frame.rows() of Polars.",
        )
    labels = list(table.columns)
    whole = None if type_info is None else plain_type(type_info)
    if whole is None:
        positions: Sequence[int] = range(len(labels))
        if len(set(labels)) < len(labels):
            raise InvalidArgumentError(f"from_collection: two columns of the DataFrame have the same name: {labels}.")
        names = tuple(labels) if all(isinstance(label, str) for label in labels) else None
    elif isinstance(whole, RowTypeInfo):
        names = tuple(whole.field_names)
        positions = _positions(labels, names)
    elif isinstance(whole, TupleTypeInfo):
        names = None
        positions = _by_position(labels, len(whole.field_types), whole)
    else:
        raise InvalidArgumentError(
            f"from_collection: the rows of a DataFrame are of type ROW or TUPLE, not {type_info!r}.",
            hint='for the values of one column: from_collection(frame["name"], type_info).',
        )
    columns = [_values(table.iloc[:, position]) for position in positions]
    return list(zip(*columns, strict=True)) if isinstance(whole, TupleTypeInfo) else rows_of(names, columns)


def _positions(labels: list[Any], names: tuple[str, ...]) -> Sequence[int]:
    missing = [name for name in names if name not in labels]
    if not missing:
        twice = [name for name in names if labels.count(name) > 1]
        if twice:
            raise InvalidArgumentError(f"from_collection: several columns of the DataFrame have the names {twice}.")
        return [labels.index(name) for name in names]
    if names == tuple(f"f{position}" for position in range(len(names))):
        return _by_position(labels, len(names), f"a ROW of {len(names)} fields")
    raise InvalidArgumentError(
        f"from_collection: the DataFrame has no columns {missing} for the fields of the row; it has {labels}.",
        hint="frame.rename(columns={...}) renames them.",
    )


def _by_position(labels: list[Any], count: int, what: object) -> Sequence[int]:
    if len(labels) != count:
        raise InvalidArgumentError(
            f"from_collection: the DataFrame has {len(labels)} columns, {labels}; {what!r} needs {count}.",
            hint="frame[[...]] chooses columns.",
        )
    return range(count)


def _values(column: Any) -> list[Any]:
    """Return the values of a column as Python objects, missing values as None; NaN in a column of floats is a value."""
    values: list[Any] = column.tolist()
    if column.dtype.kind != "f":
        return [None if missing else _python_value(value) for value, missing in zip(values, column.isna(), strict=True)]
    if type(column.dtype).__module__.startswith("numpy"):
        return values
    # pandas' own types of floats, such as Float64, have a missing value in addition to NaN.
    return [value if isinstance(value, float) else None for value in values]


def _python_value(value: Any) -> Any:
    """Return the datetime or timedelta for its pandas class; nanoseconds are cut off."""
    if type(value).__module__.startswith("pandas."):
        if hasattr(value, "to_pydatetime"):
            return value.to_pydatetime(warn=False)
        if hasattr(value, "to_pytimedelta"):
            return value.to_pytimedelta()
    return value


def _shown(value: Any) -> str:
    return f"got {shortened(repr(value))} of type {type(value).__name__}"


def _checked(collection: Any) -> Iterable[Any]:
    """Return the collection of records; raise InvalidArgumentError for other values."""
    if not isinstance(collection, Iterable):
        raise InvalidArgumentError(f"from_collection takes an iterable of elements; {_shown(collection)}")
    if is_one_record(collection):
        if isinstance(collection, dict):
            hint = (
                "from_collection(list(value.items())) makes a stream of its pairs, from_collection([value]) of the dict itself."
            )
        else:
            hint = "from_collection([value]) makes a stream of it, from_collection(list(value)) of its parts."
        raise InvalidArgumentError(
            f"from_collection takes a collection of records, not a single one; {_shown(collection)}", hint=hint
        )
    if isinstance(collection, Iterator):
        raise InvalidArgumentError(
            f"from_collection takes a collection, which has an end; {_shown(collection)}, an iterator, would be read to its end "
            "now.",
            hint="from_collection(list(value)) if it ends; else from_source(DataGeneratorSource(function), ...), whose function "
            "makes a record of each index, or add_source() of a SourceFunction, whose run() emits the records.",
        )
    if isinstance(collection, (set, frozenset)):
        # Any order is possible, but it must be the same in each process, as a restored job continues at a position.
        try:
            return sorted(collection)
        except TypeError:
            return sorted(collection, key=repr)
    return collection


def _is_immutable(value: Any) -> bool:
    kind = value.__class__
    return kind in _SCALARS or (kind is tuple and all(map(_is_immutable, value)))


class _CollectionReader(SequentialReader[Any, CollectionSplit]):
    def __init__(self, values: tuple[Any, ...], immutable: bool) -> None:
        super().__init__()
        self._values = values
        self._immutable = immutable

    def _read(self, split: CollectionSplit, output: ReaderOutput[Any]) -> None:
        output.select_split(split.split_id)
        stop = min(len(self._values), split.position + max(1, output.credit))
        values: Iterable[Any] = self._values[split.position : stop]
        if not self._immutable:
            # User code may change its arguments; if the epoch is repeated, the elements must be unchanged.
            values = (loads(dumps(value)) for value in values)
        output.collect_all(values)
        if stop >= len(self._values):
            self._finish(split, output)
        else:
            self._update(replace(split, position=stop))
