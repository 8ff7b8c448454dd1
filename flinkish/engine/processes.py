"""Processes that outlive a pid's reuse: a pid together with the time its process began."""

from __future__ import annotations

import functools
import os
import signal
from dataclasses import dataclass

import psutil

#: Two readings of one process's start differ by rounding only; a reused pid starts later than that.
_SAME_START_S = 1.0


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, never another one that got its pid later."""

    pid: int
    #: Seconds since the epoch, as the kernel tells.
    created: float

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the process that has this pid now, None if none has."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        """Return whether it still runs; one that ended and waits to be reaped does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < _SAME_START_S
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False
        except OSError:
            # This process has no file descriptor left to look with (EMFILE): all that can be told is whether the pid is in use.
            return _is_in_use(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return


def _is_in_use(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@functools.cache
def parent_jvm() -> ProcessId:
    """Return the executor's JVM, as seen from one of its Python workers; the parent process if no ancestor is a JVM.

    It stays the same for as long as the worker lives; to look takes 1 ms.
    """
    for ancestor in psutil.Process().parents():
        try:
            if ancestor.name() == "java":
                return ProcessId(ancestor.pid, ancestor.create_time())
        except psutil.Error:
            continue
    parent = ProcessId.of(os.getppid())
    return parent or ProcessId(os.getpid(), psutil.Process().create_time())
