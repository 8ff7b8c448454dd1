"""Global windows with reduce or aggregate that fire at every n-th record of a key and keep what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkish.common.columns import Columns
from flinkish.runtime.operators.waiting import GatheringOperator
from flinkish.runtime.operators.window.contents import FoldedContents
from flinkish.runtime.operators.window.operator import WindowOperator
from flinkish.runtime.state.backend import ValueTable
from flinkish.runtime.state.tables import Namespaced
from flinkish.udf.aggregates import FieldAggregates
from flinkish.udf.window.windows import GlobalWindow

if TYPE_CHECKING:
    from flinkish.common.column_layout import Layout
    from flinkish.runtime.operators.column_fold import ColumnFold


class GlobalCountsOperator(GatheringOperator, WindowOperator):
    """Folds columns as rolling aggregates, of which every n-th result of a key is shown; records go one by one."""

    def open(self) -> None:
        super().open()
        assert isinstance(self.contents, FoldedContents)
        self._table = self.contents.table
        trigger: Any = self.trigger
        self._size: int = trigger._window_size
        self._counts: ValueTable = self.contents.scope.table_of(trigger._count_state_descriptor)[0]
        #: What folds columns, and their results; made with the first ones, so that only jobs that have some import Arrow.
        self._columns: tuple[ColumnFold, Layout] | None = None

    def process_gathered(self, columns: Columns) -> bool:
        import numpy as np

        from flinkish.common.column_layout import needed_layout
        from flinkish.runtime.operators.column_fold import ColumnFold, add_up, rounds_of

        if self._columns is None:
            assert isinstance(self.config.fold, FieldAggregates)
            self._columns = ColumnFold(self.config.fold), needed_layout(self.node.output_type, self.node.name)
        fold, layout = self._columns
        codes, keys = columns.groups()
        namespace = self.namespaces.of(GlobalWindow())
        addresses = [Namespaced(key, namespace) for key in keys]
        self._table.expect(addresses)
        self._counts.expect(addresses)
        found = fold.rolled(codes, self._table.get_all(addresses), columns, layout)
        if found is None:
            return False
        results, after = found
        self._table.put_all(addresses, after)
        counts = np.array([count or 0 for count in self._counts.get_all(addresses)], np.int64)
        numbers = add_up(np.add, counts, codes, np.ones(len(codes), np.int64), rounds_of(codes))
        for address, count in zip(addresses, (counts % self._size).tolist(), strict=True):
            if count:
                self._counts.put(address, count)
            else:
                self._counts.remove(address)
        full = np.flatnonzero(numbers % self._size == 0)
        if len(full):
            self.output.columns(Columns(layout, results, columns.timestamps).take(full))
        return True
