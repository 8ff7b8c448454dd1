"""Windows that begin at the same times for all keys, with the assigner's default trigger: the common case, made fast.

Decisions that a trigger would make for each record and key are made here once for all keys of a window: whether it is late, has
fired, or is removed. State is grouped by window. The due windows follow from the state and from the time up to which windows have
fired, so there are no timers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from flinkish.common import options
from flinkish.common.columns import Columns
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.typeinfo import Types
from flinkish.graph.columns import records_only
from flinkish.program.dead_letters import LATE
from flinkish.runtime.elements import Records, unpacked
from flinkish.runtime.operators.base import OperatorContext
from flinkish.runtime.operators.timestamps import after_all_time
from flinkish.runtime.operators.window.contents import copying, fold_state
from flinkish.runtime.operators.window.operator import BaseWindowOperator
from flinkish.runtime.operators.window.restored import (
    CONTENTS,
    drop_timers,
    panes_name,
    refuse_other_kind,
    refuse_other_windows,
    refuse_timers,
)
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK, Barrier
from flinkish.runtime.state.backend import GroupedLists, PaneTable
from flinkish.runtime.state.handles import Fold
from flinkish.udf.functions import ReduceFunction
from flinkish.udf.state import ListStateDescriptor
from flinkish.udf.window.windows import TimeWindow

if TYPE_CHECKING:
    from flinkish.runtime.operators.window.columns import WindowColumns

_FIRED = "fired"
#: Minimum number of records for each stretch of time in a run of columns; with fewer, records are folded one by one.
_LEAST_IN_STRETCH = 32
#: Processing time (ms) up to which windows that share panes have fired, the same for all subtasks.
_PROGRESS = ListStateDescriptor("_windows_fired", Types.LONG())

#: Start and end of a window or pane: its namespace.
Span = tuple[int, int]


@dataclass(slots=True)
class _Stretch:
    """A stretch of time whose records belong to the same windows, and the status of these while a run is processed."""

    #: Namespaces for its records: each window that still exists, the last one first, or the pane that they share. Empty if the
    #: records are late.
    spans: list[Span]
    #: The windows that have fired but still take late records, the last one first.
    fired: list[Span]
    #: For each of `spans`, the keys and values that are still to be folded into it.
    waiting: list[tuple[list[Any], list[Any]]] = field(default_factory=list)


class AlignedWindowOperator(BaseWindowOperator):
    """The base class for all kinds of window contents: handles time, state and firing.

    Each window is stored separately, and a record is added to all of its windows, as in Flink. With `_shared`, overlapping
    windows are combined from panes instead, each as long as the greatest common divisor of size and slide; a pane is dropped
    with its last window.

    In processing time, windows fire at the end of the epoch whose time is their last timestamp, or at the start of a later one. A
    record that arrives afterwards at the same time begins the window again, which then fires once more, as in Flink. If panes are
    shared, they cannot be begun again, so the record is treated as a millisecond later.
    """

    _table: PaneTable | GroupedLists
    #: Whether windows are combined from panes.
    _shared = False

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        assigner = self.assigner
        self._size: int = assigner._size
        self._slide: int = getattr(assigner, "_slide", assigner._size)
        self._offset, self._length = stretch_of(assigner)
        self._progress = context.state.internal("windows")
        #: Processing time (ms) up to which windows that share panes have fired.
        self._fired: int = self._progress.get(_FIRED, MIN_WATERMARK)
        #: A heap of all spans of the state, each with the time when its next window fires or it is removed. So a watermark costs
        #: nothing for windows that only wait for late records.
        self._agenda: list[tuple[int, Span]] = []
        self._planned: set[Span] = set()

    def open(self) -> None:
        super().open()
        self._kept_progress = self.context.state.union_list_state(_PROGRESS)
        if self.context.restored_checkpoint is not None:
            self._fired = max(self._kept_progress.get(), default=MIN_WATERMARK)
            refuse_timers(self.context.state, self.timers)
            # Timers of windows that operator.py stored.
            drop_timers(self.timers)
            if any(span.__class__ is not tuple for span in self._table.groups()):
                refuse_other_kind(self.node.uid, self.assigner)
        refuse_other_windows(self.context.state, self.state_name)
        self._planned.update(self._table.groups())
        self._agenda = [(MIN_WATERMARK, span) for span in sorted(self._planned)]

    @property
    def state_name(self) -> str:
        """The name of the state with the windows; the same as in operator.py if each window is stored separately."""
        return panes_name(self._length, self._offset) if self._shared else CONTENTS

    def snapshot_state(self, barrier: Barrier) -> None:
        super().snapshot_state(barrier)
        self._kept_progress.update([] if self._fired == MIN_WATERMARK else [self._fired])

    def arrival_time(self) -> int:
        return max(self.context.time.now(), self._fired + 1)

    def watermark(self, timestamp: int) -> None:
        before, self.current_watermark = self.current_watermark, timestamp
        if self.event_time:
            self._advance(before, timestamp)
        self.output.watermark(timestamp)

    def begin_epoch(self) -> None:
        # Records of this epoch may still belong to windows that end at the current time.
        self._advance_processing_time(self.context.time.now() - 1)

    def before_barrier(self) -> None:
        self._advance_processing_time(self.context.time.now())

    def _by_clock(self) -> bool:
        """Tell whether windows fire by the time of epochs; in batch mode they fire when their key has ended."""
        return not self.event_time and not self.context.batch and not self.ended

    def _advance_processing_time(self, now: int) -> None:
        if self._by_clock():
            self._advance(self._fired, now)
            if self._shared and now > self._fired:
                self._fired = now

    def end_epoch(self) -> None:
        super().end_epoch()
        if self._table.is_empty():
            self._fired = MIN_WATERMARK
        if self._fired != self._progress.get(_FIRED, MIN_WATERMARK):
            self._progress[_FIRED] = self._fired

    def end_key(self) -> None:
        self.current_watermark = MAX_WATERMARK
        self._advance(MIN_WATERMARK, MAX_WATERMARK)
        self.current_watermark = MIN_WATERMARK

    def next_timer(self) -> int | None:
        return self._agenda[0][0] if self._by_clock() and self._agenda else None

    def _stretch_at(self, start: int) -> _Stretch:
        """Return the stretch of time that begins at `start`, with the status of its windows."""
        passed = self.current_watermark if self.event_time else MIN_WATERMARK
        gone = passed - self.lateness
        windows = self._windows_at(start)
        if windows and windows[0][1] - 1 > LONG_MAX:
            raise after_all_time(self.node.name, windows[0][1] - 1)
        open_windows = [window for window in windows if gone < window[1] - 1]
        spans = [(start, start + self._length)] if self._shared and open_windows else open_windows
        for span in spans:
            if span not in self._planned:
                self._planned.add(span)
                heappush(self._agenda, (self._next(self._windows_of(span), passed), span))
        return _Stretch(spans, [window for window in open_windows if window[1] - 1 <= passed])

    def _windows_at(self, start: int) -> list[Span]:
        """Return the windows of the stretch of time that begins at `start`, the last one first."""
        size = self._size
        last = start - (start - self._offset) % self._slide
        return [(window, window + size) for window in range(last, start - size, -self._slide)]

    def _windows_of(self, span: Span) -> list[Span]:
        """Return the windows that contain a pane, the last one first; for a window, the window itself."""
        # A restored window may have another size, which it keeps.
        return self._windows_at(span[0]) if self._shared else [span]

    def _next(self, windows: list[Span], passed: int) -> int:
        """Return when the next of the windows of a span fires or, if all have fired, when it is removed."""
        for _, end in reversed(windows):
            if end - 1 > passed:
                return end - 1
        return self._removal(windows)

    def _removal(self, windows: list[Span]) -> int:
        """Return when a span is removed: with the last of its windows."""
        return min(windows[0][1] - 1 + self.lateness, MAX_WATERMARK)

    def _advance(self, fired: int, passed: int) -> None:
        """Fire the windows whose last timestamp is after `fired` and not after `passed`; drop spans that no window needs."""
        agenda = self._agenda
        reached: list[Span] = []
        while agenda and agenda[0][0] <= passed:
            reached.append(heappop(agenda)[1])
        due: dict[Span, list[Span]] = {}
        gone: list[tuple[int, Span]] = []
        for span in sorted(reached):
            windows = self._windows_of(span)
            for window in windows:
                if fired < window[1] - 1 <= passed:
                    due.setdefault(window, []).append(span)
            removal = self._removal(windows)
            if removal <= passed:
                gone.append((removal, span))
                self._planned.remove(span)
            else:
                heappush(agenda, (self._next(windows, passed), span))
        # In order of time: a window function's clear() may change state that process() of later windows reads.
        gone.sort(key=itemgetter(0))
        dropped = 0
        for window in sorted(due, key=itemgetter(1, 0)):
            while dropped < len(gone) and gone[dropped][0] < window[1] - 1:
                self._drop(gone[dropped][1])
                dropped += 1
            self._fire(window, due[window])
        for _, span in gone[dropped:]:
            self._drop(span)

    def _fire(self, window: Span, spans: list[Span]) -> None:
        """Emit the results of all keys of a window; `spans` has its non-empty panes in order of time, or the window itself."""
        raise NotImplementedError

    def _drop(self, span: Span) -> None:
        if self.lateness and self.clear_function is not None:
            # Windows with such functions are never combined from panes; see factory.py.
            window = TimeWindow(*span)
            for key in self._table.members(span):
                self.backend.current_key = key
                self.clear_window_function(window, span)
        self._table.clear(span)


def stretch_of(assigner: Any) -> tuple[int, int]:
    """Return the offset and the length of the stretches of time whose records belong to the same windows."""
    return assigner._offset, getattr(assigner, "_pane_size", assigner._size)


def starts_of(times: Any, offset: int, length: int) -> Any:
    """Return when the stretches of times begin, both as arrays; None if a time is near the first or the last one there is."""
    if int(times.min()) - abs(offset) - length < LONG_MIN or int(times.max()) + abs(offset) > LONG_MAX:
        return None
    return times - (times - offset) % length


def distinct_of(starts: Any) -> list[int]:
    """Return the different values of an array of numpy, in order."""
    import numpy as np

    least, most = int(starts.min()), int(starts.max())
    return [least] if least == most else np.unique(starts).tolist()


class FoldedWindowsOperator(AlignedWindowOperator):
    """Windows with reduce or aggregate: each one folds all its records in the order of arrival, as in Flink."""

    _table: PaneTable

    def open(self) -> None:
        descriptor = fold_state(self.fold_function, self.fold_type, self.state_name)
        self._table, convert = self.backend.grouped_table_of(descriptor, "namespace")
        codec = self._table.codec
        # A record must not become the accumulator of several windows.
        copy = copying(codec) if self._slide < self._size and not self._shared else None
        self._fold = Fold(self.fold_function, repr(self.node.name), convert, exact=codec.exact, copy=copy)
        self._columns = self._make_columns()
        super().open()

    def _make_columns(self) -> WindowColumns | None:
        """Return what folds columns; None if only records can be folded."""
        if records_only(self.node) is not None:
            return None
        # Only jobs that may have columns import Arrow.
        from flinkish.runtime.operators.window.columns import WindowColumns

        return WindowColumns(self.node, self._table, self._fold_records)

    def _fold_records(self, span: Span, columns: Columns) -> None:
        if columns.combined:
            assert self._columns is not None
            codes, keys = columns.groups()
            merged = self._table.get_all(span, keys)
            for code, accumulator in zip(codes.tolist(), self._columns.accumulators(columns), strict=True):
                merged[code] = accumulator if merged[code] is None else self._fold.merge(merged[code], accumulator)
            # Only then: a sum may leave its type in between.
            convert = self._fold.convert
            self._table.put_all(span, keys, merged if convert is None else map(convert, merged))
            return
        values, _, owners = unpacked(columns)
        assert owners is not None
        self._table.fold([span], owners, values, self._fold, self.backend)

    def process_columns(self, columns: Columns, input_index: int = 0) -> None:
        starts = self._starts(columns) if self._columns is not None and columns.key_fields is not None else None
        distinct = [] if starts is None else distinct_of(starts)
        stretches = {}
        if columns.combined or len(distinct) * _LEAST_IN_STRETCH <= len(columns):
            stretches = {start: self._stretch_at(start) for start in distinct}
        if self._columns is None or not stretches or any(stretch.fired for stretch in stretches.values()):
            super().process_columns(columns, input_index)
            return
        spans: dict[Span, list[int]] = {}
        for start, stretch in stretches.items():
            for span in stretch.spans:
                spans.setdefault(span, []).append(start)
        self._columns.hold(spans, starts, columns)
        late = [start for start, stretch in stretches.items() if not stretch.spans]
        if late:
            gone = self._columns.of_stretches(late, starts, columns)
            if columns.combined:
                self.late_records.inc(gone.number_of_records)
                self.context.dead_letters.dropped(LATE)
            else:
                super().process_columns(gone, input_index)

    def _starts(self, columns: Columns) -> Any:
        """Return when the stretches of time of columns begin, as an array; None if one has no time, or one near the last."""
        times = self.column_times(columns)
        return None if times is None else starts_of(times, self._offset, self._length)

    def flush(self) -> None:
        """Fold columns that wait."""
        if self._columns is not None:
            self._columns.flush()

    def before_barrier(self) -> None:
        self.flush()
        super().before_barrier()

    def _advance(self, fired: int, passed: int) -> None:
        if self._agenda and self._agenda[0][0] <= passed:
            self.flush()
        super()._advance(fired, passed)

    def process_records(self, input_index: int, records: Records) -> None:
        self.flush()
        fold, fold_run, scope = self._fold, self._table.fold, self.backend
        offset, length = self._offset, self._length
        times = self.times_of(records)
        assert records.keys is not None
        start = min(times)
        start -= (start - offset) % length
        if max(times) < start + length:
            only = self._stretch_at(start)
            if only.spans and not only.fired:
                fold_run(only.spans, records.keys, records.values, fold, scope)
                return
        # By window and not by stretch: each window folds its records in the order of arrival.
        waiting: dict[Span, tuple[list[Any], list[Any]]] = {}
        stretches: dict[int, _Stretch] = {}
        start = end = 0
        for value, time, key in zip(records.values, times, records.keys, strict=True):
            if not start <= time < end:
                start = time - (time - offset) % length
                end = start + length
                known = stretches.get(start)
                stretch = known or self._stretch_at(start)
                if known is None:
                    stretches[start] = stretch
                    stretch.waiting = [waiting.setdefault(span, ([], [])) for span in stretch.spans]
            if not stretch.spans:
                self.late(value, time)
                continue
            for keys, values in stretch.waiting:
                keys.append(key)
                values.append(value)
            if stretch.fired:
                for span, (keys, values) in zip(stretch.spans, stretch.waiting, strict=True):
                    fold_run([span], keys, values, fold, scope)
                    keys.clear()
                    values.clear()
                for window in stretch.fired:
                    self._fire_again(window, key, time)
        for span, (keys, values) in waiting.items():
            if keys:
                fold_run([span], keys, values, fold, scope)

    def _fire(self, window: Span, spans: list[Span]) -> None:
        shown, timestamp = TimeWindow(*window), window[1] - 1
        backend, result_of, emit = self.backend, self._fold.result, self.emit
        clears = self.clear_function is not None and not self.lateness
        members = self._accumulators(spans)
        if self._columns is not None:
            members = list(members)
            results = self._columns.results(window, [key for key, _ in members], [each for _, each in members])
            if results is not None:
                self.output.columns(results)
                return
        for key, accumulator in members:
            backend.current_key = key
            result = result_of(accumulator)
            if result is not None:
                if self._passes_through:
                    emit(result, timestamp)
                else:
                    self.emit_window(shown, window, [result], timestamp)
            if clears:
                self.clear_window_function(shown, window)

    def _accumulators(self, spans: list[Span]) -> Iterable[tuple[Any, Any]]:
        """Return the keys of a window, each with its accumulator, which the caller may change."""
        return self._table.copies(spans[0])

    def _fire_again(self, window: Span, key: Any, timestamp: int) -> None:
        """Emit the result of the current key for a window that has fired, because of a late record."""
        self.emit_folded(TimeWindow(*window), window, self._accumulator(window, key), timestamp)

    def _accumulator(self, window: Span, key: Any) -> Any:
        return self._table.copy(window, key)


class SharedPanesOperator(FoldedWindowsOperator):
    """Sliding windows that are combined from panes, so that a record is folded only once.

    Only for functions that the user has declared to be associative and commutative: the records of a pane are folded before it is
    merged with the next one, even if some of them have arrived later.
    """

    _shared = True

    def _accumulators(self, spans: list[Span]) -> Iterable[tuple[Any, Any]]:
        table, merge = self._table, self._merge
        if len(spans) == 1:
            return table.copies(spans[0])
        merged = dict(table.copies(spans[0]))
        get = merged.get
        for pane in spans[1:]:
            for key, accumulator in table.copies(pane):
                before = get(key)
                merged[key] = accumulator if before is None else merge(before, accumulator)
        return merged.items()

    def _accumulator(self, window: Span, key: Any) -> Any:
        panes = [(start, start + self._length) for start in range(window[0], window[1], self._length)]
        accumulators = [copy for pane in panes if (copy := self._table.copy(pane, key)) is not None]
        return functools.reduce(self._merge, accumulators)

    def _merge(self, first: Any, second: Any) -> Any:
        merged = self._fold.merge(first, second)
        if merged is None:
            function = self._fold.function
            method = "reduce" if isinstance(function, ReduceFunction) else "merge"
            raise InvalidArgumentError(
                f"{type(function).__name__}.{method}() of {self.node.name} must return the accumulator of two panes, which "
                f"{options.SHARE_PANES.key} declares to be mergeable; got None.",
                hint=f"return the merged accumulator, or do not set {options.SHARE_PANES.key}.",
            )
        return merged


class ListedWindowsOperator(AlignedWindowOperator):
    """Windows whose function gets all of their records."""

    _table: GroupedLists

    def open(self) -> None:
        descriptor = ListStateDescriptor(self.state_name, self.config.input_type)
        self._table, _ = self.backend.grouped_table_of(descriptor, "namespace")
        super().open()

    def process_records(self, input_index: int, records: Records) -> None:
        backend, append, freeze = self.backend, self._table.append, self._table.codec.freeze
        stretches: dict[int, _Stretch] = {}
        offset, length = self._offset, self._length
        assert records.keys is not None
        for value, time, key in zip(records.values, self.times_of(records), records.keys, strict=True):
            start = time - (time - offset) % length
            stretch = stretches.get(start)
            if stretch is None:
                stretch = stretches[start] = self._stretch_at(start)
            if not stretch.spans:
                self.late(value, time)
                continue
            # The operator before this one has checked the type.
            frozen = freeze(value)
            for span in stretch.spans:
                append(span, key, frozen)
                if stretch.fired and span in stretch.fired:
                    backend.current_key = key
                    self._emit(span, key, time)

    def _fire(self, window: Span, spans: list[Span]) -> None:
        backend = self.backend
        clears = self.clear_function is not None and not self.lateness
        for key in self._table.members(window):
            backend.current_key = key
            self._emit(window, key, window[1] - 1)
            if clears:
                self.clear_window_function(TimeWindow(*window), window)

    def _emit(self, window: Span, key: Any, timestamp: int) -> None:
        self.emit_window(TimeWindow(*window), window, self._table.get(window, key), timestamp)
