"""Identifies processes by pid and start time, so that a reused pid is not mistaken for the same process.

On Linux, start times are counted from the boot of the machine. psutil's are times of day, which change for every process when
the machine's clock is set: all processes would seem to have ended, and their folders would be removed while they run.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Two readings of a process's start time differ by rounding only; a process that reuses the pid starts later than that.
_SAME_START_S = 0.05
#: No machine runs for longer than this without a restart, in seconds.
_LONGEST_RUN_S = 2**27
#: States of processes that have ended: zombie, dead.
_ENDED_STATES = (b"Z", b"X", b"x")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """The identity of one process; a later process with the same pid has another one."""

    pid: int
    #: Start time from the kernel, in seconds: since the epoch; on Linux, since the boot, plus a number for this boot.
    created: float

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the process that has this pid now; None if there is none."""
        found = _look_at(pid)
        return None if found is None else cls(pid, found[0])

    def is_alive(self) -> bool:
        """Tell whether it still runs; a zombie does not."""
        try:
            found = _look_at(self.pid)
        except OSError:
            # This process has no file descriptor left to read the start time (EMFILE); only check whether the pid is in use.
            return _is_in_use(self.pid)
        return found is not None and found[1] and abs(found[0] - self.created) < _SAME_START_S

    def started_since_boot(self) -> bool:
        """Tell whether it started after the machine's last boot."""
        return boot() <= self.created < boot() + _LONGEST_RUN_S

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return


@functools.cache
def boot() -> float:
    """Return the number from which start times count: the time of the machine's boot; on Linux, a number for this boot."""
    try:
        return float(int(Path("/proc/sys/kernel/random/boot_id").read_text()[:4], 16) * _LONGEST_RUN_S)
    except (OSError, ValueError):
        return psutil.boot_time()


def namespace(kind: str) -> int:
    """Return an id of this process's namespace of a kind, such as "pid" or "net", which containers do not share; 0 if unknown."""
    try:
        return int("".join(filter(str.isdigit, os.readlink(f"/proc/self/ns/{kind}"))))
    except (OSError, ValueError):
        return 0


def _look_at(pid: int) -> tuple[float, bool] | None:
    """Return when a process started, and whether it has not ended; None if there is none. Raises OSError."""
    if not sys.platform.startswith("linux"):
        try:
            process = psutil.Process(pid)
            return process.create_time(), process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program, in parentheses, may contain anything.
    fields = stat.rpartition(b")")[2].split()
    return boot() + int(fields[19]) / os.sysconf("SC_CLK_TCK"), fields[0] not in _ENDED_STATES


def _is_in_use(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def this_process() -> ProcessId:
    found = ProcessId.of(os.getpid())
    assert found is not None
    return found
