"""Programs that run both on flinkish and on PyFlink (with the package's name replaced by `pyflink`), for comparison.

All of them read a number sequence, have 100,000 keys, and drop their results in a filter. Each takes the number of records as its
argument. As a script, `programs.py PROGRAM RECORDS [KEY=VALUE...]` runs one with a configuration and prints its seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from flinkish.common import Configuration, Time, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedBroadcastProcessFunction, KeyedProcessFunction
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.kit.functions import Mean

KEYS = 100_000
#: Milliseconds of event time.
SECOND = 1000


class EventTime(TimestampAssigner):
    """Each half of the sequence is read by one source and covers the same time, in which each key has `rate` records a second.

    After ten seconds there is a pause of some seconds, if wanted.
    """

    def __init__(self, records: int, rate: float, pause: int = 0) -> None:
        self._half = max(1, records // 2)
        self._records_per_ms = rate * KEYS / 2 / SECOND
        self._pause = pause

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        timestamp = int(value % self._half / self._records_per_ms)
        return timestamp + timestamp // (10 * SECOND) * self._pause * SECOND


class CountPerKey(KeyedProcessFunction):
    """Counts, and emits nothing."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterable[int]:
        count = self.count.value()
        self.count.update(1 if count is None else count + 1)
        if value < 0:
            yield value


FACTORS = MapStateDescriptor("factors", Types.LONG(), Types.LONG())


class Scaled(KeyedBroadcastProcessFunction):
    """Multiplies each record by the factor for it, of which there are a thousand."""

    def process_element(self, value: int, ctx: Any) -> Iterable[int]:
        factor = ctx.get_broadcast_state(FACTORS).get(value % 1_000)
        yield value if factor is None else value * factor

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterable[int]:
        ctx.get_broadcast_state(FACTORS).put(value % 1_000, value)
        return ()


def key_of(value: int) -> int:
    return value % KEYS


def numbers(env: Any, records: int, times: EventTime | None = None) -> Any:
    stream = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    if times is None:
        return stream
    # Not at the source: there PyFlink takes no assigner written in Python.
    return stream.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(times))


def keyed(stream: Any) -> Any:
    return stream.key_by(key_of, Types.LONG())


def drop(stream: Any) -> None:
    stream.filter(lambda value: value < 0).print()


def means(windows: Any) -> None:
    drop(windows.aggregate(Mean(), accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]), output_type=Types.DOUBLE()))


def count(env: Any, records: int) -> None:
    """A ValueState for each key."""
    drop(keyed(numbers(env, records).map(lambda value: value + 1, Types.LONG())).process(CountPerKey(), Types.LONG()))


def tumbling(env: Any, records: int) -> None:
    """Windows of a minute, ten records of each key in one."""
    stream = numbers(env, records, EventTime(records, 10 / 60))
    means(keyed(stream).window(TumblingEventTimeWindows.of(Time.seconds(60))))


def sliding(env: Any, records: int) -> None:
    """Windows of a minute every five seconds, ten records of each key in five seconds."""
    stream = numbers(env, records, EventTime(records, 10 / 5))
    means(keyed(stream).window(SlidingEventTimeWindows.of(Time.seconds(60), Time.seconds(5))))


def sparse_sliding(env: Any, records: int) -> None:
    """The same windows, one record of each key in five seconds: as many results as records."""
    stream = numbers(env, records, EventTime(records, 1 / 5))
    means(keyed(stream).window(SlidingEventTimeWindows.of(Time.seconds(60), Time.seconds(5))))


def session(env: Any, records: int) -> None:
    """Sessions of ten records, a second apart."""
    stream = numbers(env, records, EventTime(records, 1, pause=20))
    means(keyed(stream).window(EventTimeSessionWindows.with_gap(Time.seconds(5))))


def broadcast_join(env: Any, records: int) -> None:
    """Each record looks something up in broadcast state, which has a thousand entries and changes ten thousand times."""
    factors = numbers(env, 10_000).broadcast(FACTORS)
    drop(keyed(numbers(env, records)).connect(factors).process(Scaled(), Types.LONG()))


PROGRAMS: dict[str, Callable[[Any, int], None]] = {
    "count": count,
    "tumbling": tumbling,
    "sliding": sliding,
    "sparse sliding": sparse_sliding,
    "session": session,
    "broadcast join": broadcast_join,
}


def seconds(program: Callable[[Any, int], None], records: int, settings: dict[str, str]) -> float:
    """Run a program once and return how long it took from end to end."""
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    program(env, records)
    started = time.perf_counter()
    env.execute(program.__name__)
    return time.perf_counter() - started


def main() -> None:
    """Run one program."""
    name, records, *settings = sys.argv[1:]
    print("SECONDS", seconds(PROGRAMS[name], int(records), dict(setting.split("=", 1) for setting in settings)))


if __name__ == "__main__":
    main()
