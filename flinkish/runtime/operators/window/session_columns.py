"""Sessions of aggregates by field: columns are folded into the sessions of all their keys at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.common.columns import Columns
from flinkish.common.limits import LONG_MAX
from flinkish.graph.stream_graph import StreamNode
from flinkish.runtime.operators.window.columns import FoldedWindows
from flinkish.runtime.state.backend import MapTable
from flinkish.udf.aggregates import CHOOSING

#: Key, start, end (ms), accumulator, timestamp of the result.
EndedSession = tuple[Any, int, int, tuple[Any, ...], int]

#: Times up to this (ms) can be added up within 64 bits.
_FAR = 1 << 61


class SessionColumns(FoldedWindows):
    """Cuts runs of columns into stretches of time in which a key does not pause, and folds each stretch into its session."""

    def __init__(self, node: StreamNode, table: MapTable, gap: int, expect: Callable[[Sequence[Any]], None]) -> None:
        """Make one for a table of sessions with a gap in milliseconds; `expect` is told of keys before they are looked up."""
        super().__init__(node)
        self._table = table
        self._gap = gap
        self._expect = expect
        slots = zip(self._aggregates.slots, self._aggregates.starts, strict=True)
        # The sum of floats depends on the order in which they are added, and so does what is first, last or first among equals.
        self._in_order = any(slot.kind in CHOOSING or (slot.kind == "sum" and isinstance(start, float)) for slot, start in slots)

    def add(self, columns: Columns, times: Any) -> tuple[list[tuple[Any, int]], Columns | None] | None:
        """Fold columns, none of them late, with their times (ms); None if all must be taken record by record.

        Returns the keys that begin a session, each with the session's end, and those columns that must be taken record by record.
        """
        if max(int(times.max()), -int(times.min())) + self._gap > _FAR:
            return None
        codes, keys = columns.groups()
        order = np.lexsort((times, codes))
        sorted_codes, sorted_times = codes[order], times[order]
        begins = np.r_[True, (np.diff(sorted_codes) != 0) | (np.diff(sorted_times) > self._gap)]
        first = np.flatnonzero(begins)
        stretches = np.empty(len(order), np.int64)
        stretches[order] = np.cumsum(begins) - 1
        owners, starts = sorted_codes[first].tolist(), sorted_times[first].tolist()
        ends = (sorted_times[np.r_[first[1:], len(order)] - 1] + self._gap).tolist()
        self._expect(keys)
        met, apart = self._sessions_of([keys[owner] for owner in owners], owners, starts, ends)
        if self._in_order:
            apart.update(_out_of_order(codes, times))
        after = self._fold.fold(stretches, [None if session is None else session[1][1] for session in met], columns)
        if after is None:
            return None
        begun = []
        for owner, start, end, session, accumulator in zip(owners, starts, ends, met, after, strict=True):
            if owner in apart:
                continue
            key = keys[owner]
            if session is None:
                begun.append((key, end))
            else:
                if start < session[0]:
                    self._table.remove(key, session[0])
                start, end = min(start, session[0]), max(end, session[1][0])
            self._table.put(key, start, (end, accumulator))
        return begun, columns.take(np.flatnonzero(np.isin(codes, list(apart)))) if apart else None

    def results(self, ended: Sequence[EndedSession]) -> Columns | None:
        """Return the results of sessions; None if they cannot be columns."""
        keys, starts, ends, accumulators, times = zip(*ended, strict=True)
        if max(ends) > LONG_MAX:
            return None
        span = np.array(starts, np.int64), np.array(ends, np.int64)
        return self._shown(keys, accumulators, span, pa.array(times, pa.int64()))

    def _sessions_of(
        self, keys: Sequence[Any], owners: Sequence[int], starts: Sequence[int], ends: Sequence[int]
    ) -> tuple[list[tuple[int, tuple[int, Any]] | None], set[int]]:
        """Return the session that each stretch meets, and the owners of stretches that must be taken record by record.

        These are the keys of which a stretch meets several sessions, or a session meets several stretches.
        """
        entries, gap = self._table.entries, self._gap
        met: list[tuple[int, tuple[int, Any]] | None] = []
        apart: set[int] = set()
        last: tuple[int, int | None] = (-1, None)
        for key, owner, start, end in zip(keys, owners, starts, ends, strict=True):
            touched = [session for session in entries(key) if session[0] <= end and session[1][0] >= start]
            met.append(touched[0] if touched else None)
            begin = touched[0][0] if touched else None
            # In order: a session that begins behind the first record would be merged with the one that the record begins.
            merged = self._in_order and begin is not None and begin > start + gap
            if merged or len(touched) > 1 or (begin is not None and last == (owner, begin)):
                apart.add(owner)
            last = owner, begin
        return met, apart


def _out_of_order(codes: Any, times: Any) -> list[int]:
    """Return the keys of which a record has an earlier time than the one before it."""
    order = np.argsort(codes, kind="stable")
    own, theirs = codes[order], times[order]
    found: list[int] = own[1:][(np.diff(own) == 0) & (np.diff(theirs) < 0)].tolist()
    return found
