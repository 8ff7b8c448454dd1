"""Identifies processes by pid and start time, so that a reused pid is not mistaken for the same process."""

from __future__ import annotations

import functools
import os
import signal
from dataclasses import dataclass

import psutil

#: Two readings of a process's start time differ by rounding only; a process that reuses the pid starts later than that.
_SAME_START_S = 1.0


@dataclass(frozen=True, slots=True)
class ProcessId:
    """The identity of one process, different from that of a later process with the same pid."""

    pid: int
    #: Start time from the kernel, in seconds since the epoch.
    created: float

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the process that has this pid now; None if there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        """Tell whether it still runs; a zombie does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < _SAME_START_S
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False
        except OSError:
            # This process has no file descriptor left to read the start time (EMFILE); only check whether the pid is in use.
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

    It stays the same as long as the worker lives; the look-up takes 1 ms.
    """
    for ancestor in psutil.Process().parents():
        try:
            if ancestor.name() == "java":
                return ProcessId(ancestor.pid, ancestor.create_time())
        except psutil.Error:
            continue
    parent = ProcessId.of(os.getppid())
    return parent or ProcessId(os.getpid(), psutil.Process().create_time())
