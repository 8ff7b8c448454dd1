"""Figures of processes of this machine from the operating system, under the names of Flink's JVM metrics."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from typing import Any

import psutil


class ProcessFigures:
    """Figures of processes; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Processes that were measured before: their load is the average since then.
        self._known: dict[int, psutil.Process] = {}

    def of(self, pids: Iterable[int]) -> dict[str, Any]:
        """Return the summed figures of some processes; an empty dict if one of them does not exist any more.

        The resident memory is reported as heap. The load is the share of all cores since the previous call; 0 in the first call.
        """
        wanted = sorted(set(pids))
        totals = {"load": 0.0, "time": 0.0, "memory": 0, "threads": 0, "files": 0}
        with self._lock:
            for pid in list(self._known):
                if not self._known[pid].is_running():
                    del self._known[pid]
            try:
                for pid in wanted:
                    process = self._known.get(pid)
                    if process is None:
                        process = self._known[pid] = psutil.Process(pid)
                    with process.oneshot():
                        times = process.cpu_times()
                        totals["load"] += process.cpu_percent(None) / 100 / (os.cpu_count() or 1)
                        totals["time"] += times.user + times.system
                        totals["memory"] += process.memory_info().rss
                        totals["threads"] += process.num_threads()
                        with contextlib.suppress(psutil.AccessDenied):
                            totals["files"] += process.num_fds()
            except psutil.Error:
                return {}
        if not wanted:
            return {}
        return {
            "Status.JVM.CPU.Load": round(totals["load"], 4),
            "Status.JVM.CPU.Time": round(1e9 * totals["time"]),
            "Status.JVM.Memory.Heap.Used": totals["memory"],
            "Status.JVM.Memory.Heap.Committed": totals["memory"],
            "Status.JVM.Memory.Heap.Max": psutil.virtual_memory().total,
            "Status.JVM.Threads.Count": totals["threads"],
            "Status.JVM.FileDescriptor.Open": totals["files"],
        }
