"""Windows of a number of records of aggregates by field: columns are folded into the windows of all their keys at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.common.columns import Columns
from flinkish.graph.stream_graph import StreamNode
from flinkish.runtime.operators.window.columns import FoldedWindows
from flinkish.runtime.state.backend import ValueTable
from flinkish.runtime.state.tables import Namespaced

#: Key, number of the window, accumulator, timestamp of the result.
FullWindow = tuple[Any, int, tuple[Any, ...], int | None]


class CountColumns(FoldedWindows):
    """Cuts the records of each key into windows, and folds each part of a run into its window."""

    def __init__(self, node: StreamNode, counts: ValueTable, table: ValueTable, size: int, slide: int) -> None:
        """Make one for tables of the number of records of each key, and of the accumulators of open windows.

        Windows have `size` records each, and one begins every `slide` records.
        """
        super().__init__(node)
        self._counts = counts
        self._table = table
        self._size = size
        self._slide = slide

    def add(self, codes: Any, keys: Sequence[Any], columns: Columns) -> list[FullWindow] | None:
        """Fold columns, and return the windows that became full, in the order of their last records.

        `codes`: for each record, the number of its key. Returns None, with nothing changed, if columns cannot do it.
        """
        size, slide, table = self._size, self._slide, self._table
        before = np.array([count or 0 for count in self._counts.get_all(keys)], np.int64)
        order = np.argsort(codes, kind="stable")
        owners = codes[order]
        begins = np.flatnonzero(np.r_[True, np.diff(owners) != 0])
        lengths = np.diff(np.r_[begins, len(order)])
        after = before + lengths
        # For each record, in the order of keys, its number among those of its key, and its windows.
        numbers = before[owners] + np.arange(len(order)) - np.repeat(begins, lengths)
        last_windows = numbers // slide
        overlaps = np.maximum(0, last_windows - np.maximum(-1, (numbers - size) // slide))
        # The same for each record in each of its windows, in the order of these.
        each = np.repeat(np.arange(len(order)), overlaps)
        windows = last_windows[each] - (np.arange(len(each)) - np.repeat(np.cumsum(overlaps) - overlaps, overlaps))
        sorting = np.lexsort((windows, owners[each]))
        each, windows = each[sorting], windows[sorting]
        rows, owners, places = order[each], owners[each], numbers[each] - windows * slide
        # Where a key's records begin, or those of a window; nowhere if all are between windows.
        first = np.flatnonzero(np.r_[True, (np.diff(owners) != 0) | (np.diff(windows) != 0)][: len(each)])
        last = np.r_[first[1:], len(each)][: len(first)] - 1
        parts = np.repeat(np.arange(len(first)), last - first + 1)
        addresses = list(map(Namespaced, [keys[owner] for owner in owners[first].tolist()], windows[first].tolist()))
        going_on = (places[first] != 0).tolist()
        met = [address for address, goes_on in zip(addresses, going_on, strict=True) if goes_on]
        table.expect(met)
        there = iter(table.get_all(met))
        accumulators = self._fold.fold(parts, [next(there) if goes_on else None for goes_on in going_on], columns.take(rows))
        if accumulators is None:
            return None
        self._counts.put_all(keys, after.tolist())
        ends = places[last] == size - 1
        still_open = np.flatnonzero(~ends).tolist()
        table.put_all([addresses[part] for part in still_open], [accumulators[part] for part in still_open])
        full = np.flatnonzero(ends)
        full = full[np.argsort(rows[last[full]])].tolist()
        for part in full:
            if going_on[part]:
                table.remove(addresses[part])
        times = columns.timestamps
        stamps = [None] * len(full) if times is None else times.take(pa.array(rows[last[full]], pa.int64())).to_pylist()
        return [
            (addresses[part].key, addresses[part].namespace, accumulators[part], stamp)
            for part, stamp in zip(full, stamps, strict=True)
        ]

    def results(self, full: Sequence[FullWindow]) -> Columns | None:
        """Return the results of windows, at least one; None if they cannot be columns."""
        keys, _, accumulators, stamps = zip(*full, strict=True)
        nothing = np.zeros(len(full), np.int64)
        times = pa.array(stamps, pa.int64())
        timed = None if times.null_count == len(times) else times
        return self._shown(keys, accumulators, (nothing, nothing), timed)
