"""Windows that begin at the same times for all keys, with the assigner's default trigger: the common case, made fast.

What a trigger would decide for each record is decided here for all records of a window at once: whether it is late, has fired,
and whether its timers are set already, which is so if it has contents.
"""

from __future__ import annotations

from typing import Any

from flinkish.common.typeinfo import Types
from flinkish.datastream.state import MapStateDescriptor
from flinkish.datastream.time_domain import TimeDomain
from flinkish.datastream.window import TimeWindow, no_timestamp
from flinkish.runtime.elements import Records
from flinkish.runtime.isolation import isolate
from flinkish.runtime.operators.function import keyed
from flinkish.runtime.operators.window.contents import (
    Fold,
    FoldedContents,
    TimestampedContents,
    contents_of,
    panes_name,
    refuse_other_contents,
)
from flinkish.runtime.operators.window.operator import BaseWindowOperator
from flinkish.runtime.protocol import MAX_WATERMARK
from flinkish.runtime.state.tables import ListTable, MapTable, Namespaced

#: Windows of which it is remembered how they stand, between two watermarks.
_PLANS = 10_000


class AlignedWindowOperator(BaseWindowOperator):
    """Time and timers in either domain."""

    def open(self) -> None:
        super().open()
        timers = self.timers
        self._register = timers.register_event_time_timer if self.event_time else timers.register_processing_time_timer

    def passed(self) -> int:
        """Return the time (ms) up to which windows have fired."""
        # Timers of the present fire at the end of the epoch.
        return self.current_watermark if self.event_time else self.context.time.now() - 1

    def times(self, records: Records) -> Any:
        """Return the records with the time that decides about their windows."""
        if self.event_time:
            return keyed(records)
        now = self.context.time.now()
        return ((value, now, key) for value, _, key in keyed(records))

    def set_timer(self, namespace: Any, time: int) -> None:
        """Set a timer of the current key."""
        if time < MAX_WATERMARK:
            self._register(self.backend.current_key, namespace, time)

    def is_mine(self, domain: TimeDomain) -> bool:
        """Return whether a timer is of the domain that windows go by."""
        return (domain is TimeDomain.EVENT_TIME) == self.event_time


class TumblingWindowOperator(AlignedWindowOperator):
    """One accumulator or list for each key and window; state and timers as the general operator has them."""

    def open(self) -> None:
        super().open()
        contents = contents_of(self.config, self.backend)
        assert not isinstance(contents, TimestampedContents)
        refuse_other_contents(self.context.state.uid, self.context.state.unclaimed())
        self._contents = contents
        self._size: int = self.assigner._size
        self._offset: int = self.assigner._offset

    def process_records(self, input_index: int, records: Records) -> None:
        contents = self._contents
        if not isinstance(contents, FoldedContents):
            self._process_listed(contents.table, records)
            return
        backend, size, offset, lateness = (self.backend, self._size, self._offset, self.lateness)
        table, convert = contents.table, contents.convert
        get, put, first, add = (table.get, table.put, contents.fold.first, contents.fold.add)
        passed = self.passed()
        start = end = 0
        namespace: tuple[int, int] | None = None
        late = fired = False
        for (value, time, key), timestamp in zip(self.times(records), _timestamps(records), strict=True):
            backend.current_key = key
            if time is None:
                raise no_timestamp(self.assigner)
            if namespace is None or not start <= time <= end:
                start = time - (time - offset) % size
                end = start + size - 1
                namespace = start, start + size
                late, fired = end + lateness <= passed, end <= passed
            if late:
                self.late(value, timestamp)
                continue
            address = Namespaced(key, namespace)
            accumulator = get(address)
            if accumulator is None:
                accumulator = first(value)
                self._set_timers(namespace, end, fired)
            else:
                accumulator = add(value, accumulator)
                if lateness:
                    # A watermark that a restore put back makes a window that has fired an open one again.
                    self._set_timers(namespace, end, fired)
            put(address, accumulator if convert is None else convert(accumulator))
            if fired:
                self._fire(namespace, timestamp)

    def _process_listed(self, table: ListTable, records: Records) -> None:
        backend, size, offset, lateness = (self.backend, self._size, self._offset, self.lateness)
        passed = self.passed()
        start = end = 0
        namespace: tuple[int, int] | None = None
        late = fired = False
        for (value, time, key), timestamp in zip(self.times(records), _timestamps(records), strict=True):
            backend.current_key = key
            if time is None:
                raise no_timestamp(self.assigner)
            if namespace is None or not start <= time <= end:
                start = time - (time - offset) % size
                end = start + size - 1
                namespace = start, start + size
                late, fired = end + lateness <= passed, end <= passed
            if late:
                self.late(value, timestamp)
                continue
            address = Namespaced(key, namespace)
            if lateness or address not in table.data:
                self._set_timers(namespace, end, fired)
            table.append(address, value)
            if fired:
                self._fire(namespace, timestamp)

    def _set_timers(self, namespace: tuple[int, int], end: int, fired: bool) -> None:
        if not fired:
            self.set_timer(namespace, end)
        if self.lateness:
            self.set_timer(namespace, end + self.lateness)

    def _fire(self, namespace: tuple[int, int], timestamp: int | None) -> None:
        contents = self._contents
        contents.scope.current_namespace = namespace
        elements = contents.elements()
        if elements is not None:
            self.emit_window(TimeWindow(*namespace), namespace, elements, timestamp)

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        self.backend.current_key = key
        if not self.is_mine(domain):
            return
        end = namespace[1] - 1
        if timestamp == end:
            self._fire(namespace, timestamp)
        if timestamp == end + self.lateness:
            self._contents.scope.current_namespace = namespace
            self._contents.clear()
            self.clear_window_function(TimeWindow(*namespace), namespace)


class SharedPanesOperator(AlignedWindowOperator):
    """Sliding windows with reduce or aggregate: each record is folded once, into its pane; windows are merged from panes.

    A pane is as long as the greatest common divisor of size and slide. The panes of a key are a map from their start to their
    accumulator. A timer is set only for the first window of a pane that has not fired; a window that fires sets that of the next
    if they share a pane with contents. So there are about as many timers as keys with open windows, not size/slide times as many.

    A timer in no namespace fires the window that ends there; one in the namespace (start of a pane,) drops the pane.
    """

    def open(self) -> None:
        super().open()
        config = self.config
        assert config.fold is not None
        assert config.fold_type is not None
        assigner = self.assigner
        self._size: int = assigner._size
        self._slide: int = assigner._slide
        self._offset: int = assigner._offset
        self._pane: int = assigner._pane_size
        self._fold = Fold(config.fold, config.fold_type)
        table, self._convert = self.backend.table_of(MapStateDescriptor(panes_name(self._pane), Types.LONG(), config.fold_type))
        assert isinstance(table, MapTable)
        self._table = table
        refuse_other_contents(self.context.state.uid, self.context.state.unclaimed())
        self._isolate = not table.codec.immutable
        self._plans: dict[int, _Plan] = {}
        self._planned_at: int | None = None

    def process_records(self, input_index: int, records: Records) -> None:
        backend, pane, offset, convert = (self.backend, self._pane, self._offset, self._convert)
        get, put, first, add = (self._table.get, self._table.put, self._fold.first, self._fold.add)
        lateness = self.lateness
        passed = self.passed()
        if passed != self._planned_at or len(self._plans) > _PLANS:
            self._plans.clear()
            self._planned_at = passed
        plans = self._plans
        for (value, time, key), timestamp in zip(self.times(records), _timestamps(records), strict=True):
            backend.current_key = key
            if time is None:
                raise no_timestamp(self.assigner)
            start = time - (time - offset) % pane
            plan = plans.get(start)
            if plan is None:
                plan = plans[start] = self._plan(start, passed)
            if plan.late:
                self.late(value, timestamp)
                continue
            accumulator = get(key, start)
            if accumulator is None:
                accumulator = first(value)
                self._set_timers(start, plan)
            else:
                accumulator = add(value, accumulator)
                if lateness:
                    # A watermark that a restore put back makes windows that have fired open ones again.
                    self._set_timers(start, plan)
            put(key, start, accumulator if convert is None else convert(accumulator))
            for window in plan.fired:
                self._emit(window, self._panes(window), timestamp)

    def _plan(self, pane: int, passed: int) -> _Plan:
        size = self._size
        last = pane - (pane - self._offset) % self._slide
        ends_after = passed - size + 1
        windows = [start for start in range(last, pane - size, -self._slide) if start + self.lateness > ends_after]
        return _Plan(
            late=not windows,
            fired=tuple(start for start in windows if start <= ends_after),
            first_open=min((start for start in windows if start > ends_after), default=None),
            last=last,
        )

    def _set_timers(self, pane: int, plan: _Plan) -> None:
        if plan.first_open is not None:
            self.set_timer(None, plan.first_open + self._size - 1)
        else:
            self.set_timer((pane,), plan.last + self._size - 1 + self.lateness)

    def _emit(self, start: int, panes: list[int], timestamp: int | None) -> None:
        result = self._merged(panes)
        if result is None:
            return
        if self._passes_through:
            self.emit(result, timestamp)
        else:
            end = start + self._size
            self.emit_window(TimeWindow(start, end), (start, end), [result], timestamp)

    def _panes(self, start: int) -> list[int]:
        """Return the panes of a window that have contents, in order of time."""
        there = self._table.data.get(self.backend.current_key)
        if there is None:
            return []
        end = start + self._size
        panes = [pane for pane in there if start <= pane < end]
        if len(panes) > 1:
            panes.sort()
        return panes

    def _merged(self, panes: list[int]) -> Any:
        if not panes:
            return None
        get, key, fold = self._table.get, self.backend.current_key, self._fold
        accumulator = get(key, panes[0])
        if len(panes) > 1:
            merge = fold.merge
            if self._isolate:
                # Functions may change what they are given, and a pane is needed again.
                accumulator = isolate(accumulator)
                for pane in panes[1:]:
                    accumulator = merge(accumulator, isolate(get(key, pane)))
            else:
                for pane in panes[1:]:
                    accumulator = merge(accumulator, get(key, pane))
        return fold.result(accumulator)

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        self.backend.current_key = key
        if not self.is_mine(domain):
            return
        if namespace is not None:
            self._table.remove(key, namespace[0])
            return
        start = timestamp - self._size + 1
        panes = self._panes(start)
        self._emit(start, panes, timestamp)
        following = start + self._slide
        if panes and panes[-1] >= following:
            self.set_timer(None, timestamp + self._slide)
        for pane in panes:
            if pane >= following:
                break
            if self.lateness:
                self.set_timer((pane,), timestamp + self.lateness)
            else:
                self._table.remove(key, pane)
        if not self.lateness and self.clear_function is not None:
            end = start + self._size
            self.clear_window_function(TimeWindow(start, end), (start, end))


class _Plan:
    """How the windows of a pane stand: whether all are gone, which have fired but still take late records (the last first),
    the first that has not fired, and the last of all."""

    __slots__ = ("fired", "first_open", "last", "late")

    def __init__(self, *, late: bool, fired: tuple[int, ...], first_open: int | None, last: int) -> None:
        self.late = late
        self.fired = fired
        self.first_open = first_open
        self.last = last


def _timestamps(records: Records) -> Any:
    return records.timestamps if records.timestamps is not None else [None] * len(records.values)
