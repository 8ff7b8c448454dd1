"""What the JobMaster's thread waits on, and how others reach it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from flinkish.common.clock import Clock


class Bell:
    """A condition that cannot be missed: a ring between looking and waiting ends the wait at once.

    Use: `since = bell.rings`, look at everything, then `bell.wait(since, timeout)`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._rings = 0
        self._posted: deque[Callable[[], None]] = deque()

    @property
    def rings(self) -> int:
        with self._condition:
            return self._rings

    def ring(self) -> None:
        """Have the JobMaster look again; from any thread."""
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def post(self, call: Callable[[], None]) -> None:
        """Have something called in the JobMaster's thread; from any thread."""
        with self._condition:
            self._posted.append(call)
            self._rings += 1
            self._condition.notify_all()

    def take_posted(self) -> list[Callable[[], None]]:
        """Return, once, what is to be called."""
        with self._condition:
            posted = list(self._posted)
            self._posted.clear()
            return posted

    def drop_posted(self) -> None:
        """Forget what was posted by an attempt that has ended."""
        with self._condition:
            self._posted.clear()

    def wait(self, since: int, timeout: int | None) -> None:
        """Wait for a ring after `since`, for at most `timeout` milliseconds (None: without limit)."""
        with self._condition:
            if self._rings == since:
                self._clock.wait(self._condition, timeout)
