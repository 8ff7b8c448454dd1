"""Ends a driver under spark-submit whose JVM is gone, because SIGTERM to spark-submit leaves the Python process as an orphan."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

from flinkish.engine.processes import ProcessId

_INTERVAL_S = 0.5
#: 128 + SIGTERM: no process waits for this one, but its end should not look like success.
_EXIT_CODE = 143


class Watchdog:
    """Watches the JVM; when it is gone, cleans up and ends this process quietly."""

    def __init__(self, jvm: ProcessId, clean_up: Callable[[], None]) -> None:
        self._jvm = jvm
        self._clean_up = clean_up
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to watch, in a new thread."""
        threading.Thread(target=self._watch, name="flinkish-watchdog", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(_INTERVAL_S):
            if not self._jvm.is_alive():
                with contextlib.suppress(Exception):
                    self._clean_up()
                os._exit(_EXIT_CODE)
