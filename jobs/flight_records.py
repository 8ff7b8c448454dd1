"""The records of flight_delays.py: flights read from lines or messages, their event time, and those that are set aside."""

from __future__ import annotations

import csv
import datetime
import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from flinkish.common import Duration, Instant, Row, Types, to_epoch_milli
from flinkish.common.constants import MIN_LONG_VALUE
from flinkish.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from flinkish.datastream import FilterFunction, OutputTag, ProcessFunction, RuntimeContext

#: The columns that are read of a flight; a file or message may have more of them, in any order.
COLUMNS: Final = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "time_hour", "minute")

MINUTE: Final = 60_000
DAY: Final = 24 * 60 * MINUTE
#: A flight with at least this many minutes of delay is late (the airlines' own rule).
LATE_MINUTES: Final = 15
#: Milliseconds by which a flight may be behind the latest departure so far; one further behind is set aside.
OUT_OF_ORDERNESS: Final = Duration.of_hours(12).to_millis()
#: Watermarks advance in steps of this length: one watermark for each departure would cost more than the departures.
WATERMARK_STEP: Final = 10 * MINUTE
#: An upper bound of any delay in minutes: a larger number is not a valid delay.
MOST_MINUTES: Final = 60 * DAY // MINUTE

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
        # A cache: most flights have the same hour as the flight before.
        self._hour = ("", 0)

    def parse(self, line: str) -> Flight | Row:
        """Return the flight in a line, or the row to be set aside if it was cancelled.

        Raises ValueError for a line with other columns, or with values that no flight has.
        """
        carrier, number, aircraft, origin, destination, departed, arrived, hour, minute = self.fields(line)
        scheduled = self._scheduled(hour, minute)
        flight = _whole(number, 0, 99_999)
        if not (carrier and origin and destination):
            raise ValueError("no carrier, origin or destination")
        delay = _minutes(departed)
        if delay is None:
            known = None if aircraft in ("", "NA") else aircraft
            return set_aside("cancelled", known, carrier, flight, origin, destination, scheduled)
        if aircraft in ("", "NA"):
            raise ValueError("a departure without a tail number")
        departure = scheduled + delay * MINUTE
        return Flight(aircraft, carrier, flight, origin, destination, scheduled, departure, delay, _minutes(arrived))

    def read(self, line: str) -> Flight | Row:
        """Return the flight in a line, or the row to be set aside if it was cancelled or is malformed."""
        try:
            return self.parse(line)
        except (ValueError, csv.Error):
            return set_aside("malformed", line=line)

    def fields(self, line: str) -> Sequence[str]:
        """Return the values of COLUMNS in a line; raises ValueError for a line with other columns."""
        fields = line.split(",") if '"' not in line else next(csv.reader([line]))
        if len(fields) != self._width:
            raise ValueError(f"{len(fields)} columns instead of {self._width}")
        picked: Sequence[str] = self._pick(fields)
        return picked

    def scheduled(self, fields: Sequence[str]) -> int | None:
        """Return when a flight with these values of COLUMNS is scheduled, in milliseconds; None if they do not say so."""
        try:
            return self._scheduled(*fields[-2:])
        except ValueError:
            return None

    def _scheduled(self, hour: str, minute: str) -> int:
        return self._start_of(hour) + _whole(minute, 0, 59) * MINUTE

    def _start_of(self, hour: str) -> int:
        """Return an hour such as 2013-01-01T10:00:00Z in milliseconds; without a zone it is UTC."""
        text, start = self._hour
        if text != hour:
            moment = datetime.datetime.fromisoformat(hour)
            if not 1900 <= moment.year < 2200:
                raise ValueError(f"a flight of the year {moment.year}")
            start = to_epoch_milli(moment)
            self._hour = (hour, start)
        return start


class MessageParser(FlightParser):
    """Reads flights from messages: JSON objects with a field for each of COLUMNS, as `message_of` writes them."""

    def __init__(self) -> None:
        super().__init__(COLUMNS)

    def fields(self, line: str) -> Sequence[str]:
        """Return the values of COLUMNS in a message, "" for null; raises ValueError for a message without them."""
        try:
            message = json.loads(line)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(message, dict):
            raise ValueError("not a JSON object")
        return [_text(message.get(column)) for column in COLUMNS]


def message_of(fields: Sequence[str]) -> str:
    """Return the message for a flight with these values of COLUMNS."""
    return json.dumps({column: _value(column, field) for column, field in zip(COLUMNS, fields, strict=True)})


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a field that is neither text nor a number")


def _value(column: str, field: str) -> str | int | None:
    if column in ("tailnum", "dep_delay", "arr_delay") and field in ("", "NA"):
        return None
    if column in ("flight", "dep_delay", "arr_delay", "minute") and field.removeprefix("-").isdecimal():
        return int(field)
    return field


def _minutes(field: str) -> int | None:
    """Return a delay, None if it is missing; negative if the flight is early."""
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
    """Return a row for the table set_aside_flights."""
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
    """Parses lines into flights; sends cancelled and malformed ones to side outputs.

    Without a parser, the values have been parsed by `FlightParser.read` already.
    """

    def __init__(self, parser: FlightParser | None = None) -> None:
        self._parse = parser.read if parser else lambda value: value

    def open(self, runtime_context: RuntimeContext) -> None:
        metrics = runtime_context.get_metrics_group()
        self._read = metrics.counter("flights")
        self._cancelled = metrics.counter("cancelled")

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        self._read.inc()
        flight = self._parse(value)
        if flight.__class__ is Flight:
            yield flight
        elif flight["reason"] == "cancelled":
            self._cancelled.inc()
            yield CANCELLED, flight
        else:
            yield MALFORMED, flight


class DepartureTime(TimestampAssigner):
    """The event time of a flight."""

    def extract_timestamp(self, value: Flight | Row, record_timestamp: int) -> int:
        # Rows to be set aside are among the flights of a topic: they have no time, and event time does not advance.
        return value.departure if value.__class__ is Flight else MIN_LONG_VALUE


class SteadyWatermarks(WatermarkGenerator):
    """Bounded out-of-orderness that emits a watermark as soon as event time has advanced by a step, even between two records.

    WatermarkStrategy.for_bounded_out_of_orderness emits watermarks at intervals of processing time. Then the speed of the machine
    would decide which flights are late.
    """

    def __init__(self) -> None:
        self.watermark = MIN_LONG_VALUE

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
