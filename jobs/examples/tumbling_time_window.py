"""Tumbling windows: the number of visitors at each door, for every ten seconds.

Run it with `python jobs/examples/tumbling_time_window.py [--output FOLDER] [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from example_io import parse_arguments, print_or_write

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment
from flinkish.datastream.window import TimeWindow, TumblingEventTimeWindows

#: Door, and when somebody came through it, in milliseconds.
VISITORS = [
    ("north", 1_200), ("north", 4_000), ("south", 4_700), ("north", 9_999), ("north", 10_000), ("south", 18_300),
    ("south", 19_000), ("north", 31_500),
]  # fmt: skip


class VisitTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Count(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    """Emits the door, start and end of the window, and the number of visitors."""

    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]) -> Iterable[tuple]:
        window = context.window()
        return [(key, window.start, window.end, len(list(elements)))]


def visitors_by_door(env: StreamExecutionEnvironment) -> DataStream:
    """Return the count of each door and window; a window without visitors has no result."""
    visitors = env.from_collection(VISITORS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(VisitTime())
    return (
        visitors.assign_timestamps_and_watermarks(in_order)
        .key_by(lambda visitor: visitor[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .process(Count(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()]))
    )


def main() -> None:
    arguments = parse_arguments(__doc__)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    print_or_write(visitors_by_door(env), arguments.output)
    env.execute("Tumbling windows")


if __name__ == "__main__":
    main()
