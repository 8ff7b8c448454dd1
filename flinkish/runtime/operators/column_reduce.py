"""Columns through sum, min, max, min_by and max_by of a field, with the results that the records would have one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common.column_layout import Layout
from flinkish.common.columns import Columns
from flinkish.common.errors import TypeMismatchError
from flinkish.common.kinds import BOUNDS, kind_of
from flinkish.runtime.operators.column_fold import add_up, rounds_of, sums_are_exact
from flinkish.udf.rolling import AggregatingReduceFunction, Aggregation, cut_to_milliseconds


class ColumnReduce:
    """Reduces runs of columns with a certain function, whose field has integers or DOUBLEs."""

    def __init__(self, function: AggregatingReduceFunction, layout: Layout) -> None:
        field = layout.position(function.position)
        assert field is not None
        self._field = field
        self._layout = layout
        self._aggregation = function.aggregation
        self._times = [position for position, part in enumerate(layout.types) if cut_to_milliseconds(part)]
        self._bounds = BOUNDS.get(kind_of(layout.types[field]))

    def reduce(self, codes: Any, before: Sequence[Any], columns: Columns) -> tuple[pa.RecordBatch, list[Any]] | None:
        """Return the reduced records after each record of a run, and the last one of each key; None if columns cannot do it.

        `codes`: for each record, the number of its key; `before`: the reduced record of each key, None if it has none yet.
        """
        known = np.array([record is not None for record in before])
        try:
            stored = self._layout.columns_of([record for record in before if record is not None], None)
        except TypeMismatchError:
            return None
        # First the reduced records of before, then those of the run.
        rows = pa.concat_batches([stored.batch, columns.batch])
        for position in self._times:
            rows = rows.set_column(
                position, rows.schema.field(position), pc.floor_temporal(rows.column(position), unit="millisecond")
            )
        field = rows.column(self._field)
        if field.null_count:
            return None
        run = np.arange(len(stored), len(rows))
        # For each key, the row that it begins with.
        first = np.empty(len(before), np.int64)
        first[codes[::-1]] = run[::-1]
        first[known] = np.arange(len(stored))
        if self._aggregation is Aggregation.SUM:
            places, values = first[codes], self._sums(codes, known, first, field.to_numpy(), run)
        else:
            best = self._best(codes, first, field.to_numpy(), run)
            whole = self._aggregation in (Aggregation.MIN_BY, Aggregation.MAX_BY)
            places, values = best if whole else first[codes], None if best is None else field.take(pa.array(best))
        if values is None:
            return None
        reduced = rows.take(pa.array(places)).set_column(self._field, rows.schema.field(self._field), values)
        last = np.empty(len(before), np.int64)
        last[codes] = np.arange(len(codes))
        return reduced, self._layout.records_of(reduced.take(pa.array(last)))

    @np.errstate(over="ignore", invalid="ignore")  # infinity and NaN are results, as of Python
    def _sums(self, codes: Any, known: Any, first: Any, values: Any, run: Any) -> pa.Array | None:
        """Return the sum after each record; None if one leaves 64 bits or its type."""
        fresh = values[run] if self._bounds is None else values[run].astype(np.int64)
        # 0.0 would make a sum of -0.0 alone 0.0.
        sums = np.where(known, values[first], -0.0 if self._bounds is None else 0).astype(fresh.dtype)
        if not sums_are_exact(sums, fresh):
            return None
        found = add_up(np.add, sums, codes, fresh, rounds_of(codes))
        if self._bounds is not None and not self._bounds[0] <= found.min() <= found.max() <= self._bounds[1]:
            return None
        return pa.array(found.astype(values.dtype))

    def _best(self, codes: Any, first: Any, values: Any, run: Any) -> Any:
        """Return, after each record, the row with the least or greatest value, the first one among equals."""
        least = self._aggregation in (Aggregation.MIN, Aggregation.MIN_BY)
        beats, extreme = (np.less, np.minimum) if least else (np.greater, np.maximum)
        rounds, frequent = rounds_of(codes)
        if frequent and np.isnan(values).any():
            return None
        best, found = first.copy(), np.empty(len(codes), np.int64)
        for places in rounds:
            own, rows = codes[places], run[places]
            before = best[own]
            found[places] = best[own] = np.where(beats(values[rows], values[before]), rows, before)
        for places in frequent:
            code = codes[places[0]]
            rows = np.r_[best[code], run[places]]
            reached = extreme.accumulate(values[rows])
            improved = np.r_[False, beats(reached[1:], reached[:-1])]
            leading = rows[np.maximum.accumulate(np.where(improved, np.arange(len(rows)), 0))]
            found[places], best[code] = leading[1:], leading[-1]
        return found
