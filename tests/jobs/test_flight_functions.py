"""The functions of flight_delays.py and of the modules beside it, without an engine."""

from __future__ import annotations

import datetime

import flight_aircraft as aircraft
import flight_airports as airports
import flight_carriers as carriers
import flight_records as records
import pytest
from flight_files import columns_of

from flinkish.common import Instant, Row

COLUMNS = columns_of(
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,"
    "air_time,distance,hour,minute,time_hour"
)
LINE = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
CANCELLED = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z"


def milliseconds(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text + "+00:00").timestamp()) * 1000


def parse(line: str, columns: list[str] = COLUMNS) -> object:
    return records.FlightParser(columns).parse(line)


def changed(**fields: str) -> str:
    """Return LINE with other values in some columns."""
    return ",".join(fields.get(column, value) for column, value in zip(COLUMNS, LINE.split(","), strict=True))


def test_a_departure_is_the_schedule_plus_the_delay() -> None:
    flight = parse(LINE)
    assert isinstance(flight, records.Flight)
    assert flight == records.Flight(
        aircraft="N14228",
        carrier="UA",
        number=1545,
        origin="EWR",
        destination="IAH",
        scheduled=milliseconds("2013-01-01T10:15:00"),
        departure=milliseconds("2013-01-01T10:17:00"),
        departure_delay=2,
        arrival_delay=11,
    )


def test_an_early_departure_has_a_negative_delay() -> None:
    flight = parse(changed(dep_delay="-20"))
    assert isinstance(flight, records.Flight)
    assert flight.departure == milliseconds("2013-01-01T09:55:00")


def test_a_flight_that_arrived_elsewhere_has_no_arrival_delay() -> None:
    flight = parse(changed(arr_delay="NA"))
    assert isinstance(flight, records.Flight)
    assert flight.arrival_delay is None


def test_a_cancelled_flight_is_a_row_to_be_set_aside() -> None:
    row = parse(CANCELLED)
    assert isinstance(row, Row)
    assert row.as_dict() == {
        "reason": "cancelled",
        "aircraft": "N18120",
        "carrier": "EV",
        "flight": 4308,
        "origin": "EWR",
        "destination": "RDU",
        "scheduled": Instant.of_epoch_milli(milliseconds("2013-01-01T21:30:00")),
        "line": None,
    }


def test_a_cancelled_flight_may_have_no_aircraft_yet() -> None:
    row = parse(CANCELLED.replace("N18120", "NA"))
    assert isinstance(row, Row)
    assert row["aircraft"] is None


@pytest.mark.parametrize("hour", ["2013-01-01T10:00:00Z", "2013-01-01 10:00:00", "2013-01-01T05:00:00-05:00"])
def test_hours_are_read_in_any_iso_form_and_without_a_zone_as_utc(hour: str) -> None:
    flight = parse(changed(time_hour=hour))
    assert isinstance(flight, records.Flight)
    assert flight.scheduled == milliseconds("2013-01-01T10:15:00")


def test_numbers_may_be_written_as_floats_and_fields_in_quotes() -> None:
    assert parse(changed(dep_delay="2.0", carrier='"UA"', arr_delay="11.0")) == parse(LINE)


def test_columns_may_stand_in_any_order_among_others() -> None:
    columns = ["note", *reversed(records.COLUMNS)]
    values = dict(zip(COLUMNS, LINE.split(","), strict=True)) | {"note": "x"}
    assert parse(",".join(values[column] for column in columns), columns) == parse(LINE)


def test_a_parser_keeps_no_hour_of_the_line_before() -> None:
    parser = records.FlightParser(COLUMNS)
    first, other = parser.parse(LINE), changed(time_hour="2013-01-01T11:00:00Z")
    assert parser.parse(other) == records.FlightParser(COLUMNS).parse(other)
    assert parser.parse(LINE) == first


@pytest.mark.parametrize(
    "line",
    [
        "",
        "a,b",
        LINE + ",more",
        changed(time_hour="today"),
        changed(time_hour="0001-01-01T00:00:00Z"),
        changed(minute="75"),
        changed(minute="NA"),
        changed(flight="4x"),
        changed(flight="99999999999"),
        changed(dep_delay="soon"),
        changed(dep_delay="2.5"),
        changed(dep_delay="nan"),
        changed(dep_delay="inf"),
        changed(dep_delay="1e300"),
        changed(arr_delay="late"),
        changed(carrier=""),
        changed(tailnum="NA"),
        changed(tailnum=""),
    ],
)
def test_a_line_of_another_shape_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(line)


@pytest.mark.parametrize(
    ("moment", "month", "end"),
    [
        ("2013-01-01T00:00:00", "2013-01", "2013-02-01T00:00:00"),
        ("2013-01-31T23:59:00", "2013-01", "2013-02-01T00:00:00"),
        ("2013-02-28T12:00:00", "2013-02", "2013-03-01T00:00:00"),
        ("2012-02-29T12:00:00", "2012-02", "2012-03-01T00:00:00"),
        ("2013-12-31T23:59:00", "2013-12", "2014-01-01T00:00:00"),
        ("1969-12-31T23:59:00", "1969-12", "1970-01-01T00:00:00"),
    ],
)
def test_a_month_ends_a_millisecond_before_the_next(moment: str, month: str, end: str) -> None:
    for _ in range(2):  # worked out, and remembered
        assert carriers.month_of(milliseconds(moment)) == (month, milliseconds(end) - 1)


def test_statistics_are_kept_by_month_airport_and_carrier() -> None:
    assert carriers.statistics_key((milliseconds("2013-03-31T23:59:00"), "JFK", "B6", 20, True)) == ("2013-03", "JFK", "B6")


def test_sums_add_up_and_the_worst_delay_is_the_greater() -> None:
    sums = carriers.AddUp()
    assert sums.reduce((1, 1, 0, 30, 30), (2, 0, 0, 0, -5)) == (3, 1, 0, 30, 30)
    assert sums.reduce((2, 0, 0, 0, -5), (1, 0, 0, 0, -9)) == (3, 0, 0, 0, -5)


def test_departures_are_summed_up_early_ones_without_minutes_and_sums_merge() -> None:
    sums = airports.SumUp()
    accumulator = sums.create_accumulator()
    for delay in (14, 15, -7, 0):
        accumulator = sums.add(("JFK", 0, delay), accumulator)
    assert sums.get_result(accumulator) == (4, 1, 29, 15)
    assert sums.merge(accumulator, (2, 2, 90, 60)) == sums.merge((2, 2, 90, 60), accumulator) == (6, 3, 119, 60)
    assert sums.merge(accumulator, sums.create_accumulator()) == accumulator


def test_the_worst_delay_of_early_flights_is_negative() -> None:
    sums = airports.SumUp()
    assert sums.add(("JFK", 0, -9), sums.create_accumulator()) == (1, 0, 0, -9)


class Watermarks:
    def __init__(self) -> None:
        self.emitted: list[int] = []

    def emit_watermark(self, timestamp: int) -> None:
        self.emitted.append(timestamp)

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


def test_watermarks_go_in_steps_behind_the_latest_departure_and_never_back() -> None:
    output, generator = Watermarks(), records.SteadyWatermarks()
    noon = milliseconds("2013-01-01T12:00:00")
    for minutes in (0, 9, 10, 3, 25, -600):
        generator.on_event(None, noon + minutes * records.MINUTE, output)
    behind = noon - records.OUT_OF_ORDERNESS - 1
    assert output.emitted == [behind, behind + 10 * records.MINUTE, behind + 20 * records.MINUTE]


def flight(minutes: int, late_out: int, late_in: int | None) -> records.Flight:
    """Return a flight that leaves so many minutes after the first one."""
    departure = milliseconds("2013-01-01T12:00:00") + minutes * records.MINUTE
    return records.Flight("N1", "B6", 7, "JFK", "BOS", departure - late_out * records.MINUTE, departure, late_out, late_in)


def chain(*flights: records.Flight) -> list[tuple[int, int, int]]:
    """Follow flights; return late in, length and minutes of the chain after each."""
    past: aircraft.Past | None = None
    found = []
    for next_flight in flights:
        past, late_in = aircraft.follow(past, next_flight)
        found.append((late_in, past.chain, past.chain_minutes))
    return found


def test_late_out_after_late_in_is_a_knock_on_delay_and_chains_add_up() -> None:
    flights = [flight(0, 40, 30), flight(300, 20, 15), flight(600, 15, 0), flight(900, 50, 60)]
    assert chain(*flights) == [(0, 0, 0), (30, 1, 20), (15, 2, 35), (0, 0, 0)]


def test_14_minutes_are_not_late_on_either_side() -> None:
    assert chain(flight(0, 0, 14), flight(300, 60, 30), flight(600, 14, 0)) == [(0, 0, 0), (14, 0, 0), (30, 0, 0)]


def test_a_chain_that_was_broken_begins_anew() -> None:
    flights = [flight(0, 0, 30), flight(300, 20, 30), flight(600, 0, 30), flight(900, 25, 0)]
    assert [length for _, length, _ in chain(*flights)] == [0, 1, 0, 1]
    assert chain(*flights)[-1] == (30, 1, 25)


def test_a_flight_follows_from_the_one_before_within_a_day() -> None:
    assert chain(flight(0, 0, 30), flight(24 * 60, 20, 0))[1] == (30, 1, 20)
    assert chain(flight(0, 0, 30), flight(24 * 60 + 1, 20, 0))[1] == (0, 0, 0)


def test_without_an_arrival_delay_nothing_is_carried_on() -> None:
    assert chain(flight(0, 0, None), flight(300, 60, 0))[1] == (0, 0, 0)
