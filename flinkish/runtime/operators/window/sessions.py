"""Sessions with reduce or aggregate and the assigner's default trigger: the common case, made fast."""

from __future__ import annotations

import functools
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from flinkish.common.columns import Columns
from flinkish.common.limits import LONG_MAX
from flinkish.runtime.elements import Records, unpacked
from flinkish.runtime.operators.timestamps import after_all_time
from flinkish.runtime.operators.waiting import GatheringOperator
from flinkish.runtime.operators.window.contents import fold_state
from flinkish.runtime.operators.window.operator import BaseWindowOperator
from flinkish.runtime.operators.window.restored import (
    MERGING_SET,
    SESSIONS,
    drop_timers,
    refuse_other_windows,
    refuse_timers,
    sessions,
    take_merged_windows,
)
from flinkish.runtime.state.backend import MapTable
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.handles import Fold, conversion
from flinkish.udf.time_domain import TimeDomain
from flinkish.udf.window.windows import TimeWindow

if TYPE_CHECKING:
    from flinkish.runtime.operators.window.session_columns import EndedSession, SessionColumns


#: Maximum number of sessions whose results are emitted together.
_MOST_ENDED = 1 << 16


class SessionWindowsOperator(GatheringOperator, BaseWindowOperator):
    """Keeps the open sessions of each key; a growing session does not move its contents.

    A session has a timer at the last timestamp that it had when it began. If the session has grown by then, the timer is set
    again; so a record never moves a timer.
    """

    def open(self) -> None:
        timers, fold_type = self.timers, self.fold_type
        convert = conversion(f"the accumulator of {self.node.name!r}", Codec(fold_type))
        self._fold = Fold(self.fold_function, repr(self.node.name), convert)
        if self.context.restored_checkpoint is not None:
            refuse_timers(self.context.state, timers)
        self._table: MapTable = self.backend.table_of(sessions(fold_type))[0]
        #: The gap in milliseconds; None = it depends on the record.
        self._gap: int | None = getattr(self.assigner, "_session_gap", None)
        #: What folds columns; made with the first ones, so that only jobs that have some import Arrow.
        self._columns: SessionColumns | None = None
        #: Sessions whose timers have fired, to be emitted together.
        self._ended: list[EndedSession] = []
        super().open()
        if self.context.restored_checkpoint is not None and MERGING_SET in self.context.state.unclaimed():
            drop_timers(timers)
            take_merged_windows(self.backend, fold_state(self.fold_function, fold_type), self._take_session)
        refuse_other_windows(self.context.state, SESSIONS)

    def _take_session(self, key: Any, start: int, end: int, accumulator: Any) -> None:
        """Take over a session that operator.py stored, unless it has fired and was kept for late records only."""
        if not self.event_time or end - 1 > self.current_watermark:
            self._table.put(key, start, (end, accumulator))
            self.own_timers.register(end - 1, key)

    def process_gathered(self, columns: Columns) -> bool:
        assert self._gap is not None
        times = self.column_times(columns)
        if times is None or (self.event_time and int(times.min()) + self._gap - 1 <= self.current_watermark):
            return False
        if self._columns is None:
            from flinkish.runtime.operators.window.session_columns import SessionColumns

            self._columns = SessionColumns(self.node, self._table, self._gap, self.expect)
        found = self._columns.add(columns, times)
        if found is None:
            return False
        begun, rest = found
        for key, end in begun:
            self._set_timer_at(key, end - 1)
        if rest is not None:
            self.process_records(0, unpacked(rest))
        return True

    def process_records(self, input_index: int, records: Records) -> None:
        self.flush()
        backend, entries, put = self.backend, self._table.entries, self._table.put
        into, gap = self._fold.into, self._gap
        times = self.times_of(records)
        assert records.keys is not None
        for value, time, key in zip(records.values, times, records.keys, strict=True):
            backend.current_key = key
            end = time + gap if gap is not None else self.assigner._window(value, time).end
            there = [*entries(key)]
            if len(there) == 1:
                start, (last, accumulator) = there[0]
                if start <= time <= last:
                    put(key, start, (max(last, end), into(accumulator, value)))
                    continue
            self._add(key, value, time, end, there)

    def _set_timer_at(self, key: Any, last: int) -> None:
        if last > LONG_MAX:
            raise after_all_time(self.node.name, last)
        self.own_timers.register(last, key)

    def _add(self, key: Any, value: Any, time: int, end: int, there: list[tuple[int, tuple[int, Any]]]) -> None:
        """Add a record to the sessions that it touches, which are merged into one, or begin a session."""
        fold = self._fold
        touched = sorted([session for session in there if session[0] <= end and session[1][0] >= time], key=itemgetter(0))
        if not touched:
            if self.event_time and end - 1 <= self.current_watermark:
                self.late(value, time)
                return
            self._table.put(key, time, (end, fold.into(None, value)))
            self._set_timer_at(key, end - 1)
            return
        accumulator = functools.reduce(fold.merge, [session[1][1] for session in touched])
        if accumulator is None:
            fold.refuse_nothing(value, "merge")
        for start, (last, _) in touched:
            end = max(end, last)
            self._table.remove(key, start)
        self._table.put(key, min(time, touched[0][0]), (end, fold.into(accumulator, value)))

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        self.backend.current_key = key
        for start, (end, accumulator) in self._table.entries(key):
            if end - 1 > timestamp:
                self._set_timer_at(key, end - 1)
                continue
            self._table.remove(key, start)
            if self._columns is not None and self.output.takes_columns:
                self._ended.append((key, start, end, accumulator, timestamp))
                if len(self._ended) >= _MOST_ENDED:
                    self.after_timers()
                continue
            self._emit_session(key, start, end, accumulator, timestamp)

    def after_timers(self) -> None:
        if self._ended:
            ended, self._ended = self._ended, []
            assert self._columns is not None
            results = self._columns.results(ended)
            if results is not None:
                self.output.columns(results)
                return
            for session in ended:
                self._emit_session(*session)

    def _emit_session(self, key: Any, start: int, end: int, accumulator: Any, timestamp: int) -> None:
        self.backend.current_key = key
        window, namespace = TimeWindow(start, end), (start, end)
        self.emit_folded(window, namespace, accumulator, timestamp)
        self.clear_window_function(window, namespace)
