"""Epochs that update random keys of a large state, with each state backend."""

from __future__ import annotations

import tempfile
from statistics import median

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.discard import DiscardingSink
from tests.bench.keyed_count import CountPerKey, environment
from tests.bench.measure import epoch_times
from tests.bench.phased_source import PhasedSource

#: Spreads consecutive numbers evenly.
_FACTOR = 0x9E3779B97F4A7C15


def epoch_ms(backend: str, keys: int, updates: int, memory: str = "128 mb", epochs: int = 10) -> float:
    """Fill the state with keys, then update random ones; return the median duration of an epoch with that many updates, in ms."""
    with tempfile.TemporaryDirectory() as folder, epoch_times() as times:
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
        env.execute("updates")
    return median(times.durations_ms(epochs - 2))
