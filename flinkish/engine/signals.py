"""Handles Ctrl-C and SIGTERM: running jobs are stopped cleanly first, then the signal has its usual effect.

The handlers only put the signal's number into a queue. A thread stops the jobs. When they have ended, it sends the signal again;
then the handler, which runs in the main thread, ends the program as the signal would have done, without a stack trace. So the
main thread may be anywhere: in `execute()`, in `next()` of results, or in the program's own code. A second signal during the
stop has its effect at once, unless it is an echo of the first: timeout(1) sends each signal to the process and to its group.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from flinkish.common.clock import Clock
from flinkish.common.notices import is_interactive
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import JobList

_log = logging.getLogger("flinkish.engine.signals")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Time that jobs get to end; after it the process exits anyway, because that must take at most 10 s.
_GRACE_S = 8.0
#: Maximum time for which the end of a job waits until the main thread has handled the signal, before its result is set.
_HAND_OVER_S = _GRACE_S + 5.0

#: A signal that comes again within this time is the same one.
_ECHO_MS = 300

_Handler = Callable[[int, FrameType | None], Any] | int | None


class JobInterrupted(KeyboardInterrupt, SystemExit):
    """Ctrl-C while a job ran; can be caught as a KeyboardInterrupt, otherwise ends the program quietly with code 130."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGINT)
        self.code = 128 + signal.SIGINT


class SignalWatch:
    """Stops the running jobs of this process at signals; it is a listener of the job list."""

    def __init__(self, jobs: JobList, clock: Clock, send: Callable[[int], None] | None = None) -> None:
        """Create a watch; `send` sends a signal again when the jobs have ended (None = to this process)."""
        self._jobs = jobs
        self._clock = clock
        self._send = send or (lambda number: os.kill(os.getpid(), number))
        self._lock = threading.Lock()
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._before: dict[int, _Handler] = {}
        self._pending: int | None = None
        self._pending_since = 0
        self._passing_on = False
        self._handed_over = threading.Event()
        #: Jobs that did not end within the grace period, such as one on the local engine whose user code does not return.
        self._left_behind: set[EmbeddedJobClient] = set()

    def job_started(self, job: EmbeddedJobClient) -> None:
        """Handle signals for a job. Only the main thread can set handlers, so a job started from another thread has none."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flinkish-signals", daemon=True)
                self._thread.start()
        if threading.current_thread() is threading.main_thread():
            self._install()

    def job_ended(self, job: EmbeddedJobClient) -> None:
        """Handle the end of a job; if a signal was the reason, wait until the main thread has handled the signal."""
        self._left_behind.discard(job)
        if self._pending is not None and self._before:
            self._handed_over.wait(_HAND_OVER_S)

    def restore_if_idle(self) -> None:
        """Restore the former handlers if no job runs; does nothing outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        if not self._jobs.running() and self._pending is None:
            self._restore()

    def stop_all(self, name: str) -> None:
        """Stop all jobs and wait until they have released everything, for at most eight seconds; once for each job."""
        jobs = [job for job in self._jobs.running() if job not in self._left_behind]
        for job in jobs:
            job.stop_for_signal(name)
        deadline = self._clock.monotonic() + int(_GRACE_S * 1000)
        for job in jobs:
            if not job.wait_released(max(0.0, (deadline - self._clock.monotonic()) / 1000)):
                self._left_behind.add(job)
                _log.warning("A job has not ended %d s after %s; it is left behind.", int(_GRACE_S), name)

    # -- in the main thread --------------------------------------------------------------------------------------------------

    def _install(self) -> None:
        for number in _SIGNALS:
            current = signal.getsignal(number)
            # A signal that the program ignores stays ignored, as under nohup.
            if current != self.handle and current is not signal.SIG_IGN:
                self._before[number] = current
                signal.signal(number, self.handle)

    def _restore(self) -> None:
        before, self._before = self._before, {}
        for number, handler in before.items():
            if signal.getsignal(number) == self.handle:
                signal.signal(number, handler)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; runs in the main thread."""
        # No lock is taken here: the main thread may hold it.
        now = self._clock.monotonic()
        if self._jobs.running() and self._pending is None and not self._passing_on:
            self._pending, self._pending_since = number, now
            self._received.put(number)
            return
        if self._pending == number and not self._passing_on and now - self._pending_since < _ECHO_MS:
            return
        before = self._before.get(number, signal.SIG_DFL)
        self._passing_on = False
        self._pending = None
        self._restore()
        self._handed_over.set()
        _take_course(number, frame, before)

    # -- in the watch's own thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            number = self._received.get()
            self._handed_over.clear()
            name = signal.Signals(number).name
            _log.info("%s: stopping all jobs.", name)
            try:
                self.stop_all(name)
            except Exception:
                # The signal still has its effect, and this thread must be there for the next one.
                _log.exception("Not all jobs could be stopped for %s.", name)
            if self._pending is not None:
                self._passing_on = True
                self._send(number)


def _take_course(number: int, frame: FrameType | None, before: _Handler) -> None:
    """Do what the signal would have done without this module, but without a stack trace."""
    if callable(before) and not _raises_keyboard_interrupt(before):
        before(number, frame)
    elif number == signal.SIGINT:
        raise KeyboardInterrupt if is_interactive() else JobInterrupted()
    else:
        raise SystemExit(128 + number)


def _raises_keyboard_interrupt(handler: Callable[..., Any]) -> bool:
    """Tell whether a handler raises KeyboardInterrupt: Python's own, or a SparkContext's, which also cancels Spark's jobs."""
    return handler is signal.default_int_handler or str(getattr(handler, "__module__", "")).startswith("pyspark")


def stop_at_exit(watch: SignalWatch) -> None:
    """Stop jobs that still run when the program ends, such as a job of execute_async for which the program did not wait."""
    with contextlib.suppress(Exception):
        watch.stop_all("the end of the program")
