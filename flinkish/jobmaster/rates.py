"""Rates per second over the last seconds. The job computes them, so they do not depend on which clients ask, and when.

Totals are kept at the ends of epochs, at most once a second. A rate covers the time since the newest mark that is at least ten
seconds old, or since the job began; at least the last epoch, even if that took longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields

#: A rate covers at least this long if the job is that old, in milliseconds. Flink averages rates over 60 s and the shares of time
#: over 5 s; one length for both keeps them comparable.
WINDOW_MS = 10_000
#: Minimum time between two marks, in milliseconds.
_STEP_MS = 1_000


@dataclass(slots=True, kw_only=True)
class Totals:
    """Totals of a subtask or of another counted part; durations are in milliseconds."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records_written: int = 0
    busy_ms: float = 0.0
    back_pressured_ms: float = 0.0
    idle_ms: float = 0.0

    def totals(self) -> Totals:
        """Return a copy of the totals alone, which does not change any more."""
        return Totals(**{name: getattr(self, name) for name in _NAMES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Totals per second; the three shares of time are milliseconds per second, and their sum is 1000."""

    records_in: float = 0.0
    records_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    records_written: float = 0.0
    busy: float = 0.0
    back_pressured: float = 0.0
    idle: float = 1000.0


_NOTHING = Totals()
_NAMES = tuple(field.name for field in fields(Totals))
_COUNTS = tuple(name for name in _NAMES if not name.endswith("_ms"))


@dataclass(frozen=True, slots=True)
class _Mark:
    at: int
    totals: Mapping[Hashable, Totals]


class RateWindow:
    """The marks of one job; times are monotonic milliseconds. It is not thread-safe: JobMetrics calls it with its lock."""

    def __init__(self, began: int) -> None:
        self._marks: deque[_Mark] = deque([_Mark(began, {})])

    def due(self, now: int) -> bool:
        """Return whether the last mark is old enough for another one."""
        return now - self._marks[-1].at >= _STEP_MS

    def mark(self, now: int, totals: Mapping[Hashable, Totals]) -> None:
        """Store the totals of the end of an epoch, and remove marks that no rate will need."""
        self._marks.append(_Mark(now, totals))
        while len(self._marks) > 1 and now - self._marks[1].at >= WINDOW_MS:
            self._marks.popleft()

    def rates(self, key: Hashable, totals: Totals, end: int, idle_ms: float) -> Rates:
        """Return the rates of the time up to `end`; `totals` are those at that time.

        `idle_ms` is how long before `end` the last epoch ended, which is no part of the totals.
        """
        if idle_ms >= WINDOW_MS:
            return Rates()
        start = next((mark for mark in reversed(self._marks) if end - mark.at >= WINDOW_MS), self._marks[0])
        before = start.totals.get(key, _NOTHING)
        seconds = (end - start.at) / 1000
        if seconds <= 0:
            return Rates()
        counts = {name: round((getattr(totals, name) - getattr(before, name)) / seconds, 3) for name in _COUNTS}
        busy = totals.busy_ms - before.busy_ms
        held = totals.back_pressured_ms - before.back_pressured_ms
        whole = busy + held + totals.idle_ms - before.idle_ms + idle_ms
        if whole <= 0:
            return Rates(**counts)
        busy, held = round(1000 * busy / whole, 3), round(1000 * held / whole, 3)
        return Rates(**counts, busy=busy, back_pressured=held, idle=round(max(0.0, 1000 - busy - held), 3))
