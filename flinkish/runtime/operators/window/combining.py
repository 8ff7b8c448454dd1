"""Aggregates columns by key and window before they are sent, so that few of many records of a key pass the exchange.

Only where no result depends on it. The aggregates are those of integers that may be computed in any order. What is held back is
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

from flinkish.common.column_layout import needed_layout
from flinkish.common.columns import Columns, concat, numbered
from flinkish.common.kinds import shape_of
from flinkish.common.limits import LONG_MAX
from flinkish.common.typeinfo import Types
from flinkish.graph.columns import combined_before
from flinkish.graph.stream_graph import StreamNode
from flinkish.program.operators import WindowConfig
from flinkish.runtime.operators.column_fold import ColumnFold
from flinkish.runtime.operators.window.aligned import distinct_of, starts_of, stretch_of

#: Number of records that are combined at a time, and the least number for which that pays.
_MOST_RECORDS = 1 << 19
_LEAST_RECORDS = 1 << 12
#: Least number of records for each group: with fewer, grouping takes longer than it saves.
_LEAST_IN_GROUP = 16
#: For how many times the records that were too few for each group all records are sent as they are, before the next try.
_PAUSE = 64


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
        self._read = aggregates.fields_read
        self._runs: list[Columns] = []
        #: For each run, when the stretches of its records begin.
        self._starts: list[Any] = []
        self._records = 0
        #: Bytes of what would be sent.
        self.nbytes = 0
        #: The last time of the first stretch that is held.
        self._first_end = LONG_MAX
        #: Number of records to be sent before the next try.
        self._pause = 0

    @property
    def is_full(self) -> bool:
        return self._records >= _MOST_RECORDS

    def forget(self) -> None:
        """Drop what is held."""
        self._runs, self._starts, self._records, self.nbytes, self._first_end = [], [], 0, 0, LONG_MAX

    def hold(self, columns: Columns, passed: int) -> bool:
        """Hold a run back; return False if it must be sent as it is. `passed` is the watermark that was sent last."""
        if self._pause > 0:
            self._pause -= len(columns)
            return False
        assert columns.key_fields is not None
        starts = self._starts_of(columns)
        if starts is None or any(columns.column(field).null_count for field in columns.key_fields):
            return False
        if self._event_time:
            end = int(starts.min()) + self._length - 1
            if end <= passed:
                return False
            self._first_end = min(self._first_end, end)
        self._runs.append(columns)
        self._starts.append(starts)
        self._records += len(columns)
        self.nbytes += self._read_part(columns).nbytes
        return True

    def ends_by(self, watermark: int) -> bool:
        """Tell whether a watermark may end a window of what is held."""
        return self._first_end <= watermark

    def take(self) -> tuple[list[Columns], Columns | None]:
        """Return the runs that were held, and all of them combined if that pays."""
        runs, starts, records = self._runs, self._starts, self._records
        self.forget()
        if records < _LEAST_RECORDS:
            return runs, None
        return runs, self._combined(concat([self._read_part(run) for run in runs]), np.concatenate(starts))

    def _read_part(self, columns: Columns) -> Columns:
        assert columns.key_fields is not None
        return columns.only({*self._read, *columns.key_fields})

    def _starts_of(self, columns: Columns) -> Any:
        if not self._event_time:
            return np.zeros(len(columns), np.int64)
        if columns.timestamps is None or columns.timestamps.null_count:
            return None
        starts = starts_of(columns.timestamps.to_numpy(), self._offset, self._length)
        # They are the times of what is sent.
        return None if starts is None or starts_of(starts, self._offset, self._length) is None else starts

    def _combined(self, columns: Columns, starts: Any) -> Columns | None:
        assert columns.key_fields is not None
        distinct = distinct_of(starts)
        keys = [columns.column(field) for field in columns.key_fields]
        codes, values = numbered(keys) if keys else (np.zeros(len(columns), np.int64), [])
        size = len(values[0]) if keys else 1
        # A group is a key and a stretch of time; not each key has each stretch.
        most = size * len(distinct)
        if most <= len(columns):
            codes = codes if len(distinct) == 1 else codes + size * np.searchsorted(distinct, starts)
            counts = np.bincount(codes, minlength=most)
            groups = np.flatnonzero(counts)
        if most > len(columns) or _LEAST_IN_GROUP * len(groups) > len(columns):
            self._pause = _PAUSE * len(columns)
            return None
        slots = self._fold.combined(codes, most, columns)
        if slots is None:
            return None
        types = [columns.layout.types[field] for field in columns.key_fields]
        layout = needed_layout(Types.TUPLE([*types, Types.LONG(), *self._slot_types]), self._what)
        arrays = [value.take(pa.array(groups % size)) for value in values] + [pa.array(each[groups]) for each in (counts, *slots)]
        batch = layout.batch([array.cast(part) for array, part in zip(arrays, layout.schema.types, strict=True)])
        times = pa.array(np.array(distinct)[groups // size]) if self._event_time else None
        return Columns(layout, batch, times, tuple(range(len(keys))), combined=True)
