"""All state of a heap written by a forked process, while the slot goes on with the next epochs.

The process has the state as it was at the fork. Pickling it in a thread would hold the interpreter, and so the records, as long.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
from collections.abc import Callable
from typing import NoReturn

#: Maximum bytes of a result, which a pipe holds at once.
_MOST_BYTES = 4_096


class Fold:
    """A forked process that computes a few bytes; the process it is forked from has nothing but the slot."""

    def __init__(self, compute: Callable[[], bytes]) -> None:
        self._pipe, writing = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            _compute_and_exit(compute, writing)
        os.close(writing)

    def is_done(self) -> bool:
        return bool(select.select([self._pipe], [], [], 0)[0])

    def result(self) -> bytes | None:
        """Return the result, and wait for it; None if the process failed or was killed."""
        found = os.read(self._pipe, _MOST_BYTES)
        self._end()
        return found or None

    def cancel(self) -> None:
        self._end(kill=True)

    def _end(self, *, kill: bool = False) -> None:
        os.close(self._pipe)
        # User code that waits for any child may be quicker; then the number may be that of another process.
        with contextlib.suppress(ChildProcessError):
            if kill and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def _compute_and_exit(compute: Callable[[], bytes], writing: int) -> NoReturn:
    """Send the result and end, without a word: the slot writes its state itself then, and names the reason."""
    code = 1
    try:
        gc.disable()
        for ending in (signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, signal.SIG_DFL)
        # Whoever waits for the end of the slot's process by a connection or a lock is not to wait for this one.
        for number in map(int, os.listdir("/dev/fd")):
            if number > 2 and number != writing:
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(number)
        os.write(writing, compute())
        code = 0
    finally:
        os._exit(code)
