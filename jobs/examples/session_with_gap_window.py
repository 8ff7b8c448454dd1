"""Session windows: clicks of a visitor belong to one session until there is no click for 30 seconds.

Run it with `python jobs/examples/session_with_gap_window.py [--output FOLDER] [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from example_io import parse_arguments, print_or_write

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment
from flinkish.datastream.window import EventTimeSessionWindows, TimeWindow

#: Visitor, second, page.
CLICKS = [
    ("ann", 3, "home"), ("ben", 10, "home"), ("ann", 20, "tents"), ("ann", 49, "stoves"), ("ben", 41, "maps"),
    ("ann", 80, "home"), ("ben", 70, "basket"), ("ann", 95, "basket"),
]  # fmt: skip


class ClickTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) * 1_000


class Path(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    """Emits the visitor, start and end of the session in seconds, and the pages in the order of arrival."""

    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]) -> Iterable[tuple]:
        window = context.window()
        yield key, window.start // 1_000, window.end // 1_000, " > ".join(page for _, _, page in elements)


def paths(env: StreamExecutionEnvironment) -> DataStream:
    """Return the sessions; each ends 30 seconds after its last click."""
    clicks = env.from_collection(CLICKS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ClickTime())
    return (
        clicks.assign_timestamps_and_watermarks(in_order)
        .key_by(lambda click: click[0], key_type=Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.seconds(30)))
        .process(Path(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()]))
    )


def main() -> None:
    arguments = parse_arguments(__doc__)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    print_or_write(paths(env), arguments.output)
    env.execute("Sessions")


if __name__ == "__main__":
    main()
