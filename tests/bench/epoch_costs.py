"""What an epoch costs by slots and levels, and what of it each kind of process uses: `make bench ARGS='--only epoch-costs'`.

An epoch has 100 records, so that nearly all of it is the fixed cost. A program of n levels has n - 1 exchanges by key.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from tests.bench.keyed_count import CountPerKey, environment
from tests.bench.measure import EpochTimes, cpu_by_kind, epoch_times, median

#: Epochs until the JVM has compiled what runs in each, and those that are measured after it.
_WARM, _MEASURED = 60, 40
#: Slots at two levels, and levels at two slots: each is looked at while the other stays as it is.
SLOTS, LEVELS = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 5, 6)


class Cost(NamedTuple):
    """All in milliseconds an epoch: its time, Spark's steps in the driver's JVM, processor time by kind of process."""

    slots: int
    levels: int
    epoch: float
    steps: dict[str, float]
    processor: dict[str, float]


def cost(spark: Any, slots: int, levels: int) -> Cost:
    """Run small epochs at a parallelism in a program of some levels."""
    with epoch_times() as times:
        env = environment("spark", slots, {"execution.epoch.max-records": str(max(1, 100 // slots))})
        source = NumberSequenceSource(0, 10_000_000)
        stream: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        for _ in range(levels - 1):
            stream = stream.key_by(lambda value: value % 1_000, key_type=Types.LONG()).process(CountPerKey(), Types.LONG())
        stream.sink_to(DiscardingSink())
        client = env.execute_async("epoch costs")
        try:
            _wait_for(times, _WARM)
            before, begun = cpu_by_kind(), len(times.begun)
            _wait_for(times, begun + _MEASURED)
            after, epochs = cpu_by_kind(), len(times.begun) - begun
            [query] = spark.streams.active
            progress = [each.durationMs for each in query.recentProgress[-_MEASURED:]]
        finally:
            client.cancel().result()
    steps = {name: sum(each.get(name, 0) for each in progress) / len(progress) for name in progress[-1]}
    used = {kind: 1000 * (after[kind] - before.get(kind, 0.0)) / epochs for kind in after}
    return Cost(slots, levels, median(times.durations_ms(epochs)), steps, used)


def _wait_for(times: EpochTimes, epochs: int) -> None:
    while len(times.begun) < epochs:
        threading.Event().wait(0.02)
