"""Sliding windows: the mean of the last 60 seconds of each sensor, every 20 seconds.

Run it with `python jobs/examples/sliding_time_window.py [--output FOLDER] [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from example_io import parse_arguments, print_or_write

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment
from flinkish.datastream.window import SlidingEventTimeWindows, TimeWindow

#: Sensor, second, value.
READINGS = [
    ("a", 5, 20.0), ("a", 18, 21.0), ("b", 25, 7.5), ("a", 41, 25.0), ("a", 59, 26.0), ("b", 60, 8.5), ("b", 95, 9.5),
    ("a", 130, 19.0),
]  # fmt: skip


class ReadingTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) * 1_000


class Mean(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    """Emits the sensor, start and end of the window in seconds, and the mean of its values."""

    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]) -> Iterable[tuple]:
        window = context.window()
        values = [value for _, _, value in elements]
        yield key, window.start // 1_000, window.end // 1_000, sum(values) / len(values)


def means(env: StreamExecutionEnvironment) -> DataStream:
    """Return the means; each reading is in three windows, and the first windows begin before the first reading."""
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()]))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ReadingTime())
    return (
        readings.assign_timestamps_and_watermarks(in_order)
        .key_by(lambda reading: reading[0], key_type=Types.STRING())
        .window(SlidingEventTimeWindows.of(Time.seconds(60), Time.seconds(20)))
        .process(Mean(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.DOUBLE()]))
    )


def main() -> None:
    arguments = parse_arguments(__doc__)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    print_or_write(means(env), arguments.output)
    env.execute("Sliding windows")


if __name__ == "__main__":
    main()
