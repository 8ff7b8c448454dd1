"""Measures a running job: its epochs from the log, its processor time and memory from its processes."""

from __future__ import annotations

import itertools
import logging
import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

#: In the environment of every process of this run.
_MARK = "FLINKISH_BENCH"
os.environ[_MARK] = str(os.getpid())


class EpochTimes(logging.Handler):
    """Notes when each epoch begins."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.begun: list[float] = []
        #: How many records each reader might read in each epoch.
        self.credits: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("Epoch %d of attempt"):
            self.begun.append(time.perf_counter())
            assert isinstance(record.args, tuple)
            self.credits.append(int(str(record.args[-1])))

    def course(self, entries: int = 12) -> str:
        """Return the credit over the epochs in a line: the first ones, then every so many."""
        step = max(1, -(-len(self.credits) // entries))
        return " ".join(f"{credit / 1000:,.0f}k" if credit >= 1_000 else str(credit) for credit in self.credits[::step])

    def durations_ms(self, last: int) -> list[float]:
        """Return the time from epoch to epoch of the last so many."""
        begun = self.begun[-last - 1 :]
        return [1000 * (after - before) for before, after in itertools.pairwise(begun)]


@contextmanager
def epoch_times() -> Iterator[EpochTimes]:
    """Note the epochs of the jobs that run in the block."""
    handler = EpochTimes()
    logger = logging.getLogger("flinkish.jobmaster")
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def processes() -> dict[str, list[psutil.Process]]:
    """Return this process and all below it, by what they are: driver, JVM, workers and slot hosts."""
    here = psutil.Process()
    found: dict[str, list[psutil.Process]] = {"driver": [here], "JVM": [], "Python workers": [], "slot hosts": []}
    everything = {process.pid: process for process in here.children(recursive=True)}
    for process in psutil.process_iter():
        # Slot hosts leave the session of the worker that started them: they are found by their command and the mark.
        everything.setdefault(process.pid, process)
    mine = {process.pid for process in here.children(recursive=True)}
    for process in everything.values():
        try:
            command = " ".join(process.cmdline())
            marked = "flinkish.engine.slots." in command and process.environ().get(_MARK) == os.environ[_MARK]
        except psutil.Error:
            continue
        if marked:
            found["slot hosts"].append(process)
        elif process.pid in mine and "java" in command.split(" ", 1)[0]:
            found["JVM"].append(process)
        elif process.pid in mine and "pyspark" in command:
            found["Python workers"].append(process)
    return found


def cpu_by_kind() -> dict[str, float]:
    """Return the processor time so far, in seconds, by kind of process."""
    found: dict[str, float] = {}
    for name, group in processes().items():
        for process in group:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def cpu_seconds() -> float:
    """Return the processor time of all processes of the job so far."""
    return sum(cpu_by_kind().values())


def memory_mb() -> dict[str, float]:
    """Return resident memory by kind of process; pages that forked workers share count for each."""
    found: dict[str, float] = {}
    for name, group in processes().items():
        for process in group:
            try:
                found[name] = found.get(name, 0.0) + process.memory_info().rss / 2**20
            except psutil.Error:
                continue
    return found


class MemoryPeak(threading.Thread):
    """Looks at the memory twice a second and keeps the most."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak: dict[str, float] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            for name, value in memory_mb().items():
                self.peak[name] = max(self.peak.get(name, 0.0), value)

    def stop(self) -> dict[str, float]:
        """End, and return the peaks."""
        self._over.set()
        self.join()
        return self.peak


def median(values: list[float]) -> float:
    """Return the median, or nan if there are no values."""
    return statistics.median(values) if values else float("nan")
