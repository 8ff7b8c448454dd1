"""Carriers in flight_delays.py: statistics of each month and airport, aggregated in state until the month is over."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from flight_records import DAY, LATE_MINUTES

from flinkish.common import Row, Types
from flinkish.datastream import KeyedProcessFunction, ReduceFunction, RuntimeContext
from flinkish.datastream.state import ReducingStateDescriptor

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


class AddUp(ReduceFunction):
    """Combines two tuples (flights, late, knock-on, minutes of delay, worst delay): sums, and the maximum for the worst delay."""

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


#: Results of `month_of` by day since the epoch: the name and the last millisecond of the month.
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
    """Aggregates the departures of each month, origin and carrier; emits them when the month is over in event time."""

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
