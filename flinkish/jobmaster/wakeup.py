"""Waiting threads of a job: the condition of the JobMaster, and background work that is due at times or waits for input."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from flinkish.common.clock import Clock

Post = Callable[[Callable[[], None]], None]
Handler = Callable[[Any, BaseException | None], None]


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

    def wait(self, since: int, timeout: int | None) -> None:
        """Wait for a signal after `since`, for at most `timeout` milliseconds (None = no limit)."""
        with self._condition:
            if self._signals == since:
                self._clock.wait(self._condition, timeout)


class AsyncCalls:
    """A daemon thread that runs work when it is due, and posts the results, for instance to the JobMaster's thread.

    The thread is created when the first work arrives. Pieces of work run one after the other, as in Flink, where the worker of an
    enumerator's `call_async` is also a single thread.
    """

    def __init__(self, name: str, clock: Clock, post: Post) -> None:
        self._name = name
        self._clock = clock
        self._post = post
        self._condition = threading.Condition()
        self._due: list[tuple[int, int, Callable[[], Any], Handler, int | None]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def call(self, work: Callable[[], Any], handler: Handler, initial_delay: int = 0, period: int | None = None) -> None:
        """Run `work` after a delay, then repeatedly if there is a period (both in ms); `handler` gets each result or error."""
        with self._condition:
            if self._closed:
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                # Only a thread that could be started can be waited for.
                self._thread = thread
            due = self._clock.monotonic() + max(0, initial_delay)
            heapq.heappush(self._due, (due, next(self._order), work, handler, period))
            self._condition.notify_all()

    def close(self, wait: int = 0) -> None:
        """Start no more work, and wait for running work for at most `wait` milliseconds; its result is dropped."""
        with self._condition:
            self._closed = True
            self._due.clear()
            self._condition.notify_all()
        if wait and self._thread is not None:
            self._thread.join(wait / 1000)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._closed and not (self._due and self._due[0][0] <= self._clock.monotonic()):
                    timeout = self._due[0][0] - self._clock.monotonic() if self._due else None
                    self._clock.wait(self._condition, timeout)
                if self._closed:
                    return
                due, _, work, handler, period = heapq.heappop(self._due)
                began = self._clock.monotonic()
            result, error = None, None
            try:
                result = work()
            # SystemExit is caught, too: the handler must learn of it, and the thread must continue.
            except BaseException as raised:
                error = raised
            with self._condition:
                if self._closed:
                    return
                if period is not None:
                    # At a fixed rate, but missed calls are skipped, such as those while a laptop slept.
                    again = due + period if due + period > began else began + max(1, period)
                    heapq.heappush(self._due, (again, next(self._order), work, handler, period))
            self._post(partial(handler, result, error))
