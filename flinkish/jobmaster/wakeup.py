"""The condition that the JobMaster's thread waits for, and by which other threads wake it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from flinkish.common.clock import Clock


class Wakeup:
    """A condition whose signals are never missed: a signal between the check and the wait ends the wait at once.

    Use: read `since = wakeup.signals`, check everything, then call `wakeup.wait(since, timeout)`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._signals = 0
        self._posted: deque[Callable[[], None]] = deque()

    @property
    def signals(self) -> int:
        with self._condition:
            return self._signals

    def signal(self) -> None:
        """Make the JobMaster check again; may be called from any thread."""
        with self._condition:
            self._signals += 1
            self._condition.notify_all()

    def post(self, call: Callable[[], None]) -> None:
        """Have `call` called in the JobMaster's thread; may be called from any thread."""
        with self._condition:
            self._posted.append(call)
            self._signals += 1
            self._condition.notify_all()

    def take_posted(self) -> list[Callable[[], None]]:
        """Return the posted calls, and forget them."""
        with self._condition:
            posted = list(self._posted)
            self._posted.clear()
            return posted

    def drop_posted(self) -> None:
        """Drop the calls that were posted by an attempt that has ended."""
        with self._condition:
            self._posted.clear()

    def wait(self, since: int, timeout: int | None) -> None:
        """Wait for a signal after `since`, for at most `timeout` milliseconds (None = no limit)."""
        with self._condition:
            if self._signals == since:
                self._clock.wait(self._condition, timeout)
