"""Folds columns into accumulators of aggregates, with the results that the records would have one by one.

Each method returns None where columns could not do the same: then the caller takes the records one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.common.columns import Columns
from flinkish.common.kinds import kind_of
from flinkish.common.typeinfo import BasicType
from flinkish.udf.aggregates import FieldAggregates, Slot

#: Sums of numbers below this stay exact and within 64 bits.
_SAFE_SUM = float(1 << 62)
#: Integers up to this are floats without a change.
_EXACT = 1 << 53
#: Minimum number of records for each round of running aggregates, in which each key has at most one.
_LEAST_IN_ROUND = 8

Accumulators = list[tuple[Any, ...]]


@dataclass(slots=True)
class Part:
    """The values of a slot for several keys or records; `known` is false where there is none yet."""

    values: Any
    known: Any

    def at(self, places: Any) -> Part:
        return Part(self.values[places], self.known[places])

    def listed(self) -> list[Any]:
        values: list[Any] = self.values.tolist()
        for place in np.flatnonzero(~self.known).tolist():
            values[place] = None
        return values

    def array(self, arrow: pa.DataType) -> pa.Array:
        return pa.array(self.values, mask=~self.known, from_pandas=False).cast(arrow)


class ColumnFold:
    """Folds runs of columns with certain aggregates."""

    def __init__(self, aggregates: FieldAggregates) -> None:
        self._aggregates = aggregates
        self._slots = aggregates.slots

    def fold(self, codes: Any, before: Sequence[tuple[Any, ...] | None], columns: Columns) -> Accumulators | None:
        """Return the accumulators of groups with a run added.

        `codes`: for each record, the number of its group; `before`: the accumulator of each group, None if it is new.
        """
        after = []
        for slot, part in zip(self._slots, self.parts_of(before), strict=True):
            fresh = self._fresh(slot, columns)
            if not _safe(slot, part, fresh):
                return None
            chosen, values = codes[fresh.known], fresh.values[fresh.known]
            if slot.kind == "count":
                part.values += np.bincount(chosen, minlength=len(before))
            else:
                _COMBINE[slot.kind].at(part.values, chosen, values)
                part.known[chosen] = True
            after.append(part.listed())
        return list(zip(*after, strict=True))

    def running(
        self, codes: Any, before: Sequence[tuple[Any, ...] | None], columns: Columns
    ) -> tuple[list[Part], Accumulators] | None:
        """Return the slots as they are after each record, and the accumulators after the last one; arguments as in `fold`."""
        rounds = _rounds(codes)
        if len(rounds) * _LEAST_IN_ROUND > max(len(codes), _LEAST_IN_ROUND * _LEAST_IN_ROUND):
            return None
        results, after = [], []
        for slot, part in zip(self._slots, self.parts_of(before), strict=True):
            fresh = self._fresh(slot, columns)
            if not _safe(slot, part, fresh):
                return None
            result = Part(np.empty(len(codes), part.values.dtype), np.empty(len(codes), bool))
            for places in rounds:
                own = codes[places]
                chosen = fresh.known[places]
                some, values = own[chosen], fresh.values[places][chosen]
                part.values[some] = _COMBINE[slot.kind](part.values[some], values)
                part.known[some] = True
                result.values[places], result.known[places] = part.values[own], part.known[own]
            results.append(result)
            after.append(part.listed())
        return results, list(zip(*after, strict=True))

    def parts_of(self, accumulators: Sequence[tuple[Any, ...] | None]) -> list[Part]:
        """Return accumulators, None for new ones, as parts."""
        if not any(accumulators):
            return [_new_part(slot, self._start(slot), len(accumulators)) for slot in self._slots]
        empty = self._aggregates.create_accumulator()
        columns = zip(*[accumulator or empty for accumulator in accumulators], strict=True)
        return [_part(slot, self._start(slot), values) for slot, values in zip(self._slots, columns, strict=True)]

    def results(self, parts: Sequence[Part], outer: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch | None:
        """Return the rows of results; `outer` has the columns of what accumulators do not know, by kind of aggregate."""
        arrays = []
        for aggregate, places, field in zip(self._aggregates.aggregates, self._aggregates.parts, schema, strict=True):
            if not places:
                arrays.append(outer[aggregate.kind])
            elif aggregate.kind == "avg":
                mean = _mean(parts[places[0]], parts[places[1]])
                if mean is None:
                    return None
                arrays.append(mean)
            else:
                arrays.append(parts[places[0]].array(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _dtype(self, slot: Slot) -> Any:
        floating = slot.field is not None and kind_of(self._aggregates.field_types[slot.field]) is BasicType.DOUBLE
        return np.float64 if floating and slot.kind != "count" else np.int64

    def _start(self, slot: Slot) -> Any:
        """Return the number with which a slot begins, of the class that its numbers have."""
        floating = self._dtype(slot) is np.float64
        return np.float64(_FLOAT_START.get(slot.kind, 0.0)) if floating else np.int64(_START.get(slot.kind, 0))

    def _fresh(self, slot: Slot, columns: Columns) -> Part:
        """Return what the records of a run have for a slot; for counts, ones."""
        if slot.field is None:
            return Part(np.ones(len(columns), np.int64), np.ones(len(columns), bool))
        column = columns.column(slot.field)
        known = np.ones(len(column), bool)
        if column.null_count:
            known = column.is_valid().to_numpy(zero_copy_only=False)
        if slot.kind == "count":
            return Part(np.ones(len(column), np.int64), known)
        if column.null_count:
            column = column.fill_null(0)
        return Part(column.to_numpy().astype(self._dtype(slot), copy=False), known)


_COMBINE: dict[str, Any] = {"sum": np.add, "count": np.add, "min": np.minimum, "max": np.maximum}
_START = {"min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}
_FLOAT_START = {"min": np.inf, "max": -np.inf}


def _new_part(slot: Slot, start: Any, length: int) -> Part:
    return Part(np.full(length, start), np.full(length, slot.kind == "count"))


def _part(slot: Slot, start: Any, values: Sequence[Any]) -> Part:
    if None not in values:
        return Part(np.array(values, start.dtype), np.ones(len(values), bool))
    known = np.array([value is not None for value in values])
    return Part(np.array([start if value is None else value for value in values], start.dtype), known)


def _safe(slot: Slot, before: Part, fresh: Part) -> bool:
    """Tell whether numpy combines these numbers exactly as Python does."""
    values = fresh.values
    if slot.kind in ("min", "max"):
        # Which of 0.0 and -0.0 numpy takes is not defined.
        return values.dtype != np.float64 or not (_negative_zero(values) or _negative_zero(before.values))
    if values.dtype == np.float64:
        return True
    return float(np.abs(values.astype(np.float64)).sum() + np.abs(before.values.astype(np.float64)).max(initial=0)) < _SAFE_SUM


def _negative_zero(values: Any) -> bool:
    return bool(np.signbit(values[values == 0]).any())


def _mean(total: Part, number: Part) -> pa.Array | None:
    if total.values.dtype == np.int64 and np.abs(total.values).max(initial=0) >= _EXACT:
        return None
    some = number.values > 0
    return pa.array(np.divide(total.values, number.values, out=np.zeros(len(some)), where=some), mask=~some, from_pandas=False)


def _rounds(codes: Any) -> list[Any]:
    """Return the positions of records in rounds: in each round a group has at most one, and they keep their order."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(codes)) - np.repeat(starts, np.diff(np.r_[starts, len(codes)]))
    by_rank = order[np.argsort(rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])
