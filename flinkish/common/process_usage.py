"""Processor time, memory and threads of a process, as the operating system reports them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """Figures of one process at one moment."""

    #: Share of all cores of the machine since the previous measurement, 0 to 1; 0 in the first measurement.
    load: float
    #: Processor time since the process began, in seconds.
    cpu: float
    #: Resident memory in bytes.
    memory: int
    threads: int
    #: Open file descriptors; 0 if this process must not count them.
    files: int


def measure(process: psutil.Process) -> ProcessUsage:
    """Measure a process; the same object is to be used again for its load. Raises psutil.Error if the process is gone."""
    with process.oneshot():
        times = process.cpu_times()
        files = 0
        with contextlib.suppress(psutil.AccessDenied):
            files = process.num_fds()
        return ProcessUsage(
            load=process.cpu_percent(None) / 100 / (os.cpu_count() or 1),
            cpu=times.user + times.system,
            memory=process.memory_info().rss,
            threads=process.num_threads(),
            files=files,
        )
