"""Aircraft in flight_delays.py: follows each aircraft from departure to departure with keyed state and timers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from flight_records import DAY, LATE_MINUTES, Flight

from flinkish.common import Instant, Row, Types
from flinkish.datastream import KeyedProcessFunction, OutputTag, RuntimeContext
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor

#: Longest time between two departures for which a delay of the first can cause one of the second.
SAME_ROTATION: Final = DAY
END_OF_TIME: Final = 2**63 - 1

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
EVENTS = OutputTag("aircraft events", AIRCRAFT_EVENT)


class Past(NamedTuple):
    """The state of an aircraft: its last departure, and the chain of knock-on delays to which it belongs."""

    carrier: str
    number: int
    origin: str
    departure: int
    arrival_delay: int | None
    #: Length of the chain (0 if the departure was no knock-on delay), and the minutes of delay in it.
    chain: int
    chain_minutes: int
    #: When the timer that checks whether the aircraft stands is due; None if there is no timer.
    check: int | None


def follow(past: Past | None, flight: Flight) -> tuple[Past, int]:
    """Return the state after a departure, and the number of minutes by which the previous flight arrived late."""
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

    Flights wait in state until the watermark guarantees that no earlier ones will arrive. The main output is tuples (departure,
    origin, carrier, minutes of delay, whether it is a knock-on delay); the side output EVENTS has the events.
    """

    def __init__(self, standing_days: int) -> None:
        self._standing_days = standing_days
        self._standing = standing_days * DAY

    def open(self, runtime_context: RuntimeContext) -> None:
        # Flights and the past are stored as plain tuples, which checkpoints hold as data: a restore needs no class for them.
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
            # Two departures of one aircraft at the same time are an error in the data, but their order must not be random.
            for fields in waiting if len(waiting) == 1 else sorted(waiting, key=repr):
                flight = Flight(*fields)
                past, late_in = follow(past, flight)
                if past.chain:
                    yield EVENTS, self._knock_on(flight, past, late_in)
                yield flight.departure, flight.origin, flight.carrier, flight.departure_delay, past.chain > 0
        assert past is not None, "a timer without a flight"
        if past.check is None or past.check <= timestamp:
            # One timer for each aircraft is enough: if the aircraft has left by the time it fires, the timer is set again.
            due = past.departure + self._standing
            if due > timestamp:
                past = past._replace(check=due)
                ctx.timer_service().register_event_time_timer(due)
            else:
                past = past._replace(check=None)
                # The timers that fire at the end of the input fire early: the aircraft may still leave.
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
