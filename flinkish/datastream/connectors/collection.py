"""The source of from_collection: values that are sent with the program."""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from flinkish.common.conversion import lenient_converter
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.pickling import dumps, loads
from flinkish.common.records import is_one_record, is_table
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._sequences import FixedSplitsEnumerator, SequentialReader
from flinkish.program.sources import (
    Boundedness,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)

_SCALARS = frozenset(
    {int, float, complex, str, bool, bytes, type(None), decimal.Decimal}
    | {datetime.date, datetime.datetime, datetime.time, datetime.timedelta}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSplit(SourceSplit):
    """The elements of the collection from index `position` on."""

    position: int


class CollectionSource(Source[Any, CollectionSplit, tuple[CollectionSplit, ...]]):
    """Emits the elements of a collection in their order, with one reader. An iterator, which may never end, is refused.

    With a type the elements are converted when the source is made, as leniently as in Flink: a row may be given as a list, tuple,
    dict or object. A pandas DataFrame is the collection of its rows. The elements of a set are sorted. Raises TypeMismatchError
    for elements that cannot be converted, and InvalidArgumentError if the argument is no collection of records.
    """

    is_in_program = True

    def __init__(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> None:
        elements = _rows(collection, type_info) if is_table(collection) else _checked(collection)
        convert = None if type_info is None else lenient_converter(type_info)
        self._values = tuple(elements) if convert is None else tuple(map(convert, elements))
        self._type_info = type_info
        self._immutable = all(map(_is_immutable, self._values))

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def split_type(self) -> type[CollectionSplit]:
        return CollectionSplit

    @property
    def enumerator_checkpoint_type(self) -> Any:
        return tuple[CollectionSplit, ...]

    def create_enumerator(
        self, context: SplitEnumeratorContext[CollectionSplit]
    ) -> SplitEnumerator[CollectionSplit, tuple[CollectionSplit, ...]]:
        return FixedSplitsEnumerator(context, [CollectionSplit(split_id="0", position=0)] if self._values else [])

    def restore_enumerator(
        self, context: SplitEnumeratorContext[CollectionSplit], checkpoint: tuple[CollectionSplit, ...]
    ) -> SplitEnumerator[CollectionSplit, tuple[CollectionSplit, ...]]:
        return FixedSplitsEnumerator(context, checkpoint)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, CollectionSplit]:
        return _CollectionReader(self._values, self._immutable)

    def produced_type(self) -> TypeInformation | None:
        return self._type_info


def _rows(table: Any, type_info: TypeInformation | None) -> Iterable[Any]:
    """Return the rows of a pandas DataFrame; raises InvalidArgumentError for other tables."""
    # A program with a DataFrame has already imported pandas; others do not need it.
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(table, pandas.DataFrame):
        raise InvalidArgumentError(
            f"from_collection takes a collection of records or a pandas DataFrame, not another table; {_shown(table)}",
            hint="give its rows, or a DataFrame: table.to_pylist() or table.to_pandas() of Arrow, frame.rows() of Polars.",
        )
    from flinkish.datastream.connectors._frames import rows_of_frame

    return rows_of_frame(table, type_info)


def _shown(value: Any) -> str:
    shown = repr(value)
    return f"got {shown if len(shown) <= 200 else shown[:200] + '...'} of type {type(value).__name__}"


def _checked(collection: Any) -> Iterable[Any]:
    """Return the collection of records; raise InvalidArgumentError for other values."""
    got = _shown(collection)
    if not isinstance(collection, Iterable):
        raise InvalidArgumentError(f"from_collection takes an iterable of elements; {got}")
    if is_one_record(collection):
        if isinstance(collection, dict):
            hint = (
                "from_collection(list(value.items())) makes a stream of its pairs, from_collection([value]) of the dict itself."
            )
        else:
            hint = "from_collection([value]) makes a stream of it, from_collection(list(value)) of its parts."
        raise InvalidArgumentError(f"from_collection takes a collection of records, not a single one; {got}", hint=hint)
    if isinstance(collection, Iterator):
        raise InvalidArgumentError(
            f"from_collection takes a collection, which has an end; {got}, an iterator, would be read to its end now.",
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
            self._splits.update(replace(split, position=stop))
