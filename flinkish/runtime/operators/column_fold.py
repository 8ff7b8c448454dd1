"""Folds columns into accumulators of aggregates, with the results that the records would have one by one.

Each method returns None where columns could not do the same: then the caller takes the records one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.common.column_layout import Layout
from flinkish.common.columns import Columns
from flinkish.common.errors import TypeMismatchError
from flinkish.udf.aggregates import FieldAggregates, Slot

#: Sums of numbers below this stay exact and within 64 bits.
_SAFE_SUM = float(1 << 62)
#: Integers up to this are floats without a change.
_EXACT = 1 << 53
#: Number of records of a key from which on they are computed by themselves, instead of one in each round.
_MANY = 64

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
        slots = self.arrays(before)
        for slot, values, fresh in zip(self._slots, slots, self._fresh(columns), strict=True):
            if not _safe(slot, values, fresh):
                return None
            _COMBINE[slot.kind].at(values, codes, fresh)
        return _accumulators(slots)

    @np.errstate(over="ignore", invalid="ignore")
    def running(
        self, codes: Any, before: Sequence[tuple[Any, ...] | None], columns: Columns
    ) -> tuple[list[Any], Accumulators] | None:
        """Return the slots as they are after each record, and the accumulators after the last one; arguments as in `fold`."""
        rounds, slots, results = rounds_of(codes), self.arrays(before), []
        for slot, values, fresh in zip(self._slots, slots, self._fresh(columns), strict=True):
            if not _safe(slot, values, fresh):
                return None
            results.append(add_up(_COMBINE[slot.kind], values, codes, fresh, rounds))
        return results, _accumulators(slots)

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

    def place_of(self, kind: str) -> int | None:
        """Return the position of the first aggregate of a kind; None if there is none."""
        kinds = [aggregate.kind for aggregate in self._aggregates.aggregates]
        return kinds.index(kind) if kind in kinds else None

    def shown_keys(self, keys: Sequence[Any], layout: Layout) -> dict[str, pa.Array] | None:
        """Return the column of keys for `results`, if they are shown; None if they cannot be a column."""
        place = self.place_of("key")
        if place is None:
            return {}
        if not {type(item) for key in keys for item in (key if key.__class__ is tuple else (key,))} <= {int, str, bool}:
            return None
        try:
            return {"key": layout.column(place, keys)}
        except TypeMismatchError:  # a key that is equal to one of its type, such as True for 1
            return None

    def _fresh(self, columns: Columns) -> Iterator[Any]:
        """Return what the records of a run have for each slot: for null, what changes nothing."""
        for slot, start, dtype in zip(self._slots, self._aggregates.starts, self._dtypes, strict=True):
            column = None if slot.field is None else columns.column(slot.field)
            if column is None or (slot.kind == "count" and not column.null_count):
                yield np.ones(len(columns), np.int64)
            elif slot.kind == "count":
                yield column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
            else:
                filled = column.fill_null(pa.scalar(start, column.type)) if column.null_count else column
                yield filled.to_numpy().astype(dtype, copy=False)


def _accumulators(slots: Sequence[Any]) -> Accumulators:
    return list(zip(*[values.tolist() for values in slots], strict=True))


_COMBINE: dict[str, Any] = {"sum": np.add, "count": np.add, "min": np.minimum, "max": np.maximum}


def _safe(slot: Slot, before: Any, fresh: Any) -> bool:
    """Tell whether numpy combines these numbers exactly as Python does."""
    if slot.kind in ("min", "max"):
        # Which of 0.0 and -0.0 numpy takes is not defined.
        return fresh.dtype != np.float64 or not (_negative_zero(fresh) or _negative_zero(before))
    return slot.kind == "count" or sums_are_exact(before, fresh)


def sums_are_exact(before: Any, fresh: Any) -> bool:
    """Tell whether sums are computed as Python does: floats are, integers within 64 bits."""
    if fresh.dtype == np.float64:
        return True
    return float(np.abs(fresh.astype(np.float64)).sum() + np.abs(before.astype(np.float64)).max(initial=0)) < _SAFE_SUM


def _negative_zero(values: Any) -> bool:
    return bool(np.signbit(values[values == 0]).any())


def add_up(combine: Any, values: Any, codes: Any, fresh: Any, rounds: tuple[list[Any], list[Any]]) -> Any:
    """Return the values of the groups after each record; `values` has those before the run and, in the end, those after it.

    `combine` is a ufunc of numpy, `rounds` what `rounds_of` has returned.
    """
    result = np.empty(len(codes), values.dtype)
    for places in rounds[0]:
        own = codes[places]
        result[places] = values[own] = combine(values[own], fresh[places])
    for places in rounds[1]:
        code = codes[places[0]]
        result[places] = combine.accumulate(np.r_[values[code], fresh[places]])[1:]
        values[code] = result[places[-1]]
    return result


def rounds_of(codes: Any) -> tuple[list[Any], list[Any]]:
    """Return the positions of records in rounds, in each of which a group has at most one; and those of each frequent group.

    In both, the records of a group keep their order.
    """
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, len(codes)])
    many = np.flatnonzero(counts >= _MANY)
    frequent = [order[starts[group] : starts[group] + counts[group]] for group in many]
    few = np.repeat(counts < _MANY, counts)
    rank = (np.arange(len(codes)) - np.repeat(starts, counts))[few]
    by_rank = order[few][np.argsort(rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]) if len(rank) else [], frequent
