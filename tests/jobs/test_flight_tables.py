"""flight_delays.py as a whole job: small made-up flights, a sample of the real ones, both engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flight_delays as job
import pytest
from deltalake import DeltaTable
from flight_files import check_output, read_header

from tests.conftest import MakeEnvironment, locally
from tests.jobs.conftest import NO_FLIGHTS
from tests.jobs.pandas_flights import expected_tables, rows, written_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Path]
START = datetime(2013, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def run(make_env: MakeEnvironment, tmp_path: Path) -> Run:
    """Return a function that runs the job on a file, with many small epochs and checkpoints, and returns its output folder."""

    def run(
        source: Path,
        output: Path = tmp_path / "out",
        *,
        weather: Path | None = None,
        settings: dict[str, Any] | None = None,
        parallelism: int = 2,
        standing: int = 30,
    ) -> Path:
        env = make_env(parallelism, {"execution.epoch.max-records": 1_500, **(settings or {})})
        job.set_up(env, 100)
        check_output(output, job.TABLES)
        header = read_header("--input", source, job.COLUMNS, "flights")
        job.build(env, source, header, weather or Weather(tmp_path / "weather.csv").write(), output, standing)
        env.execute("flight delays")
        return output

    return run


class Schedule:
    """Writes files of flights: minutes are counted from START, in the order they are given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = [",".join(job.COLUMNS)]

    def flight(
        self, aircraft: str, minute: int, late_out: int | None, late_in: int = 0, carrier: str = "B6", origin: str = "JFK"
    ) -> None:
        """Add a flight that is to leave at a minute, leaves and arrives late by so many; None: it was cancelled."""
        at = START + timedelta(minutes=minute)
        out = "NA" if late_out is None else late_out
        values = (carrier, 7, aircraft, origin, "BOS", out, late_in, f"{at:%Y-%m-%dT%H}:00:00Z", at.minute)
        self._lines.append(",".join(map(str, values)))

    def write(self) -> Path:
        self.path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
        return self.path


class Weather:
    """Writes files of weather: hours are counted from START."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = ["time_hour,origin,temp,wind_speed,precip,visib"]

    def reading(self, hour: float, wind: object = 5.5, visibility: object = 10, origin: str = "JFK") -> None:
        at = START + timedelta(hours=hour)
        self.lines.append(f"{at:%Y-%m-%dT%H:%M:%SZ},{origin},NA,{wind},0,{visibility}")

    def write(self) -> Path:
        self.path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        return self.path


@pytest.fixture
def readings(tmp_path: Path) -> Weather:
    return Weather(tmp_path / "readings.csv")


@pytest.fixture
def schedule(tmp_path: Path) -> Schedule:
    return Schedule(tmp_path / "flights.csv")


def table(output: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of some columns of a table, sorted; times as minutes from START."""
    written = DeltaTable(output / name).to_pyarrow_table(columns=list(columns)).to_pylist()
    return sorted((tuple(map(_minutes, row.values())) for row in written), key=str)


def _minutes(value: Any) -> Any:
    return int((value - START).total_seconds() // 60) if isinstance(value, datetime) else value


def test_delays_are_followed_in_order_of_departure_whatever_the_order_of_the_schedule(run: Run, schedule: Schedule) -> None:
    schedule.flight("N1", 0, 300, 40)  # leaves last, at 300
    schedule.flight("N1", 60, 20, 30)  # leaves at 80
    schedule.flight("N2", 90, 0)
    schedule.flight("N1", 120, 45, 50)  # leaves at 165
    output = run(schedule.write())
    events = table(output, "aircraft_events", "kind", "aircraft", "departure", "late_in", "late_out", "chain", "chain_minutes")
    assert events == [("knock-on", "N1", 165, 30, 45, 1, 45), ("knock-on", "N1", 300, 50, 300, 2, 345)]


@locally
def test_departures_of_one_aircraft_at_one_moment_are_both_counted(run: Run, schedule: Schedule) -> None:
    schedule.flight("N1", 60, 0)
    schedule.flight("N1", 30, 30)
    output = run(schedule.write())
    assert table(output, "carrier_statistics", "flights", "late") == [(2, 1)]


@locally
def test_statistics_are_of_the_month_of_the_departure(run: Run, schedule: Schedule) -> None:
    schedule.flight("N1", 0, 5)
    schedule.flight("N2", 11 * 60 + 59, 0)  # 23:59 on the last day of January
    schedule.flight("N3", 11 * 60 + 59, 20)  # to leave in January, leaves in February
    schedule.flight("N4", 12 * 60, -10)  # the other way round
    schedule.flight("N5", 12 * 60, 15, origin="EWR", carrier="UA")
    output = run(schedule.write())
    columns = ("month", "origin", "carrier", "flights", "late", "knock_on", "delay_minutes", "worst_delay")
    assert table(output, "carrier_statistics", *columns) == [
        ("2013-01", "JFK", "B6", 3, 0, 0, 5, 5),
        ("2013-02", "EWR", "UA", 1, 1, 0, 15, 15),
        ("2013-02", "JFK", "B6", 1, 1, 0, 20, 20),
    ]


@locally
def test_an_aircraft_stands_once_for_each_long_stay_and_not_at_the_end_of_the_data(run: Run, schedule: Schedule) -> None:
    day = 24 * 60
    schedule.flight("N1", 0, 0)
    for place in range(5):
        schedule.flight("N2", place * day, 0)  # leaves every day, then stays for 11 days
        if place == 2:
            schedule.flight("N1", 2 * day, 0)  # within the limit, then stays for good
    schedule.flight("N3", 9 * day, 0)  # has not stood for long when the data ends
    schedule.flight("N2", 15 * day, 0)
    output = run(schedule.write(), standing=10)
    events = table(output, "aircraft_events", "kind", "aircraft", "departure", "standing_days")
    assert events == [("standing", "N1", 2 * day, 10), ("standing", "N2", 4 * day, 10)]


@locally
def test_an_aircraft_that_leaves_at_the_very_moment_did_not_stand(run: Run, schedule: Schedule) -> None:
    day = 24 * 60
    schedule.flight("N1", 0, 0)
    schedule.flight("N2", 0, 0)
    schedule.flight("N1", 10 * day, 0)
    schedule.flight("N2", 10 * day + 1, 0)
    schedule.flight("N3", 15 * day, 0)
    output = run(schedule.write(), standing=10)
    assert table(output, "aircraft_events", "aircraft", "departure") == [("N2", 0)]


@locally
def test_flights_far_behind_the_others_and_cancelled_ones_are_set_aside_and_not_followed(run: Run, schedule: Schedule) -> None:
    schedule.flight("N1", 0, 13 * 60)  # 13 hours late: event time is there now
    schedule.flight("N2", 59, 0)
    schedule.flight("N3", 60, 0)  # exactly 12 hours behind: in time
    schedule.flight("N4", 61, None)
    schedule.flight("NA", 62, None)
    output = run(schedule.write())
    aside = table(output, "set_aside_flights", "reason", "aircraft", "scheduled")
    assert aside == [("cancelled", "N4", 61), ("cancelled", None, 62), ("too late", "N2", 59)]
    assert table(output, "carrier_statistics", "month", "flights") == [("2013-01", 1), ("2013-02", 1)]


HOUR = 60
FIGURES = ("flights", "late", "delay_minutes", "worst_delay")


@locally
def test_windows_of_three_hours_are_corrected_by_late_flights_and_then_no_more(run: Run, schedule: Schedule) -> None:
    schedule.flight("N1", 5, 0)
    schedule.flight("N2", 20, 20)
    schedule.flight("N3", 10, 16 * HOUR)  # leaves at 16:10 after START: event time is 4:10 now
    schedule.flight("N4", 50, 10)  # at 1:00: of the windows with it, one can be corrected no more
    schedule.flight("N5", 61, -62)  # before 0:00: two have been given, and can be corrected
    schedule.flight("N6", 62, -3 * HOUR - 3)  # before -2:00: the last window with it is corrected until 4:00
    output = run(schedule.write())
    windows = table(output, "airport_delays", "window_end", *FIGURES)
    on_time = [(end * HOUR, 2, 1, 20, 20) for end in (1, 2, 3)]
    far = [(end * HOUR, 1, 1, 16 * HOUR, 16 * HOUR) for end in (17, 18, 19)]
    by_n4 = [(end * HOUR, 3, 1, 30, 20) for end in (2, 3)]
    by_n5 = [(2 * HOUR, 4, 1, 30, 20)]
    new = [(4 * HOUR, 1, 0, 10, 10)]
    assert windows == sorted([*on_time, *by_n4, *by_n5, *new, *far], key=str)
    assert table(output, "late_departures", "origin", "departure", "delay") == [("JFK", -2 * HOUR - 1, -3 * HOUR - 3)]


@locally
def test_windows_are_of_one_airport_and_hours_without_flights_have_none(run: Run, schedule: Schedule) -> None:
    schedule.flight("N1", 0, 0)
    schedule.flight("N2", 59, 0, origin="LGA")
    schedule.flight("N3", 60, 40, origin="LGA")
    output = run(schedule.write())
    assert table(output, "airport_delays", "origin", "window_start", "flights", "worst_delay") == sorted(
        [
            *[("JFK", start * HOUR, 1, 0) for start in (-2, -1, 0)],
            ("LGA", -2 * HOUR, 1, 0),
            *[("LGA", start * HOUR, 2, 40) for start in (-1, 0)],
            ("LGA", HOUR, 1, 40),
        ],
        key=str,
    )


@locally
def test_hours_are_joined_with_the_weather_in_them(run: Run, schedule: Schedule, readings: Weather) -> None:
    schedule.flight("N1", 0, 20)
    schedule.flight("N2", 59, 0)
    schedule.flight("N3", 60, 0)
    schedule.flight("N4", 121, 0)  # in an hour of which there is no reading
    schedule.flight("N5", 121, 0, origin="LGA")
    readings.reading(1, wind="NA", visibility=0.25)
    readings.reading(0, wind=12.5)  # the order does not matter
    readings.reading(3)
    readings.reading(2, origin="EWR")
    readings.reading(2.75, wind=1, origin="LGA")  # not on the hour
    output = run(schedule.write(), weather=readings.write())
    columns = ("origin", "hour", "flights", "late", "delay_minutes", "wind_speed", "visibility", "precipitation")
    assert table(output, "weather_delays", *columns) == [
        ("JFK", 0, 2, 1, 20, 12.5, 10.0, 0.0),
        ("JFK", 60, 1, 0, 0, None, 0.25, 0.0),
        ("LGA", 120, 1, 0, 0, 1.0, 10.0, 0.0),
    ]


@locally
def test_weather_that_cannot_be_read_is_set_aside_and_stops_nothing(run: Run, schedule: Schedule, readings: Weather) -> None:
    schedule.flight("N1", 0, 0)
    readings.reading(0, wind="strong")
    readings.lines += ["no reading", ",JFK,NA,5.5,0,10"]  # one of no hour is no reading either
    readings.reading(0, wind=3)
    output = run(schedule.write(), weather=readings.write())
    assert table(output, "weather_delays", "wind_speed") == [(3.0,)]
    aside = written_table(output / "set_aside_flights")
    assert sorted(aside["line"]) == ["2013-01-31T12:00:00Z,JFK,NA,strong,0,10", "no reading"]
    assert set(aside["reason"]) == {"malformed weather"}


@locally
def test_the_busiest_hour_of_a_day_is_of_all_airports_together(run: Run, schedule: Schedule) -> None:
    for hour, origins in enumerate((("JFK", "JFK"), ("LGA", "JFK", "EWR"), ("LGA", "EWR", "JFK"))):
        for minute, origin in enumerate(origins):
            schedule.flight("N1", hour * HOUR + minute, minute, origin=origin)
    schedule.flight("N2", 17 * HOUR - 1, 0)  # a minute before the day is over in New York
    schedule.flight("N3", 17 * HOUR, 0)
    output = run(schedule.write())
    assert table(output, "busiest_hours", "day", "hour", *FIGURES[:3]) == [
        ("2013-01-31", HOUR, 3, 0, 3),
        ("2013-02-01", 17 * HOUR, 1, 0, 0),
    ]


@locally
def test_a_file_with_a_header_only_makes_empty_tables(run: Run, schedule: Schedule) -> None:
    output = run(schedule.write())
    for name in job.TABLES:
        assert DeltaTable(output / name).to_pyarrow_table().num_rows == 0


@locally
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_header_is_no_flight_whatever_the_byte_order_mark_and_line_ends(
    run: Run, schedule: Schedule, mark: bytes, end: bytes
) -> None:
    schedule.flight("N1", 0, 0)
    source = schedule.write()
    source.write_bytes(mark + source.read_bytes().replace(b"\n", end))
    output = run(source)
    assert table(output, "set_aside_flights", "reason") == []
    assert table(output, "carrier_statistics", "flights") == [(1,)]


# -- the sample ------------------------------------------------------------------------------------------------------------


def malformed(output: Path) -> list[str]:
    aside = written_table(output / "set_aside_flights")
    return list(aside[aside["reason"] == "malformed"]["line"])


@locally
@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_the_tables_are_what_pandas_comes_to(run: Run, sample: Path, clean_sample: Path, weather: Path, parallelism: int) -> None:
    output = run(sample, weather=weather, parallelism=parallelism)
    for name, expected in expected_tables(clean_sample, weather).items():
        written = written_table(output / name)
        if name == "set_aside_flights":
            written = written[written["reason"] != "malformed"]
        assert len(written) > 50, name
        assert rows(written) == rows(expected[list(written.columns)]), name
    corrected = written_table(output / "airport_delays").duplicated(["origin", "window_start"])
    assert sum(corrected) > 50
    lines = malformed(output)
    assert len(lines) == len(NO_FLIGHTS)
    assert {line.decode() for line in NO_FLIGHTS[:-1]} < set(lines)


@locally
def test_a_second_run_replaces_the_tables_of_the_first(run: Run, sample: Path, schedule: Schedule) -> None:
    run(sample)
    schedule.flight("N1", 0, 0)
    output = run(schedule.write())
    rows_left = {"carrier_statistics": 1, "airport_delays": 3, "busiest_hours": 1}
    for name in job.TABLES:
        assert len(written_table(output / name)) == rows_left.get(name, 0), name


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"])
def test_both_engines_write_equal_tables_which_spark_reads_as_pandas_says(
    run: Run, spark_session: SparkSession, sample: Path, clean_sample: Path, weather: Path, tmp_path: Path
) -> None:
    from chispa import assert_df_equality

    on_spark = run(sample, tmp_path / "spark", weather=weather)
    local = run(sample, tmp_path / "local", weather=weather, parallelism=3, settings={"execution.engine": "local"})
    for name in job.TABLES:
        assert DeltaTable(on_spark / name).schema() == DeltaTable(local / name).schema(), name
        assert rows(written_table(on_spark / name)) == rows(written_table(local / name)), name
    # That all of the local engine's tables are right is tested above, without Spark.
    session = spark_session.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    statistics = session.read.format("delta").load(str(on_spark / "carrier_statistics"))
    expected = rows(expected_tables(clean_sample, weather)["carrier_statistics"][statistics.columns])
    assert_df_equality(statistics, session.createDataFrame(expected, statistics.schema), ignore_row_order=True)
