"""User functions for the jobs of tests in several folders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flinkish.common import Types
from flinkish.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from flinkish.datastream.checkpoint import CheckpointListener
from flinkish.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
    SourceFunction,
)
from flinkish.datastream.state import ValueStateDescriptor


def fail_once(markers: Path, at: Any) -> None:
    """Raise an error in the first call with this `at` over all attempts; a file in the folder `markers` records the call."""
    marker = markers / str(at)
    if not marker.exists():
        markers.mkdir(exist_ok=True)
        marker.touch()
        raise RuntimeError(f"once at {at}")


class FailOnce(MapFunction):
    """Passes records on; fails once, over all attempts, at each of the values `at`. `of` extracts the value from a record."""

    def __init__(self, markers: Path, *at: Any, of: Callable[[Any], Any] | None = None) -> None:
        self._markers = markers
        self._at = at
        self._of = of

    def map(self, value: Any) -> Any:
        found = value if self._of is None else self._of(value)
        if found in self._at:
            fail_once(self._markers, found)
        return value


class FailsAfterCheckpoint(MapFunction, CheckpointListener):
    """Passes records on; fails once, at the first record after a checkpoint, which a file records."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker
        self.completed = False

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed = True

    def map(self, value: int) -> int:
        if self.completed and not self.marker.exists():
            self.marker.touch()
            raise ValueError("once")
        return value


class Add(ReduceFunction):
    """The sum."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class Number(AggregateFunction):
    """How many records there are."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Mean(AggregateFunction):
    """The mean of numbers; the accumulator has their sum and how many they are."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Greatest(AggregateFunction):
    """The greatest of numbers, or of the second fields of pairs, unless all are negative: None, as is the empty accumulator."""

    def create_accumulator(self) -> None:
        return None

    def add(self, value: Any, accumulator: int | None) -> int | None:
        number = value[1] if isinstance(value, tuple) else value
        return accumulator if number < 0 else max(number, accumulator or 0)

    def get_result(self, accumulator: int | None) -> int | None:
        return accumulator

    def merge(self, acc_a: int | None, acc_b: int | None) -> int | None:
        return acc_a if acc_b is None else acc_b if acc_a is None else max(acc_a, acc_b)


class Itself(TimestampAssigner):
    """A record is a number, or the text of one, and that number is its event time."""

    def extract_timestamp(self, value: int | str, record_timestamp: int) -> int:
        return int(value)


class Second(TimestampAssigner):
    """The second field is the event time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Punctuated(WatermarkGenerator):
    """A watermark after each record."""

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class CountByKey(KeyedProcessFunction):
    """Emits each key as text, with the number of its records so far; the state's name is `count`."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        self.count.update((self.count.value() or 0) + 1)
        yield repr(ctx.get_current_key()), self.count.value()


class Emits(SourceFunction):
    """Emits some records and then nothing more; it runs on the driver, so that no reader in a task is polled."""

    def __init__(self, *records: Any) -> None:
        self.records = records

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        self.cancelled = threading.Event()
        for record in self.records:
            ctx.collect(record)
        self.cancelled.wait()

    def cancel(self) -> None:
        self.cancelled.set()
