"""What flight_report.py and flight_progress.py show, from figures and tables made by hand."""

from __future__ import annotations

import dataclasses
import datetime
import io
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import flight_progress as progress_of
import flight_report as report
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from flinkish.jobmaster.job_metrics import JobFigures, VertexFigures

RUN = progress_of.Run(records=1_000, seconds=12.0, working_seconds=2.0, checkpoints=3, epochs=9, restarts=0)
AT = datetime.datetime(2013, 1, 1, 12, 0, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def events(*chains: tuple[str, int, int]) -> pa.Table:
    """Return events of kind knock-on: aircraft, length and minutes of the chain."""
    rows = [
        {
            "kind": "knock-on",
            "aircraft": aircraft,
            "carrier": "B6",
            "origin": "JFK",
            "departure": AT,
            "chain": n,
            "chain_minutes": m,
        }
        for aircraft, n, m in chains
    ]
    kinds = [pa.field(name, pa.string()) for name in ("kind", "aircraft", "carrier", "origin")]
    return pa.Table.from_pylist(
        rows,
        pa.schema(
            [*kinds, ("departure", pa.timestamp("us", "UTC")), ("chain", pa.int32()), ("chain_minutes", pa.int32())],
        ),
    )


def statistics(*rows: tuple[str, str, str, int, int, int, int, int]) -> pa.Table:
    names = ["month", "origin", "carrier", "flights", "late", "knock_on", "delay_minutes", "worst_delay"]
    types = [pa.string()] * 3 + [pa.int64()] * 4 + [pa.int32()]
    return made(names, types, rows)


def hours(*rows: tuple[str, int, int, int, int, int]) -> pa.Table:
    """Return windows of three hours: airport, hour of the start, and figures."""
    names = ["origin", "window_start", "window_end", "flights", "late", "delay_minutes", "worst_delay"]
    times = [pa.timestamp("us", "UTC")] * 2
    values = [(row[0], AT + row[1] * HOUR, AT + (row[1] + 3) * HOUR, *row[2:]) for row in rows]
    types = [pa.string(), *times, pa.int64(), pa.int64(), pa.int64(), pa.int32()]
    return made(names, types, values)


def weather(*rows: tuple[int, int, int, float | None, float | None]) -> pa.Table:
    """Return hours with their weather: flights, late ones, minutes, wind and visibility."""
    names = ["flights", "late", "delay_minutes", "wind_speed", "visibility"]
    return made(names, [pa.int64()] * 3 + [pa.float64()] * 2, rows)


def busiest(*rows: tuple[int, int]) -> pa.Table:
    """Return busiest hours: the hour and its flights."""
    types = [pa.timestamp("us", "UTC"), *[pa.int64()] * 3]
    return made(
        ["hour", "flights", "late", "delay_minutes"], types, [(AT + hour * HOUR, flights, 1, 30) for hour, flights in rows]
    )


def made(names: list[str], types: list[pa.DataType], rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], pa.schema(list(zip(names, types, strict=True)))
    )


def printed(table: Any, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def cells(table: Any) -> list[list[str]]:
    """Return the cells of a table's rows."""
    columns = [list(column.cells) for column in table.columns]
    return [list(map(str, row)) for row in zip(*columns, strict=True)]


def test_the_worst_chain_of_each_aircraft_is_shown_once_with_the_worst_first() -> None:
    table = report.worst_chains(events(("N1", 1, 20), ("N1", 2, 90), ("N2", 1, 400), ("N1", 1, 30)))
    assert cells(table) == [
        ["N2", "B6", "1", "400", "2013-01-01 12:00", "JFK"],
        ["N1", "B6", "2", "90", "2013-01-01 12:00", "JFK"],
    ]


def test_ten_aircraft_are_enough() -> None:
    assert len(cells(report.worst_chains(events(*[(f"N{i}", 1, 20) for i in range(30)])))) == 10


def test_carriers_are_summed_over_months_and_the_largest_of_each_airport_shown() -> None:
    small = [("2013-01", "LGA", f"C{i}", 10 - i, 0, 0, 0, 0) for i in range(7)]
    table = report.carriers_by_airport(
        statistics(("2013-01", "JFK", "B6", 30, 10, 5, 300, 1_100), ("2013-02", "JFK", "B6", 10, 0, 0, 100, 20), *small)
    )
    first, *others = cells(table)
    assert first == ["JFK", "B6", "40", "25.0%", "12.5%", "10.0 min", "1,100 min"]
    assert [row[:2] for row in others] == [["LGA", "C0"], ["", "C1"], ["", "C2"], ["", "C3"], ["", "C4"]]


def test_the_worst_windows_of_an_airport_do_not_overlap_and_count_as_they_were_corrected_last() -> None:
    table = report.worst_hours(
        hours(
            ("LGA", 0, 1, 0, 5, 5),
            ("JFK", 0, 10, 2, 100, 50),
            ("JFK", 0, 12, 4, 500, 300),  # the same window, corrected
            ("JFK", 1, 11, 3, 400, 300),
            ("JFK", 3, 8, 0, 10, 10),
            ("JFK", -4, 8, 8, 90, 20),
            ("JFK", 9, 8, 8, 9, 5),
        )
    )
    assert cells(table) == [
        ["JFK", "2013-01-01 12:00", "12", "33.3%", "41.7 min", "300 min"],
        ["", "2013-01-01 08:00", "8", "100.0%", "11.2 min", "20 min"],
        ["", "2013-01-01 15:00", "8", "0.0%", "1.2 min", "10 min"],
        ["LGA", "2013-01-01 12:00", "1", "0.0%", "5.0 min", "5 min"],
    ]


def test_delays_are_shown_by_wind_and_by_visibility_and_hours_without_a_value_in_neither() -> None:
    table = report.delays_by_weather(
        weather((10, 1, 50, 7.99, 10.0), (10, 2, 70, 8.0, 0.25), (20, 20, 900, 50.0, float("nan")), (5, 0, 0, None, 9.0))
    )
    assert cells(table) == [
        ["wind below 8 mph", "10", "10.0%", "5.0 min"],
        ["wind from 8 mph", "10", "20.0%", "7.0 min"],
        ["wind from 24 mph", "20", "100.0%", "45.0 min"],
        ["visibility below 1 mile", "10", "20.0%", "7.0 min"],
        ["visibility from 3 miles", "5", "0.0%", "0.0 min"],
        ["visibility from 10 miles", "10", "10.0%", "5.0 min"],
    ]


def test_the_busiest_hours_are_shown_of_equals_the_first() -> None:
    table = report.busiest_hours(busiest((24, 10), (0, 30), (48, 30), (72, 9), (96, 8), (120, 7)))
    assert [row[:2] for row in cells(table)] == [
        ["2013-01-01 12:00", "30"],
        ["2013-01-03 12:00", "30"],
        ["2013-01-02 12:00", "10"],
        ["2013-01-04 12:00", "9"],
        ["2013-01-05 12:00", "8"],
    ]


@pytest.mark.parametrize("width", [80, 200])
def test_tables_are_as_wide_as_their_cells_and_no_row_is_broken(width: int) -> None:
    big = 1_234_567
    year = statistics(("2013-01", "JFK", "B6", big, big, big, big * 9_999, 99_999))
    for table, lines in (
        (report.worst_chains(events(("N123456", 99, 99_999))), 6),
        (report.carriers_by_airport(year), 6),
        (report.worst_hours(hours(("JFK", 0, big, big, big * 999, 99_999))), 6),
        (report.delays_by_weather(weather((big, big, big * 999, 9.0, None))), 6),
        (report.busiest_hours(busiest((0, big))), 6),
    ):
        shown = printed(table, width).splitlines()
        assert len(shown) == lines
        assert max(len(line.rstrip()) for line in shown) <= 80
        assert not any("…" in line for line in shown)


def test_empty_tables_are_shown_as_such(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "aircraft_events", events())
    write_deltalake(tmp_path / "carrier_statistics", statistics())
    write_deltalake(tmp_path / "set_aside_flights", pa.table({"reason": pa.array([], pa.string())}))
    write_deltalake(tmp_path / "airport_delays", hours())
    write_deltalake(tmp_path / "late_departures", pa.table({"delay": pa.array([], pa.int32())}))
    write_deltalake(tmp_path / "weather_delays", weather())
    write_deltalake(tmp_path / "busiest_hours", busiest())
    console = Console(file=io.StringIO(), width=80)
    report.show_results(tmp_path, RUN, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "flights read" in text
    assert str(tmp_path) in text


def test_counts_come_from_the_tables_and_speed_from_the_run() -> None:
    aside = pa.table({"reason": ["cancelled", "too late", "malformed weather", "cancelled"]})
    windows = hours(("JFK", 0, 5, 0, 0, 0), ("JFK", 0, 6, 0, 0, 0), ("JFK", 1, 7, 0, 0, 0))
    late = pa.table({"delay": [1, 2]})
    table = report.counts(events(("N1", 1, 20)), statistics(("2013-01", "JFK", "B6", 7, 3, 1, 0, 0)), aside, windows, late, RUN)
    found = {label.strip(): number for label, number in cells(table)}
    assert found["flights read"] == "10"
    assert found["followed"] == "7"
    assert found["of them late, 15 minutes or more"] == "3"
    assert found["set aside: cancelled"] == "2"
    assert found["set aside: malformed"] == "0"
    assert found["knock-on delays"] == "1"
    assert found["windows of three hours"] == "2"
    assert found["corrections by late flights"] == "1"
    assert found["flights too late for all windows"] == "2"
    assert found["lines of weather set aside"] == "1"
    assert found["checkpoints"] == "3"
    assert found["records/s, after the start"] == "500"
    assert "restarts" not in found


class Client:
    """Stands in for the client of a running job."""

    def __init__(self) -> None:
        self.epochs = 0
        self.watermark = -(2**63)
        self.read = 0

    def checkpoints(self) -> Any:
        return SimpleNamespace(counts=SimpleNamespace(completed=12))

    def figures(self) -> JobFigures:
        vertex = VertexFigures(
            vertex=0,  # type: ignore[arg-type]
            name="Parse",
            records_in=0,
            records_out=0,
            late_records=0,
            late_of=0,
            busy_ms=0.0,
            watermark=self.watermark,
            records_written=0,
            watermarks={},
        )
        user = {"Parse.flights": self.read, "Parse.cancelled": 99_999, "Set late flights aside.too late": 12_345}
        return JobFigures(
            epochs=self.epochs,
            restarts=0,
            records_read=self.read,
            records_written=0,
            last_epoch_ms=100.0,
            credit=0,
            epoch_began=None,
            vertices=(vertex,),
            user=user,
        )


def test_the_line_of_progress_is_below_80_columns_with_all_counts_under_their_names() -> None:
    client = Client()
    progress = progress_of.Progress(client)
    assert not progress.begun
    client.epochs, client.read, client.watermark = 1, 9_999_999, int(AT.timestamp() * 1000)
    line, header = progress.look(), progress_of._line(*progress_of._COLUMNS)
    assert progress.begun
    assert len(header) == 74
    assert line.split()[1:7] == ["2013-01-01", "12:00", "9,999,999", "12,345", "99,999", "12"]
    assert line[: header.index("checkpoints") + len("checkpoints")].endswith("12")


def test_event_time_stays_what_it_was_when_the_input_has_ended() -> None:
    client = Client()
    progress = progress_of.Progress(client)
    assert progress.look().split()[1] == "-"
    client.watermark = int(AT.timestamp() * 1000)
    assert "2013-01-01 12:00" in progress.look()
    client.watermark = 2**63 - 1
    assert "2013-01-01 12:00" in progress.look()


def test_event_time_is_that_of_the_flights_when_the_weather_has_ended() -> None:
    class WithWeather(Client):
        def figures(self) -> JobFigures:
            figures = super().figures()
            weather = dataclasses.replace(figures.vertices[0], name="Weather", watermark=2**63 - 1)
            return dataclasses.replace(figures, vertices=(*figures.vertices, weather))

    client = WithWeather()
    client.watermark = int(AT.timestamp() * 1000)
    assert "2013-01-01 12:00" in progress_of.Progress(client).look()
