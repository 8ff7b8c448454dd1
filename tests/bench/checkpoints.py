"""What checkpoints of large state cost, full and incremental: the state is filled, then a hundredth of its keys is updated."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from flinkish.checkpoint.statistics import CheckpointRecord, CheckpointStatus
from flinkish.common import Row, TypeInformation, Types, WatermarkStrategy
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from tests.bench.keyed_count import environment
from tests.bench.measure import epoch_times
from tests.bench.phased_source import PhasedSource

#: Values of 8 bytes, and Rows of about 100.
VALUES: dict[str, tuple[TypeInformation, Callable[[int], Any]]] = {
    "longs": (Types.LONG(), lambda number: number),
    "rows": (
        Types.ROW_NAMED(["id", "total", "name", "note"], [Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.STRING()]),
        lambda number: Row(id=number, total=number / 7, name=f"customer {number}", note="x" * 50),
    ),
}
#: Records that each of two readers emits in an epoch of updates.
PER_EPOCH = 50_000


class Keep(KeyedProcessFunction):
    """Keeps the last value of each key."""

    def __init__(self, value_type: TypeInformation, make: Callable[[int], Any]) -> None:
        self._type, self._make = value_type, make

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last", self._type))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self._last.update(self._make(value))
        return iter(())


@dataclass
class Measured:
    """Epochs with updates, in ms, and the medians of the checkpoints taken meanwhile: bytes, ms.

    `work_ms` is the stop and the upload of the slowest subtask; most of the rest of the duration is the epoch with the barrier.
    """

    epochs: list[float]
    written: float = 0
    duration_ms: float = 0
    work_ms: float = 0
    sync_ms: float = 0

    @property
    def epoch_ms(self) -> float:
        return mean(self.epochs)

    @property
    def longest(self) -> float:
        """The longest epoch, in medians."""
        return max(self.epochs) / median(self.epochs)


def run(values: str, keys: int, epochs: int, settings: dict[str, str]) -> Measured:
    """Fill the state with keys, then update a hundredth of them in epochs of one size, the first half of which is a warm-up."""
    value_type, make = VALUES[values]
    with tempfile.TemporaryDirectory() as folder, epoch_times() as times:
        env = environment("spark", settings={"execution.checkpointing.dir": folder, **settings})
        source = PhasedSource(fill=keys, small=PER_EPOCH, end=keys + 2 * PER_EPOCH * epochs)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        keyed = numbers.key_by(lambda number: number if number < keys else number % (keys // 100), key_type=Types.LONG())
        keyed.process(Keep(value_type, make), Types.LONG()).sink_to(DiscardingSink())
        client: Any = env.execute_async("checkpoints")
        result = client.get_job_execution_result()
        completed: dict[int, CheckpointRecord] = {}
        while not result.done():
            time.sleep(0.1)
            for record in client.job_master.checkpoints.figures().history:
                if record.status is CheckpointStatus.COMPLETED:
                    completed[record.checkpoint_id] = record
        result.result()
    measured = Measured(times.durations_ms(epochs // 2))
    done = [record for record in completed.values() if record.state_rows >= keys][1:]
    if done:
        measured.written = median(record.checkpointed_size for record in done)
        measured.duration_ms = median(record.duration or 0 for record in done)
        measured.work_ms = median(record.snapshot_ms for record in done)
        measured.sync_ms = median(max(each.snapshot_ms for each in record.acknowledgements) for record in done)
    return measured
