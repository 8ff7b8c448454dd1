"""Aligned windows of aggregates by field, with columns that are folded into all keys of a window at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.common.column_layout import needed_layout
from flinkish.common.columns import Columns, concat
from flinkish.graph.stream_graph import StreamNode
from flinkish.program.operators import WindowConfig
from flinkish.runtime.operators.column_fold import ColumnFold, slots_of
from flinkish.runtime.state.backend import PaneTable
from flinkish.udf.aggregates import FieldAggregates

#: Start and end of a window or pane: its namespace.
Span = tuple[int, int]

#: Maximum number of records that wait to be folded together.
_WAITING_RECORDS = 1 << 19


class FoldedWindows:
    """Folds columns into windows, and shows the results of windows as columns."""

    def __init__(self, node: StreamNode) -> None:
        """Make one for a window operator with such aggregates."""
        config = node.operator
        assert isinstance(config, WindowConfig)
        assert isinstance(config.fold, FieldAggregates)
        self._aggregates = config.fold
        self._layout = needed_layout(node.output_type, node.name)
        self._fold = ColumnFold(config.fold)

    def _shown(
        self, keys: Sequence[Any], accumulators: Sequence[tuple[Any, ...]], span: tuple[Any, Any], times: pa.Array | None
    ) -> Columns | None:
        """Return the results of windows as columns; None if they cannot be columns.

        For each window: its key, accumulator, start and end (`span`, arrays of milliseconds), and the timestamp of the result.
        """
        outer = self._fold.shown_keys(keys, self._layout)
        if outer is None:
            return None
        for kind, array in zip(("window_start", "window_end"), span, strict=True):
            if self._fold.place_of(kind) is not None:
                outer[kind] = pa.array(array)
        try:
            slots = self._fold.arrays(accumulators)
        except OverflowError:  # a sum of panes; its result is refused as any other
            return None
        batch = self._fold.results(slots, outer, self._layout)
        return None if batch is None else Columns(self._layout, batch, times)


class WindowColumns(FoldedWindows):
    """Columns that wait to be folded into windows, and results as columns.

    Records of a run wait until a window is due, the epoch ends, or there are many: so each key is looked up less often.
    """

    def __init__(self, node: StreamNode, table: PaneTable, by_records: Callable[[Span, Columns], None]) -> None:
        """Make one for a table of windows; `by_records` folds what columns cannot, one by one."""
        super().__init__(node)
        self._table = table
        self._by_records = by_records
        self._waiting: dict[Span, list[Columns]] = {}
        self._records = 0

    def hold(self, spans: Mapping[Span, Sequence[int]], starts: Any, columns: Columns) -> None:
        """Fold columns into windows, now or later, in the order of their arrival.

        `starts`: for each record, when its stretch of time begins; `spans`: for each window, the stretches that it has.
        """
        for span, its in spans.items():
            mine = self.of_stretches(its, starts, columns)
            self._waiting.setdefault(span, []).append(mine)
            self._records += len(mine)
        if self._records >= _WAITING_RECORDS:
            self.flush()

    @staticmethod
    def of_stretches(chosen: Sequence[int], starts: Any, columns: Columns) -> Columns:
        """Return the records of some stretches of time."""
        mask = np.isin(starts, chosen)
        return columns if mask.all() else columns.take(np.flatnonzero(mask))

    def flush(self) -> None:
        """Fold all columns that wait."""
        waiting, self._waiting, self._records = self._waiting, {}, 0
        for span, its in waiting.items():
            for _, runs in groupby(its, attrgetter("combined")):
                columns = concat(list(runs))
                codes, keys = columns.groups()
                after = self._fold.fold(codes, self._table.get_all(span, keys), columns)
                if after is None:
                    self._by_records(span, columns)
                else:
                    self._table.put_all(span, keys, after)

    @staticmethod
    def accumulators(columns: Columns) -> list[tuple[Any, ...]]:
        """Return the accumulators that combined columns have."""
        return list(zip(*[slot.to_pylist() for slot in slots_of(columns)], strict=True))

    def results(self, window: Span, keys: Sequence[Any], accumulators: Sequence[tuple[Any, ...]]) -> Columns | None:
        """Return the results of a window for its keys; None if they cannot be columns."""
        # A start that is not shown may be before all 64 bits.
        start, end = (
            np.full(len(keys), 0 if self._fold.place_of(kind) is None else time, np.int64)
            for kind, time in zip(("window_start", "window_end"), window, strict=True)
        )
        times = pa.array(np.full(len(keys), window[1] - 1, np.int64))
        return self._shown(keys, accumulators, (start, end), times)
