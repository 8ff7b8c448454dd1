"""Airports in flight_delays.py: event-time windows over their departures.

The same departures go into two kinds of windows. Figures of the last three hours are emitted every hour, and corrected when
flights arrive behind the watermark. Figures of single hours are final; the busiest hour of each day is found among them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Any, Final

from flight_records import LATE_MINUTES, MOST_MINUTES, Flight

from flinkish.common import Instant, Row, Time, Types
from flinkish.datastream import (
    AggregateFunction,
    DataStream,
    KeyedStream,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    TimeWindow,
    WindowedStream,
)
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

#: Allowed lateness: how long a window of three hours is kept after its end to be corrected.
LATENESS: Final = Time.hours(3)
#: Days in New York begin at 5:00 UTC in winter. In summer they begin an hour earlier, but hardly any flight leaves in that hour.
MIDNIGHT: Final = Time.hours(5)

#: Airport, departure (milliseconds), minutes of delay.
DEPARTURE = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
#: Flights, late ones, minutes of delay, worst delay.
SUMS = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.INT()])
AIRPORT_DELAYS = Types.ROW_NAMED(
    ["origin", "window_start", "window_end", "flights", "late", "delay_minutes", "worst_delay"],
    [Types.STRING(), Types.INSTANT(), Types.INSTANT(), Types.LONG(), Types.LONG(), Types.LONG(), Types.INT()],
)
LATE_DEPARTURE = Types.ROW_NAMED(["origin", "departure", "delay"], [Types.STRING(), Types.INSTANT(), Types.INT()])
BUSIEST_HOUR = Types.ROW_NAMED(
    ["day", "hour", "flights", "late", "delay_minutes"],
    [Types.STRING(), Types.INSTANT(), Types.LONG(), Types.LONG(), Types.LONG()],
)

NO_WINDOW = OutputTag("too late for all windows", DEPARTURE)
NO_HOUR = OutputTag("too late for their hour", DEPARTURE)


def departures_by_airport(flights: DataStream) -> KeyedStream:
    """Return the departures, keyed by airport, with only the fields that the windows need; `flights` must have event time."""

    def departure(flight: Flight) -> tuple[str, int, int]:
        return flight.origin, flight.departure, flight.departure_delay

    # One subtask, as for the flights, so that their order does not change.
    departures = flights.map(departure, DEPARTURE).set_parallelism(1).name("Departures").uid("departures")
    return departures.key_by(lambda departure: departure[0], key_type=Types.STRING())


class SumUp(AggregateFunction):
    """Sums up departures. `merge` allows overlapping windows to share sums of hours (execution.windows.share-panes)."""

    def create_accumulator(self) -> tuple[int, int, int, int]:
        return 0, 0, 0, -MOST_MINUTES

    def add(self, value: tuple[str, int, int], accumulator: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        delay = value[2]
        flights, late, minutes, worst = accumulator
        return (
            flights + 1,
            late + (delay >= LATE_MINUTES),
            minutes + delay if delay > 0 else minutes,
            delay if delay > worst else worst,
        )

    def get_result(self, accumulator: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int, int, int], acc_b: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2], max(acc_a[3], acc_b[3])


class WithWindow(ProcessWindowFunction[Any, Row, str, TimeWindow]):
    """Turns the sums of a window into a row."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple[int, int, int, int]]
    ) -> Iterator[Row]:
        window = context.window()
        for flights, late, minutes, worst in elements:
            yield Row(
                origin=key,
                window_start=Instant.of_epoch_milli(window.start),
                window_end=Instant.of_epoch_milli(window.end),
                flights=flights,
                late=late,
                delay_minutes=minutes,
                worst_delay=worst,
            )


def _sums(windows: WindowedStream) -> DataStream:
    return windows.aggregate(SumUp(), WithWindow(), accumulator_type=SUMS, output_type=AIRPORT_DELAYS)


def last_three_hours(departures: KeyedStream) -> DataStream:
    """Return the figures of three hours, every hour; when late flights correct a window, it is emitted again with more flights.

    Flights that are too late for all of their windows go to the side output NO_WINDOW.
    """
    windows = departures.window(SlidingEventTimeWindows.of(Time.hours(3), Time.hours(1)))
    corrected = windows.allowed_lateness(LATENESS.to_milliseconds()).side_output_late_data(NO_WINDOW)
    return _sums(corrected).name("Last three hours").uid("three hours")


def late_departures(three_hours: DataStream) -> DataStream:
    """Return the departures that were too late for every window of three hours, as rows."""

    def row(departure: tuple[str, int, int]) -> Row:
        origin, moment, delay = departure
        return Row(origin=origin, departure=Instant.of_epoch_milli(moment), delay=delay)

    return three_hours.get_side_output(NO_WINDOW).map(row, LATE_DEPARTURE).name("Late departures").uid("late departures")


def single_hours(departures: KeyedStream) -> DataStream:
    """Return the figures of single hours, emitted once for each hour; flights that arrive later are not counted.

    They are dropped on purpose, so they go to a side output: otherwise a warning would name the operator that drops records.
    """
    windows = departures.window(TumblingEventTimeWindows.of(Time.hours(1))).side_output_late_data(NO_HOUR)
    hours = _sums(windows).name("Single hours").uid("hours")
    hours.get_side_output(NO_HOUR).sink_to(DiscardingSink()).name("Too late for their hour").uid("too late for hours")
    return hours


class Busiest(ProcessAllWindowFunction[Row, Row, TimeWindow]):
    """Finds the hour with the most departures from all airports together; the first one if several are equal."""

    def process(self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Row]) -> Iterator[Row]:
        hours: dict[int, tuple[int, int, int]] = {}
        for row in elements:
            hour = row["window_start"].to_epoch_milli()
            flights, late, minutes = hours.get(hour, (0, 0, 0))
            hours[hour] = flights + row["flights"], late + row["late"], minutes + row["delay_minutes"]
        busiest = min(hours, key=lambda hour: (-hours[hour][0], hour))
        flights, late, minutes = hours[busiest]
        day = datetime.datetime.fromtimestamp(context.window().start / 1000, datetime.UTC)
        yield Row(
            day=f"{day:%Y-%m-%d}",
            hour=Instant.of_epoch_milli(busiest),
            flights=flights,
            late=late,
            delay_minutes=minutes,
        )


def busiest_hours(hours: DataStream) -> DataStream:
    """Return the busiest hour of each day, from a window over the few rows of all airports instead of over all flights."""
    days = hours.window_all(TumblingEventTimeWindows.of(Time.days(1), MIDNIGHT))
    return days.process(Busiest(), BUSIEST_HOUR).name("Busiest hours").uid("busiest hours")
