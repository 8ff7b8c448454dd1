"""Lines of files, of which some are no numbers and some are late; run by the tests in a process of its own.

Every line `<n>` is an event at n ms; `bad <n>` cannot be decoded, and `late <n>` comes after the watermark has passed it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.common.serialization import DeserializationSchema
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.kit.functions import Punctuated, Second
from tests.recovery.mains import job_environment, job_parser

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
#: Every so many lines one is bad, and one is late.
EVERY = 10
#: How late the late ones are: older than any line that is in time, of however many files.
LATE = -1_000


class Events(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        kind, _, number = message.decode().partition(" ")
        if kind == "late":
            return message.decode(), LATE
        return "in time", int(kind if not number else message)

    def get_produced_type(self) -> TypeInformation:
        return EVENT


def lines(first: int, numbers: int, step: int) -> Iterator[str]:
    """Yield the lines of a file."""
    for number in range(first, numbers, step):
        if number % EVERY == 3:
            yield f"bad {number}"
        elif number % EVERY == 7 and number > 5 * EVERY:
            yield f"late {number}"
        else:
            yield str(number)


def expected(numbers: int) -> list[str]:
    """Return the lines that are to be dead letters."""
    return sorted(line for line in lines(0, numbers, 1) if " " in line)


def write_input(folder: Path, numbers: int) -> None:
    folder.mkdir()
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in lines(0, numbers, 1)))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = job_parser()
    parser.add_argument("--pause", type=float, default=0.0)
    given = parser.parse_args(arguments)
    settings = {"high-availability.cluster-id": "dead letters", "pipeline.dead-letters.dir": given.output / "dead"}
    env = job_environment(given, 40, settings)
    env.set_parallelism(1)
    source = FileSource.for_record_stream_format(StreamFormat.line_format(Events()), str(given.output / "input")).build()
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(Second())
    events = env.from_source(source, strategy, "lines").uid("lines")

    def paused(event: tuple[str, int]) -> tuple[str, int]:
        time.sleep(given.pause)
        return event

    keyed = events.map(paused, EVENT).uid("paused").key_by(lambda event: event[0], Types.STRING())
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows.reduce(lambda a, b: a).set_parallelism(given.parallelism).uid("windows").print().uid("print")
    env.execute("dead letters")


if __name__ == "__main__":
    main()
