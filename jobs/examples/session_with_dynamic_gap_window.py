"""Session windows whose gap depends on the record: a switch turns a lamp on for some seconds, and longer if pressed again.

Run it with `python jobs/examples/session_with_dynamic_gap_window.py [--output FOLDER] [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from example_io import parse_arguments, print_or_write

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment
from flinkish.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor, TimeWindow

#: Lamp, second at which its switch is pressed, and the number of seconds for which the lamp then stays on.
PRESSES = [
    ("stairs", 0, 30), ("cellar", 12, 300), ("stairs", 25, 60), ("stairs", 84, 10), ("stairs", 95, 30), ("cellar", 311, 60),
    ("cellar", 380, 5),
]  # fmt: skip


class PressTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) * 1_000


class Lasts(SessionWindowTimeGapExtractor):
    """Returns how long a press keeps the lamp on, in milliseconds."""

    def extract(self, element: Any) -> int:
        return int(element[2]) * 1_000


class Light(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    """Emits the lamp, the seconds when it goes on and off, and how often its switch was pressed."""

    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]) -> Iterable[tuple]:
        window = context.window()
        yield key, window.start // 1_000, window.end // 1_000, len(list(elements))


def lights(env: StreamExecutionEnvironment) -> DataStream:
    """Return the times when lamps are on. Sessions that touch are merged: a press at the last moment keeps the lamp on."""
    presses = env.from_collection(PRESSES, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(PressTime())
    return (
        presses.assign_timestamps_and_watermarks(in_order)
        .key_by(lambda press: press[0], key_type=Types.STRING())
        .window(EventTimeSessionWindows.with_dynamic_gap(Lasts()))
        .process(Light(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()]))
    )


def main() -> None:
    arguments = parse_arguments(__doc__)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    print_or_write(lights(env), arguments.output)
    env.execute("Sessions with gaps of their own")


if __name__ == "__main__":
    main()
