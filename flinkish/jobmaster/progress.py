"""Reports the progress of a running job at intervals, in its own thread, so that long epochs do not delay the reports."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from flinkish.common.clock import Clock

_log = logging.getLogger("flinkish.jobmaster")


class ProgressReporter:
    """Calls `report` every `interval` milliseconds, counted from its construction, until it is stopped."""

    def __init__(self, clock: Clock, interval: int, report: Callable[[], None]) -> None:
        self._clock = clock
        self._interval = interval
        self._report = report
        self._condition = threading.Condition()
        self._due = clock.monotonic() + interval
        self._stopped = False

    def start(self, name: str) -> None:
        """Start a daemon thread with this name."""
        threading.Thread(target=self.run, name=name, daemon=True).start()

    def stop(self) -> None:
        """Make the thread end soon; does not wait for a report in progress."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()

    def run(self) -> None:
        """Report until stopped."""
        while self._wait():
            try:
                self._report()
            except Exception:
                _log.warning("The progress of a job cannot be reported; no more lines come.", exc_info=True)
                return

    def _wait(self) -> bool:
        """Wait until the next report is due; return False when stopped."""
        with self._condition:
            while not self._stopped:
                now = self._clock.monotonic()
                if now >= self._due:
                    self._due += self._interval
                    if self._due <= now:  # skip missed reports, such as those while a laptop slept
                        self._due = now + self._interval
                    return True
                self._clock.wait(self._condition, self._due - now)
            return False
