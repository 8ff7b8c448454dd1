"""Windows of a number of records with reduce or aggregate and the assigner's default trigger: the common case, made fast."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from flinkish.common.columns import Columns
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.function import keyed
from flinkish.runtime.operators.waiting import GatheringOperator
from flinkish.runtime.operators.window.contents import copying, fold_state
from flinkish.runtime.operators.window.operator import BaseWindowOperator
from flinkish.runtime.operators.window.restored import (
    CONTENTS,
    counted_name,
    refuse_other_kind,
    refuse_other_windows,
    refuse_timers,
)
from flinkish.runtime.state.backend import ValueTable
from flinkish.runtime.state.handles import Fold
from flinkish.runtime.state.tables import Namespaced, namespace_of
from flinkish.udf.window.windows import CountWindow

if TYPE_CHECKING:
    from flinkish.runtime.operators.window.count_columns import CountColumns


#: Maximum number of records that are folded together, each as often as there are windows with it.
_MOST_FOLDED = 1 << 21


class CountWindowsOperator(GatheringOperator, BaseWindowOperator):
    """Keeps the number of records of each key and the accumulators of its open windows; one goes when its window is full."""

    def open(self) -> None:
        self._size: int = self.assigner._window_size
        self._slide: int = getattr(self.assigner, "_window_slide", self._size)
        # A record takes memory for each of its windows.
        self.enough = max(1, min(self.enough, _MOST_FOLDED // -(-self._size // self._slide)))
        self._counts: ValueTable = self.backend.table_of(self.assigner._count_descriptor)[0]
        name = counted_name(self._size, self._slide)
        self._table: ValueTable
        self._table, convert = self.backend.in_namespace().table_of(fold_state(self.fold_function, self.fold_type, name))
        self._fold = Fold(self.fold_function, repr(self.node.name), convert, copy=copying(self._table.codec))
        #: What folds columns; made with the first ones, so that only jobs that have some import Arrow.
        self._columns: CountColumns | None = None
        super().open()
        if self.context.restored_checkpoint is not None:
            refuse_timers(self.context.state, self.timers)
            if CONTENTS in self.context.state.unclaimed():
                self._take_over()
        refuse_other_windows(self.context.state, name)

    def _take_over(self) -> None:
        """Take over open windows that operator.py stored, which keeps full ones, too; its trigger counts the records of each."""
        scope = self.backend.in_namespace()
        contents: ValueTable = scope.table_of(fold_state(self.fold_function, self.fold_type))[0]
        trigger: Any = self.config.trigger
        counted: ValueTable = scope.table_of(trigger._count_state_descriptor)[0]
        if any(namespace_of(address).__class__ is not int for address in chain(contents.addresses(), counted.addresses())):
            refuse_other_kind(self.context.state.uid, self.assigner)
        places: dict[Any, int] = {}
        for key in self._counts.addresses():
            count = self._counts.get(key) or 0
            places.update((Namespaced(key, number), count - number * self._slide) for number in self._windows_of(count - 1))
        still_open = {address: place for address, place in places.items() if place < self._size}
        if still_open != {address: counted.get(address) for address in counted.addresses()}:
            refuse_other_kind(self.context.state.uid, self.assigner)
        for address in still_open:
            self._table.put(address, contents.get(address))
        contents.forget(logged=True)
        counted.forget(logged=True)

    def _windows_of(self, record: int) -> range:
        """Return the numbers of the windows of a record, given by its number among those of its key, the last one first."""
        return range(record // self._slide, max(-1, (record - self._size) // self._slide), -1)

    def process_records(self, input_index: int, records: Records) -> None:
        self.flush()
        backend, counts, table, into = self.backend, self._counts, self._table, self._fold.into
        size, slide = self._size, self._slide
        for value, timestamp, key in keyed(records):
            backend.current_key = key
            count = counts.get(key) or 0
            counts.put(key, count + 1)
            for number in self._windows_of(count):
                address, place = Namespaced(key, number), count - number * slide
                accumulator = into(table.get(address) if place else None, value)
                if place + 1 < size:
                    table.put(address, accumulator)
                    continue
                if place:
                    table.remove(address)
                self.emit_folded(CountWindow(number), number, accumulator, timestamp)

    def process_columns(self, columns: Columns, input_index: int = 0) -> None:
        for start in range(0, len(columns), self.enough):
            super().process_columns(columns.slice(start, self.enough), input_index)

    def process_gathered(self, columns: Columns) -> bool:
        if self._columns is None:
            from flinkish.runtime.operators.window.count_columns import CountColumns

            self._columns = CountColumns(self.node, self._counts, self._table, self._size, self._slide)
        codes, keys = columns.groups()
        self.expect(keys)
        full = self._columns.add(codes, keys, columns)
        if full is None:
            return False
        results = self._columns.results(full) if full else None
        if results is not None:
            self.output.columns(results)
            return True
        for key, number, accumulator, timestamp in full:
            self.backend.current_key = key
            self.emit_folded(CountWindow(number), number, accumulator, timestamp)
        return True
