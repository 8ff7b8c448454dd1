"""Epochs that update random keys of a large state, with each state backend."""

from __future__ import annotations

import tempfile
import threading
from statistics import median
from typing import Any

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from tests.bench.keyed_count import CountPerKey, environment
from tests.bench.measure import epoch_times, processes
from tests.bench.phased_source import PhasedSource

#: Spreads consecutive numbers evenly.
_FACTOR = 0x9E3779B97F4A7C15


def epoch_ms(backend: str, keys: int, updates: int, memory: str = "128 mb", epochs: int = 10) -> float:
    """Fill the state with keys, then update random ones; return the median duration of an epoch with that many updates, in ms."""
    with tempfile.TemporaryDirectory() as folder, epoch_times() as times:
        _job(backend, keys, updates, memory, epochs, folder).execute("updates")
    return median(times.durations_ms(epochs - 2))


def reopening_ms(keys: int, updates: int = 10_000, epochs: int = 60) -> tuple[float, float]:
    """Kill a slot host whose state on disk is full of keys; return the longest and the median epoch after that, in ms."""
    with tempfile.TemporaryDirectory() as folder, epoch_times() as times:
        client: Any = _job("rocksdb", keys, updates, "128 mb", epochs, folder).execute_async("reopening")
        ended = client.get_job_execution_result()
        while client.figures().records_read < keys + 5 * updates:
            threading.Event().wait(0.1)
        begun = len(times.begun)
        max(processes()["slot hosts"], key=lambda process: process.memory_info().rss).kill()
        ended.result()
        assert client.figures().restarts == 0
    durations = times.durations_ms(len(times.begun) - begun)
    return max(durations), median(durations)


def _job(backend: str, keys: int, updates: int, memory: str, epochs: int, folder: str) -> StreamExecutionEnvironment:
    settings = {
        "state.backend.type": backend,
        "state.backend.rocksdb.memory.fixed-per-slot": memory,
        "io.tmp.dirs": folder,
        "execution.epoch.poll-interval": "1 ms",
    }
    env = environment("spark", settings=settings)
    source = PhasedSource(fill=keys, small=updates // 2, end=keys + updates * epochs)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    keyed = numbers.key_by(
        lambda number: number if number < keys else (number * _FACTOR & 0xFFFFFFFFFFFFFFFF) % keys, key_type=Types.LONG()
    )
    keyed.process(CountPerKey(), Types.LONG()).sink_to(DiscardingSink())
    return env
