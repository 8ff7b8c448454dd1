"""Folds columns into accumulators of aggregates, with the results that the records would have one by one.

Each method returns None where columns could not do the same: then the caller takes the records one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common.column_layout import Layout
from flinkish.common.columns import Columns
from flinkish.common.errors import TypeMismatchError
from flinkish.udf.aggregates import CHOOSING, FieldAggregates, Slot, compared_value
from flinkish.udf.rolling import cut_to_milliseconds

#: Sums of numbers below this stay exact and within 64 bits.
_SAFE_SUM = float(1 << 62)
#: Integers up to this are floats without a change.
_EXACT = 1 << 53
#: Number of records of a key from which on they are computed by themselves, instead of one in each round.
_MANY = 64

Accumulators = list[tuple[Any, ...]]


class ColumnFold:
    """Folds runs of columns with certain aggregates."""

    def __init__(self, aggregates: FieldAggregates) -> None:
        self._aggregates = aggregates
        self._slots = aggregates.slots

    @np.errstate(over="ignore", invalid="ignore")  # infinity and NaN are results, as of Python
    def fold(self, codes: Any, before: Sequence[tuple[Any, ...] | None], columns: Columns) -> Accumulators | None:
        """Return the accumulators of groups with a run added.

        `codes`: for each record, the number of its group; `before`: the accumulator of each group, None if it is new.
        """
        slots = self.slots(before, columns)
        if slots is None:
            return None
        for slot in slots:
            slot.combine.at(slot.values, codes, slot.fresh)
        return list(zip(*[slot.after() for slot in slots], strict=True))

    @np.errstate(over="ignore", invalid="ignore")
    def rolled(
        self, codes: Any, before: Sequence[tuple[Any, ...] | None], columns: Columns, layout: Layout
    ) -> tuple[pa.RecordBatch, Accumulators] | None:
        """Return the rows of results after each record, and the accumulators after the last one; arguments as in `fold`."""
        slots, rounds = self.slots(before, columns), rounds_of(codes)
        if slots is None:
            return None
        try:
            found = [slot.shown(add_up(slot.combine, slot.values, codes, slot.fresh, rounds)) for slot in slots]
        except TypeMismatchError:  # a value before that no column can hold
            return None
        shown = self.place_of("key")
        outer = {} if shown is None else {"key": columns.key_column(layout.schema.types[shown])}
        results = self.results(found, outer, layout)
        return None if results is None else (results, list(zip(*[slot.after() for slot in slots], strict=True)))

    @np.errstate(invalid="ignore")
    def combined(self, slots: Sequence[Any], codes: Any, groups: int) -> list[Any]:
        """Return the slots of new groups, an array for each. Only for aggregates in any order.

        `slots`: those of the run; `codes`: for each record, the number of its group, which is below `groups`.
        """
        found = [np.full(groups, start, slot.values.dtype) for slot, start in zip(slots, self._aggregates.starts, strict=True)]
        for slot, values in zip(slots, found, strict=True):
            slot.combine.at(values, codes, slot.fresh)
        return found

    def arrays(self, accumulators: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Return the values of each slot of accumulators, None for new ones: an array, or a list if a field is taken."""
        starts = self._aggregates.starts
        if not any(accumulators):
            columns: Any = [[start] * len(accumulators) for start in starts]
        else:
            columns = zip(*[accumulator or starts for accumulator in accumulators], strict=True)
        slots = zip(self._slots, starts, columns, strict=True)
        return [
            values if slot.kind in CHOOSING else np.array(values, np.float64 if isinstance(start, float) else np.int64)
            for slot, start, values in slots
        ]

    def slots(self, before: Sequence[tuple[Any, ...] | None], columns: Columns) -> list[_Computed | _Chosen] | None:
        """Return what is to be combined for each slot; None if numpy would not do it exactly as Python does."""
        values = self.arrays(before)
        slots: list[_Computed | _Chosen] = []
        parts = slots_of(columns) if columns.combined else [None] * len(values)
        each = zip(self._slots, values, self._aggregates.counts, self._aggregates.starts, parts, strict=True)
        for slot, own, count, start, part in each:
            if part is None and slot.kind in CHOOSING:
                slots.append(_Chosen(slot, own, values[count] > 0, start, columns))
            else:
                slots.append(_Computed(slot, own, _fresh(slot, start, columns) if part is None else part.to_numpy()))
        return slots if all(slot.exact for slot in slots) else None

    def results(self, slots: Sequence[Any], outer: dict[str, pa.Array], layout: Layout) -> pa.RecordBatch | None:
        """Return the rows of results; `outer` has the columns of what accumulators do not know, by kind of aggregate."""
        arrays = []
        aggregates = self._aggregates
        for place, (aggregate, parts) in enumerate(zip(aggregates.aggregates, aggregates.parts, strict=True)):
            if not parts:
                arrays.append(outer[aggregate.kind])
                continue
            values, counts = slots[parts[0]], slots[aggregates.counts[parts[0]]]
            if aggregate.kind in CHOOSING:
                if not isinstance(values, pa.Array):
                    values = _column(layout, place, list(map(self._slots[parts[0]].shown, values, counts.tolist())))
                if values is None:
                    return None
                arrays.append(values)
                continue
            if aggregate.kind == "avg":
                if values.dtype == np.int64 and np.abs(values).max(initial=0) >= _EXACT:
                    return None
                values = values / np.maximum(counts, 1)
            unknown = counts == 0 if aggregate.kind != "count" else None
            arrays.append(pa.array(values, mask=unknown, from_pandas=False).cast(layout.schema.field(place).type))
        return layout.batch(arrays)

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
        # A key may be equal to one of its type, such as True for 1.
        column = _column(layout, place, keys)
        return None if column is None else {"key": column}


def _column(layout: Layout, position: int, values: Sequence[Any]) -> pa.Array | None:
    """Return the values of a field as its column; None if it cannot hold them."""
    try:
        return layout.column(position, values)
    except TypeMismatchError:
        return None


class _Computed:
    """A slot of numbers: the ufunc that combines them, the `values` of groups, and the `fresh` ones of the records of a run."""

    def __init__(self, slot: Slot, values: Any, fresh: Any) -> None:
        self.combine = _COMBINE[slot.kind]
        self.values = values
        self.fresh: Any = fresh.astype(values.dtype, copy=False)
        #: Whether numpy combines these numbers exactly as Python does.
        self.exact = _safe(slot, values, self.fresh)

    def after(self) -> list[Any]:
        """Return what the groups have in the end."""
        found: list[Any] = self.values.tolist()
        return found

    def shown(self, found: Any) -> Any:
        """Return the column of results for `found`, what the groups have after each record."""
        return found


class _Chosen:
    """A slot that takes a field of one record: numbered from the best one on, the least of the numbers is chosen.

    First come what the groups have, then the records of the run; `values` and `fresh` are their ranks in the order of preference.
    Those that cannot be chosen have the same rank, behind all others.
    """

    combine = np.minimum

    def __init__(self, slot: Slot, before: Sequence[Any], known: Any, start: Any, columns: Columns) -> None:
        """`before`: what each group has, if it is `known`."""
        assert slot.field is not None
        assert slot.looked_at is not None
        self._slot, self._before, self._known, self._start, self._layout = slot, before, known, start, columns.layout
        self._field: int = slot.field
        self._column = columns.column(slot.field)
        if cut_to_milliseconds(columns.layout.types[slot.field]):
            self._column = pc.floor_temporal(self._column, unit="millisecond")
        looked_at = columns.column(slot.looked_at)
        places = np.arange(len(before) + len(columns))
        #: Whether numpy chooses as Python does: with NaN, it depends on the order.
        self.exact = True
        if slot.by is None:
            self._order = places if slot.kind == "first" else places[::-1]
        else:
            fresh = _numbers(looked_at, 0)
            dtype = np.float64 if isinstance(start[0], float) else np.int64
            self._compared = np.r_[np.array([compared for compared, _, _ in before], dtype), fresh]
            self.exact = not np.isnan(self._compared).any()
            if slot.kind == "min_by":
                self._order = np.argsort(self._compared, kind="stable")
            else:
                self._order = len(places) - 1 - np.argsort(self._compared[::-1], kind="stable")[::-1]
        ranks = np.empty(len(places), np.int64)
        ranks[self._order] = places
        ranks[~np.r_[known, _valid(looked_at)]] = len(places)
        self.values, self.fresh = ranks[: len(before)], ranks[len(before) :]

    def after(self) -> list[Any]:
        """Return what the groups have in the end."""
        found = list(self._before)
        groups = np.flatnonzero(self.values < len(self._order))
        places = self._order[self.values[groups]]
        is_new = places >= len(found)
        groups, places = groups[is_new].tolist(), places[is_new]
        values = self._layout.values_of(self._field, self._column.take(pa.array(places - len(found))))
        if self._slot.by is not None:
            compared = self._compared[places].tolist()
            values = [compared_value(each, value, self._start) for each, value in zip(compared, values, strict=True)]
        for group, value in zip(groups, values, strict=True):
            found[group] = value
        return found

    def shown(self, found: Any) -> pa.Array:
        """Return the column of results for `found`, the ranks of what the groups have after each record.

        Raises TypeMismatchError if no column can hold what a group had before.
        """
        unknown = found == len(self._order)
        places = pa.array(self._order[np.where(unknown, 0, found)], mask=unknown)
        before = self._layout.column(self._field, list(map(self._slot.shown, self._before, self._known.tolist())))
        return pa.concat_arrays([before, self._column]).take(places)


def _fresh(slot: Slot, start: float, columns: Columns) -> Any:
    """Return what the records of a run add to a slot of numbers: for null, what changes nothing."""
    column = None if slot.field is None else columns.column(slot.field)
    if column is None or (slot.kind == "count" and not column.null_count):
        return np.ones(len(columns), np.int64)
    return _valid(column) if slot.kind == "count" else _numbers(column, start)


def slots_of(columns: Columns) -> list[pa.Array]:
    """Return the slots of combined columns, which follow the key and the number of records."""
    assert columns.key_fields is not None
    slots: list[pa.Array] = columns.batch.columns[len(columns.key_fields) + 1 :]
    return slots


def _valid(column: pa.Array) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)


def _numbers(column: pa.Array, start: float) -> Any:
    """Return a column of numbers as an array, with `start` for null."""
    return (column.fill_null(pa.scalar(start, column.type)) if column.null_count else column).to_numpy()


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
