"""Runs the background work of sources: `call_async` of enumerators, and waiting for driver-side readers."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any

from flinkish.common.clock import Clock

_log = logging.getLogger("flinkish.jobmaster.sources")

Post = Callable[[Callable[[], None]], None]
Handler = Callable[[Any, BaseException | None], None]


class AsyncCalls:
    """A daemon thread that runs work when it is due and posts the results to the coordinator's thread.

    The thread is created when the first work arrives. The work of one source runs one piece after the other, as in Flink, where
    the enumerator's worker is also a single thread.
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
            due = self._clock.monotonic() + max(0, initial_delay)
            heapq.heappush(self._due, (due, next(self._order), work, handler, period))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def close(self) -> None:
        """Start no more work; does not wait for running work, whose result is dropped."""
        with self._condition:
            self._closed = True
            self._due.clear()
            self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._closed and not (self._due and self._due[0][0] <= self._clock.monotonic()):
                    timeout = self._due[0][0] - self._clock.monotonic() if self._due else None
                    self._clock.wait(self._condition, timeout)
                if self._closed:
                    return
                due, _, work, handler, period = heapq.heappop(self._due)
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
                    # At a fixed rate, but calls that were missed because the work took long are skipped.
                    again = max(due + max(1, period), self._clock.monotonic())
                    heapq.heappush(self._due, (again, next(self._order), work, handler, period))
            self._post(_bound(handler, result, error))


def _bound(handler: Handler, result: Any, error: BaseException | None) -> Callable[[], None]:
    return lambda: handler(result, error)
