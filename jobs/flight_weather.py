"""Weather in flight_delays.py: hourly readings, and the hours of the airports joined with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from flight_records import SET_ASIDE, set_aside

from flinkish.common import Row, Time, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import DataStream, OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.record_errors import RECORD_ERROR_TYPE, RecordErrorPolicy

#: The columns that are read of a line; a file may have more columns, in any order.
WEATHER_COLUMNS: Final = ("origin", "time_hour", "wind_speed", "visib", "precip")
LINE = Types.ROW_NAMED(list(WEATHER_COLUMNS), [Types.STRING(), Types.INSTANT(), Types.DOUBLE(), Types.DOUBLE(), Types.DOUBLE()])
#: Wind in miles an hour, visibility in miles, precipitation in inches; each may be missing.
HOURLY_WEATHER = Types.ROW_NAMED(
    ["origin", "hour", "flights", "late", "delay_minutes", "wind_speed", "visibility", "precipitation"],
    [
        Types.STRING(),
        Types.INSTANT(),
        Types.LONG(),
        Types.LONG(),
        Types.LONG(),
        Types.DOUBLE(),
        Types.DOUBLE(),
        Types.DOUBLE(),
    ],
)

UNREADABLE_WEATHER = OutputTag("unreadable weather", RECORD_ERROR_TYPE)


class ReadingTime(TimestampAssigner):
    """The event time of a reading."""

    def extract_timestamp(self, value: tuple[Any, ...], record_timestamp: int) -> int:
        return value[1]


def lines_of_weather(env: StreamExecutionEnvironment, file: Path) -> DataStream:
    """Return the lines of a CSV as Rows; lines that cannot be read go to the side output UNREADABLE_WEATHER."""
    source = (
        FileSource.for_record_stream_format(StreamFormat.csv_format(LINE, null_values=["NA"]), str(file))
        .process_static_file_set()
        .on_record_error(RecordErrorPolicy.side_output(UNREADABLE_WEATHER))
        .build()
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "Weather").set_parallelism(1).uid("weather")


def set_aside_weather(weather: DataStream) -> DataStream:
    """Return the lines of weather that could not be read, as rows for the table set_aside_flights."""
    return (
        weather.get_side_output(UNREADABLE_WEATHER)
        .map(lambda error: set_aside("malformed weather", line=error["record"]), SET_ASIDE)
        .set_parallelism(1)
        .name("Unreadable weather")
        .uid("unreadable weather")
    )


def reading_of(line: Row) -> Iterator[tuple[Any, ...]]:
    """Yield the reading in a line as a plain tuple with its time in milliseconds; nothing if the line has no time.

    The join keeps a year of readings in its state, and every checkpoint writes them; plain tuples are written faster than Rows.
    """
    origin, time, *figures = line
    if time is not None:
        yield (origin, time.to_epoch_milli(), *figures)


def with_weather(hours: DataStream, lines: DataStream) -> DataStream:
    """Return the hours of airports, each with the readings made in it; hours without readings are left out."""
    readings = lines.flat_map(reading_of).set_parallelism(1).name("Readings").uid("readings")
    # Without watermarks no reading is late, whatever the order of the lines. Hours wait until the whole file has been read, and
    # its final watermark arrives. An unbounded source of weather would need for_bounded_out_of_orderness(...) instead.
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(ReadingTime())
    timed = readings.assign_timestamps_and_watermarks(strategy).set_parallelism(1).uid("weather time")
    left = hours.key_by(lambda hour: hour["origin"], key_type=Types.STRING())
    right = timed.key_by(lambda reading: reading[0], key_type=Types.STRING())
    # The event time of an hour's figures is its last millisecond, and that of most readings is its first millisecond.
    joined = left.interval_join(right).between(Time.hours(-1), Time.milliseconds(0)).lower_bound_exclusive()
    return joined.process(HourWithWeather(), HOURLY_WEATHER).name("Join weather").uid("weather join")


class HourWithWeather(ProcessJoinFunction):
    """Combines an hour and a reading made in it into a row."""

    def process_element(self, left: Row, right: tuple[Any, ...], ctx: ProcessJoinFunction.Context) -> Iterator[Row]:
        _, _, wind_speed, visibility, precipitation = right
        yield Row(
            origin=left["origin"],
            hour=left["window_start"],
            flights=left["flights"],
            late=left["late"],
            delay_minutes=left["delay_minutes"],
            wind_speed=wind_speed,
            visibility=visibility,
            precipitation=precipitation,
        )
