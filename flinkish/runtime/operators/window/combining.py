"""Aggregates columns by key and window before they are sent, so that few of many records of a key pass the exchange.

Only where no result depends on it, but for the sign of zero: the aggregates may be computed in any order. What is held back is
sent before the watermark that ends the first of its windows, so it is not late if its records were not. Windows with allowed
lateness would fire once for all that is combined, and late records themselves may be asked for: such windows get all records.

A run of combined columns has the fields of the key, the number of records, and the slots of the accumulator; its timestamps are
some time in the windows. Both the sender and the receiver group records by the stretches of time in between which windows begin
or end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.common.column_layout import Layout, needed_layout
from flinkish.common.columns import Columns, concat, numbered
from flinkish.common.kinds import shape_of
from flinkish.common.limits import LONG_MAX
from flinkish.common.typeinfo import Types
from flinkish.graph.columns import combined_before
from flinkish.graph.stream_graph import StreamNode
from flinkish.program.operators import WindowConfig
from flinkish.runtime.operators.column_fold import ColumnFold
from flinkish.runtime.operators.window.aligned import distinct_of, starts_of, stretch_of

#: Number of records, and their bytes, that are held at most, and the least number of records for which combining pays.
_MOST_RECORDS = 1 << 19
_MOST_BYTES = 16 << 20
_LEAST_RECORDS = 1 << 12
#: Least number of records for each key and stretch of time: with fewer, grouping takes longer than it saves.
_LEAST_IN_GROUP = 16


class Combiner:
    """Holds back the columns that one subtask sends to windows, and combines them."""

    def __init__(self, target: StreamNode) -> None:
        config, aggregates = target.operator, combined_before(target)
        assert isinstance(config, WindowConfig)
        assert aggregates is not None
        self._event_time = config.assigner.is_event_time()
        self._offset, self._length = stretch_of(config.assigner)
        self._what = target.name
        self._fold = ColumnFold(aggregates)
        _, self._slot_types = shape_of(aggregates.accumulator_type)
        self._layout: Layout | None = None
        self._runs: list[Columns] = []
        #: For each run, when the stretches of its records begin.
        self._starts: list[Any] = []
        self._records = 0
        #: Bytes that would be sent if nothing were combined.
        self.nbytes = 0
        #: The last timestamp of the earliest stretch that is held.
        self._first_end = LONG_MAX

    @property
    def is_full(self) -> bool:
        return self._records >= _MOST_RECORDS or self.nbytes >= _MOST_BYTES

    def hold(self, columns: Columns, passed: int) -> bool:
        """Hold a run back; return False if it must be sent as it is. `passed` is the watermark that was sent last."""
        starts = self._starts_of(columns)
        if starts is None:
            return False
        if self._event_time:
            end = int(starts.min()) + self._length - 1
            if end <= passed:
                return False
            self._first_end = min(self._first_end, end)
        self._runs.append(columns)
        self._starts.append(starts)
        self._records += len(columns)
        self.nbytes += columns.nbytes
        return True

    def ends_by(self, watermark: int) -> bool:
        """Tell whether a watermark may end a window of what is held."""
        return self._first_end <= watermark

    def take(self) -> tuple[Columns, bool] | None:
        """Return what was held, combined if that is exact and pays, and whether it does not pay; None if nothing was held."""
        runs, starts, records = self._runs, self._starts, self._records
        if not runs:
            return None
        self._runs, self._starts, self._records, self.nbytes, self._first_end = [], [], 0, 0, LONG_MAX
        columns = concat(runs)
        slots = None if records < _LEAST_RECORDS else self._fold.slots([], columns)
        if slots is None:
            return columns, False
        combined = self._combined(columns, np.concatenate(starts), slots)
        return (columns, True) if combined is None else (combined, False)

    def _starts_of(self, columns: Columns) -> Any:
        if not self._event_time:
            return np.zeros(len(columns), np.int64)
        if columns.timestamps is None or columns.timestamps.null_count:
            return None
        starts = starts_of(columns.timestamps.to_numpy(), self._offset, self._length)
        # Starts become timestamps of what is combined, so they need a stretch as well.
        return None if starts is None or starts_of(starts, self._offset, self._length) is None else starts

    def _combined(self, columns: Columns, starts: Any, slots: list[Any]) -> Columns | None:
        """Return a run combined; None if that does not pay. `slots`: those of the fold."""
        assert columns.key_fields is not None
        distinct = distinct_of(starts)
        keys = [columns.column(field) for field in columns.key_fields]
        codes, values = numbered(keys) if keys else (np.zeros(len(columns), np.int64), [])
        size = len(values[0]) if keys else 1
        # A group is a key and a stretch of time; not each key has each stretch.
        most = size * len(distinct)
        if most > len(columns):
            return None
        if len(distinct) > 1:
            codes = codes + size * np.searchsorted(distinct, starts)
        counts = np.bincount(codes, minlength=most)
        groups = np.flatnonzero(counts)
        if _LEAST_IN_GROUP * len(groups) > len(columns):
            return None
        found = self._fold.combined(slots, codes, most)
        if self._layout is None:
            key_types = [columns.layout.types[field] for field in columns.key_fields]
            self._layout = needed_layout(Types.TUPLE([*key_types, Types.LONG(), *self._slot_types]), self._what)
        arrays = [value.take(pa.array(groups % size)) for value in values] + [pa.array(each[groups]) for each in (counts, *found)]
        batch = self._layout.batch([array.cast(part) for array, part in zip(arrays, self._layout.schema.types, strict=True)])
        times = pa.array(np.array(distinct)[groups // size]) if self._event_time else None
        return Columns(self._layout, batch, times, tuple(range(len(keys))), combined=True)
