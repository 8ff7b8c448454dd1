"""The records of each key with the greatest or least values of a field, as a stream of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkish.common.conversion import state_converter
from flinkish.common.errors import TypeMismatchError
from flinkish.common.typeinfo import RowTypeInfo
from flinkish.common.types import Row, RowKind
from flinkish.udf.functions import FlatMapFunction, RuntimeContext
from flinkish.udf.state import ListState, ListStateDescriptor, ValueState, ValueStateDescriptor


class TopN(FlatMapFunction):
    """Keeps the `n` first records of each key in the order of a field, the earlier one first among equals.

    Returns what a record changes: the record that it displaces, as DELETE, and itself, as INSERT; nothing if it is not among
    the first. None is less than all other values, NaN is greater.
    """

    def __init__(self, n: int, field: str, record_type: RowTypeInfo, *, ascending: bool) -> None:
        self.n = n
        self.field = field
        self.ascending = ascending
        self._convert = state_converter(record_type)
        #: The value of the last of `n` records, so that most others are dropped without a look at the records.
        self.bound = ValueStateDescriptor("_bound", record_type.field_types[record_type.field_names.index(field)])
        self._first = ListStateDescriptor("_first", record_type)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._bound: ValueState[Any] = runtime_context.get_state(self.bound)
        self._records: ListState[Row] = runtime_context.get_list_state(self._first)

    def flat_map(self, value: Row) -> Sequence[Row]:
        """Raise TypeMismatchError for a record of another kind than INSERT."""
        if value.get_row_kind() is not RowKind.INSERT:
            raise TypeMismatchError(
                f"top_n() needs records of kind INSERT, because it forgets those that it does not keep; got {value!r} of kind "
                f"{value.get_row_kind().name}",
                hint="filter() the stream before, or keep all records of a key in a KeyedProcessFunction.",
            )
        bound = self._bound.value()
        if bound is not None and not self._precedes(value[self.field], bound):
            return ()
        # State cuts times to milliseconds; so compared and emitted are what it holds.
        record = value if self._convert is None else self._convert(value)
        records = self.records()
        place = len(records)
        while place and self._precedes(record[self.field], records[place - 1][self.field]):
            place -= 1
        if place == self.n:
            return ()
        changes = [record]
        records.insert(place, record)
        if len(records) > self.n:
            displaced = records.pop()
            displaced.set_row_kind(RowKind.DELETE)
            changes.insert(0, displaced)
        self._records.update(records)
        last = records[-1][self.field]
        # State holds no None; without a bound, or with an earlier one, the records decide.
        if len(records) == self.n and last is not None:
            self._bound.update(last)
        return changes

    def records(self) -> list[Row]:
        """Return copies of the records of the current key, in order."""
        return list(self._records.get())

    def _precedes(self, value: Any, other: Any) -> bool:
        return _order(value) < _order(other) if self.ascending else _order(value) > _order(other)


def _order(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    return (1, value) if value == value else (2,)
