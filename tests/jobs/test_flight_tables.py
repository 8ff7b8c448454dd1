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

from tests.conftest import MakeEnvironment
from tests.jobs.conftest import NO_FLIGHTS
from tests.jobs.pandas_flights import expected_tables, rows, written_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = Callable[..., Path]
START = datetime(2013, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def run(make_env: MakeEnvironment, tmp_path: Path) -> Run:
    """Return a function that runs the job on a file, with many small epochs and checkpoints, and returns its output folder."""

    def run(source: Path, output: Path = tmp_path / "out", *, settings: dict[str, Any] | None = None, standing: int = 30) -> Path:
        env = make_env(2, {"execution.epoch.max-records": 1_500, **(settings or {})})
        job.set_up(env, 100)
        check_output(output, job.TABLES)
        job.build(env, source, read_header(source), output, standing)
        env.execute("flight delays")
        return output

    return run


local_only = pytest.mark.parametrize("engine", ["local"])


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


@local_only
def test_departures_of_one_aircraft_at_one_moment_are_both_counted(run: Run, schedule: Schedule) -> None:
    schedule.flight("N1", 60, 0)
    schedule.flight("N1", 30, 30)
    output = run(schedule.write())
    assert table(output, "carrier_statistics", "flights", "late") == [(2, 1)]


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


@local_only
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


@local_only
def test_an_aircraft_that_leaves_at_the_very_moment_did_not_stand(run: Run, schedule: Schedule) -> None:
    day = 24 * 60
    schedule.flight("N1", 0, 0)
    schedule.flight("N2", 0, 0)
    schedule.flight("N1", 10 * day, 0)
    schedule.flight("N2", 10 * day + 1, 0)
    schedule.flight("N3", 15 * day, 0)
    output = run(schedule.write(), standing=10)
    assert table(output, "aircraft_events", "aircraft", "departure") == [("N2", 0)]


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


@local_only
def test_a_file_with_a_header_only_makes_three_empty_tables(run: Run, schedule: Schedule) -> None:
    output = run(schedule.write())
    for name in job.TABLES:
        assert DeltaTable(output / name).to_pyarrow_table().num_rows == 0


@local_only
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


@local_only
def test_the_tables_are_what_pandas_comes_to(run: Run, sample: Path, clean_sample: Path) -> None:
    output = run(sample)
    for name, expected in expected_tables(clean_sample).items():
        written = written_table(output / name)
        if name == "set_aside_flights":
            written = written[written["reason"] != "malformed"]
        assert len(written) > 100
        assert rows(written) == rows(expected[list(written.columns)]), name
    lines = malformed(output)
    assert len(lines) == len(NO_FLIGHTS)
    assert {line.decode() for line in NO_FLIGHTS[:-1]} < set(lines)


@local_only
def test_a_second_run_replaces_the_tables_of_the_first(run: Run, sample: Path, schedule: Schedule) -> None:
    output = run(sample)
    first = {name: rows(written_table(output / name)) for name in job.TABLES}
    run(sample)
    assert {name: rows(written_table(output / name)) for name in job.TABLES} == first
    schedule.flight("N1", 0, 0)
    run(schedule.write())
    assert [len(written_table(output / name)) for name in job.TABLES] == [0, 1, 0]


#: Spark's defaults are for large tables: 200 tasks to sort, 50 to read a table's log.
READING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def spark_tables(session: SparkSession, output: Path) -> dict[str, DataFrame]:
    return {name: session.read.format("delta").load(str(output / name)) for name in job.TABLES}


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"])
def test_both_engines_write_equal_tables_which_spark_reads_as_pandas_says(
    run: Run, spark_session: SparkSession, sample: Path, clean_sample: Path, tmp_path: Path
) -> None:
    from chispa import assert_df_equality

    session = spark_session.newSession()
    for key, value in READING.items():
        session.conf.set(key, value)
    on_spark = spark_tables(session, run(sample, tmp_path / "spark"))
    local = spark_tables(session, run(sample, tmp_path / "local", settings={"execution.engine": "local"}))
    for name in job.TABLES:
        assert_df_equality(on_spark[name], local[name], ignore_row_order=True)
    # That all of the local engine's tables are right is tested above, without Spark.
    statistics = on_spark["carrier_statistics"]
    expected = rows(expected_tables(clean_sample)["carrier_statistics"][statistics.columns])
    assert_df_equality(statistics, session.createDataFrame(expected, statistics.schema), ignore_row_order=True)
