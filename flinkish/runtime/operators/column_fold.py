"""Folds columns into accumulators of aggregates, with the results that the records would have one by one.

Each method returns None where columns could not do the same: then the caller takes the records one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.common.columns import Columns
from flinkish.udf.aggregates import FieldAggregates, Slot

#: Sums of numbers below this stay exact and within 64 bits.
_SAFE_SUM = float(1 << 62)
#: Integers up to this are floats without a change.
_EXACT = 1 << 53
#: Minimum number of records for each round of running aggregates, in which each key has at most one.
_LEAST_IN_ROUND = 8

Accumulators = list[tuple[Any, ...]]


class ColumnFold:
    """Folds runs of columns with certain aggregates, whose accumulators are tuples of numbers."""

    def __init__(self, aggregates: FieldAggregates) -> None:
        self._aggregates = aggregates
        self._slots = aggregates.slots
        self._dtypes = [np.float64 if isinstance(start, float) else np.int64 for start in aggregates.starts]

    @np.errstate(over="ignore", invalid="ignore")  # infinity and NaN are results, as of Python
    def fold(self, codes: Any, before: Sequence[tuple[Any, ...] | None], columns: Columns) -> Accumulators | None:
        """Return the accumulators of groups with a run added.

        `codes`: for each record, the number of its group; `before`: the accumulator of each group, None if it is new.
        """
        after = []
        for slot, values in zip(self._slots, self.arrays(before), strict=True):
            known, fresh = self._fresh(slot, values.dtype, columns)
            if not _safe(slot, values, fresh):
                return None
            chosen = codes if known is None else codes[known]
            if slot.kind == "count":
                values += np.bincount(chosen, minlength=len(before))
            else:
                _COMBINE[slot.kind].at(values, chosen, fresh if known is None else fresh[known])
            after.append(values.tolist())
        return list(zip(*after, strict=True))

    @np.errstate(over="ignore", invalid="ignore")
    def running(
        self, codes: Any, before: Sequence[tuple[Any, ...] | None], columns: Columns
    ) -> tuple[list[Any], Accumulators] | None:
        """Return the slots as they are after each record, and the accumulators after the last one; arguments as in `fold`."""
        rounds = _rounds(codes)
        if len(rounds) * _LEAST_IN_ROUND > max(len(codes), _LEAST_IN_ROUND * _LEAST_IN_ROUND):
            return None
        results, after = [], []
        for slot, values in zip(self._slots, self.arrays(before), strict=True):
            known, fresh = self._fresh(slot, values.dtype, columns)
            if not _safe(slot, values, fresh):
                return None
            result = np.empty(len(codes), values.dtype)
            for places in rounds:
                own = codes[places]
                combined = _COMBINE[slot.kind](values[own], fresh[places])
                result[places] = values[own] = combined if known is None else np.where(known[places], combined, values[own])
            results.append(result)
            after.append(values.tolist())
        return results, list(zip(*after, strict=True))

    def arrays(self, accumulators: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Return the values of each slot of accumulators, None for new ones."""
        if not any(accumulators):
            starts = zip(self._aggregates.starts, self._dtypes, strict=True)
            return [np.full(len(accumulators), start, dtype) for start, dtype in starts]
        empty = self._aggregates.create_accumulator()
        columns = zip(*[accumulator or empty for accumulator in accumulators], strict=True)
        return [np.array(values, dtype) for values, dtype in zip(columns, self._dtypes, strict=True)]

    def results(self, slots: Sequence[Any], outer: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch | None:
        """Return the rows of results; `outer` has the columns of what accumulators do not know, by kind of aggregate."""
        arrays = []
        for aggregate, places, field in zip(self._aggregates.aggregates, self._aggregates.parts, schema, strict=True):
            if not places:
                arrays.append(outer[aggregate.kind])
                continue
            values, count = slots[places[0]], self._aggregates.counts[places[0]]
            unknown = slots[count] == 0 if count is not None and aggregate.kind != "count" else None
            if aggregate.kind == "avg":
                if values.dtype == np.int64 and np.abs(values).max(initial=0) >= _EXACT:
                    return None
                values = values / np.maximum(slots[places[1]], 1)
            arrays.append(pa.array(values, mask=unknown, from_pandas=False).cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _fresh(self, slot: Slot, dtype: Any, columns: Columns) -> tuple[Any, Any]:
        """Return which records of a run have a value for a slot, None for all; and the values, which are ones for counts."""
        column = None if slot.field is None else columns.column(slot.field)
        known = None
        if column is not None and column.null_count:
            known, column = column.is_valid().to_numpy(zero_copy_only=False), column.fill_null(0)
        if column is None or slot.kind == "count":
            return known, np.ones(len(columns), np.int64)
        return known, column.to_numpy().astype(dtype, copy=False)


_COMBINE: dict[str, Any] = {"sum": np.add, "count": np.add, "min": np.minimum, "max": np.maximum}


def _safe(slot: Slot, before: Any, fresh: Any) -> bool:
    """Tell whether numpy combines these numbers exactly as Python does."""
    if slot.kind in ("min", "max"):
        # Which of 0.0 and -0.0 numpy takes is not defined.
        return fresh.dtype != np.float64 or not (_negative_zero(fresh) or _negative_zero(before))
    if slot.kind == "count" or fresh.dtype == np.float64:
        return True
    return float(np.abs(fresh.astype(np.float64)).sum() + np.abs(before.astype(np.float64)).max(initial=0)) < _SAFE_SUM


def _negative_zero(values: Any) -> bool:
    return bool(np.signbit(values[values == 0]).any())


def _rounds(codes: Any) -> list[Any]:
    """Return the positions of records in rounds: in each round a group has at most one, and they keep their order."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(codes)) - np.repeat(starts, np.diff(np.r_[starts, len(codes)]))
    by_rank = order[np.argsort(rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])
