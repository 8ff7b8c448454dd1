"""Time as an argument: the only place that reads the machine's clocks."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A source of the time in milliseconds; tests pass a ManualClock."""

    def wall_time(self) -> int:
        """Return milliseconds since 1970-01-01 UTC: the processing time that user programs see."""

    def monotonic(self) -> int:
        """Return a number of milliseconds that never goes back; for timeouts and durations."""

    def wait(self, condition: threading.Condition, timeout: int | None) -> None:
        """Wait on a held condition for at most `timeout` milliseconds of this clock; None = no limit."""


class SystemClock:
    """The machine's clocks."""

    def wall_time(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wait(self, condition: threading.Condition, timeout: int | None) -> None:
        condition.wait(None if timeout is None else timeout / 1000)


class ManualClock:
    """A clock that stands still until `advance` moves it."""

    def __init__(self, now: int = 0) -> None:
        self._now = now
        self._waiting: set[threading.Condition] = set()

    def wall_time(self) -> int:
        return self._now

    monotonic = wall_time

    def wait(self, condition: threading.Condition, timeout: int | None) -> None:
        deadline = None if timeout is None else self._now + timeout
        if deadline is not None and deadline <= self._now:
            return
        self._waiting.add(condition)
        condition.wait()
        self._waiting.discard(condition)

    def advance(self, milliseconds: int) -> None:
        """Move the time forward and wake all waiting threads, so that they read the new time."""
        self._now += milliseconds
        for condition in list(self._waiting):
            with condition:
                condition.notify_all()
