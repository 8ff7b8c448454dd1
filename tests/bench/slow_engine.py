"""The local engine with a fixed additional cost for each epoch, however much the epoch reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine.local import engine
from tests.bench.keyed_count import environment
from tests.bench.measure import EpochTimes, epoch_times


def _work(value: int) -> int:
    """Take a few microseconds."""
    return value + sum(range(300))


@contextmanager
def slowed(milliseconds: float) -> Iterator[None]:
    """Have epochs of the local engine take so much longer."""
    run_levels = engine.run_levels

    def run_slowly(*arguments: Any) -> Any:
        threading.Event().wait(milliseconds / 1000)
        return run_levels(*arguments)

    engine.run_levels = run_slowly
    try:
        yield
    finally:
        engine.run_levels = run_levels


def run(records: int, *, target: float, fixed: float, interval: float, checkpoints: Path) -> EpochTimes:
    """Count records with epochs of a fixed cost and checkpoints, all in milliseconds; return when epochs began, and credits."""
    settings = {
        "execution.epoch.target-duration": f"{target:.0f} ms",
        "execution.checkpointing.interval": f"{interval:.0f} ms",
        "execution.checkpointing.dir": str(checkpoints),
    }
    with slowed(fixed), epoch_times() as times:
        env = environment("local", 1, settings)
        numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.map(_work, Types.LONG()).sink_to(DiscardingSink())
        env.execute("slow engine")
    return times
