"""The job of the recovery tests: counts per key, with event-time timers, into two sinks. Run as a process of its own.

Every record of key k gives a row (k, count); every 10th record of a key sets a timer 500 ms of event time later, which gives a
row (k, -count at that moment). What comes out is a function of the input alone. The rows go into a Delta table and, by a sink
that is written here as a user would, into a folder.

The function checks as it goes that watermarks never fall and that timers of a key fire in order, each once; its memory of that
is in state, so that it spans restarts.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flinkish.common import Duration, Row, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tests.recovery.folder_sink import FolderSink
from tests.recovery.mains import job_environment, job_parser

RECORDS = 800
KEYS = 7
OUTPUT = Types.ROW_NAMED(["key", "count"], [Types.LONG(), Types.LONG()])


class Tenth(TimestampAssigner):
    """Ten records a second."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 100


class CountWithTimers(KeyedProcessFunction):
    """Counts; `pause` is how long it takes for each record, in seconds."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.armed = runtime_context.get_map_state(MapStateDescriptor("armed", Types.LONG(), Types.LONG()))
        self.watermark = runtime_context.get_state(ValueStateDescriptor("watermark", Types.LONG()))
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        if self.pause:
            threading.Event().wait(self.pause)
        self.check_watermark(ctx)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count % 10 == 0:
            due = ctx.timestamp() + 500
            self.armed.put(due, count)
            ctx.timer_service().register_event_time_timer(due)
        yield Row(key=ctx.get_current_key(), count=count)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        self.check_watermark(ctx)
        before = self.fired.value()
        if before is not None and before >= timestamp:
            raise AssertionError(f"the timer of {timestamp} fired after that of {before}")
        self.fired.update(timestamp)
        count = self.armed.get(timestamp)
        self.armed.remove(timestamp)
        yield Row(key=ctx.get_current_key(), count=-count)

    def check_watermark(self, ctx: KeyedProcessFunction.Context) -> None:
        now, before = ctx.timer_service().current_watermark(), self.watermark.value()
        if before is not None and now < before:
            raise AssertionError(f"the watermark fell from {before} to {now}")
        if now != before:
            self.watermark.update(now)


def expected(records: int = RECORDS) -> list[tuple[int, int]]:
    """Return all rows of an uninterrupted run, sorted."""
    rows = []
    for key in range(KEYS):
        total = len(range(key, records, KEYS))
        rows += [(key, count) for count in range(1, total + 1)]
        rows += [(key, -count) for count in range(10, total + 1, 10)]
    return sorted(rows)


def build(
    env: StreamExecutionEnvironment,
    output: Path,
    records: int = RECORDS,
    pause: float = 0.0,
    *,
    function: CountWithTimers | None = None,
    sinks: str = "",
) -> None:
    """Add the job to an environment; `sinks` is added to the uids of the sinks."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(Tenth())
    numbers = env.from_source(NumberSequenceSource(0, records - 1), strategy, "numbers").uid("numbers")
    keyed = numbers.key_by(lambda value: value % KEYS, key_type=Types.LONG())
    counts = keyed.process(function or CountWithTimers(pause), OUTPUT).uid("count")
    counts.sink_to(DeltaSink.for_table(str(output / "table")).build()).uid(f"table{sinks}")
    counts.sink_to(FolderSink(output / "folder")).uid(f"folder{sinks}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = job_parser()
    parser.add_argument("--records", type=int, default=RECORDS)
    # So that each epoch is long enough for a checkpoint to be due, however fast the machine.
    parser.add_argument("--pause", type=float, default=0.001)
    given = parser.parse_args(arguments)
    # So that there are some epochs, each with a checkpoint; on Spark one takes a while.
    env = job_environment(given, 15 if given.engine == "local" else 50)
    build(env, given.output, given.records, given.pause)
    env.execute("recovery")


if __name__ == "__main__":
    main()
