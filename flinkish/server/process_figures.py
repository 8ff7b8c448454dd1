"""Figures of processes from the operating system, under the names of Flink's JVM metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import psutil

from flinkish.common.process_usage import ProcessUsage, measure


class ProcessFigures:
    """Figures of processes of this machine; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Processes that were measured before: their load is the average since then.
        self._known: dict[int, psutil.Process] = {}

    def of(self, pids: Iterable[int]) -> dict[str, Any]:
        """Return the summed figures of some processes; an empty dict if one of them does not exist any more.

        The load is the share of all cores since the previous call; 0 in the first call.
        """
        usages = []
        with self._lock:
            self._known = {pid: process for pid, process in self._known.items() if process.is_running()}
            try:
                for pid in sorted(set(pids)):
                    self._known[pid] = self._known.get(pid) or psutil.Process(pid)
                    usages.append(measure(self._known[pid]))
            except psutil.Error:
                return {}
        return summed(usages, psutil.virtual_memory().total)


def summed(usages: Sequence[ProcessUsage], machine_memory: int) -> dict[str, Any]:
    """Return the sums over processes of one machine; an empty dict if there is none. Resident memory is reported as heap."""
    if not usages:
        return {}
    memory = sum(usage.memory for usage in usages)
    return {
        "Status.JVM.CPU.Load": round(sum(usage.load for usage in usages), 4),
        "Status.JVM.CPU.Time": round(1e9 * sum(usage.cpu for usage in usages)),
        "Status.JVM.Memory.Heap.Used": memory,
        "Status.JVM.Memory.Heap.Committed": memory,
        "Status.JVM.Memory.Heap.Max": machine_memory,
        "Status.JVM.Threads.Count": sum(usage.threads for usage in usages),
        "Status.JVM.FileDescriptor.Open": sum(usage.files for usage in usages),
    }
