"""Shows the results of flight_delays.py: short tables, read from the Delta tables of the job."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from flight_progress import Run, say
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from rich.console import Console
from rich.table import Table

_CHAINS: Final = 10
_CARRIERS: Final = 5
#: Number of worst times shown for each airport, and number of busiest hours.
_WORST: Final = 3
_BUSIEST: Final = 5

#: Classes of weather: a reading belongs to the first bound that is above it.
_WEATHER: Final = {
    "wind_speed": {
        8.0: "wind below 8 mph",
        16.0: "wind from 8 mph",
        24.0: "wind from 16 mph",
        math.inf: "wind from 24 mph",
    },
    "visibility": {
        1.0: "visibility below 1 mile",
        3.0: "visibility from 1 mile",
        10.0: "visibility from 3 miles",
        math.inf: "visibility from 10 miles",
    },
}


def show_results(output: Path, run: Run, console: Console | None = None) -> None:
    """Print results from the job's tables, and the measurements of the run."""
    console = console or Console()

    def read(name: str) -> pa.Table:
        # By Arrow's own file system: a thread of Arrow that holds deltalake's at the end of a program aborts it.
        folder = SubTreeFileSystem(str(output / name), LocalFileSystem())
        return DeltaTable(output / name).to_pyarrow_table(filesystem=folder)

    events, statistics, aside = read("aircraft_events"), read("carrier_statistics"), read("set_aside_flights")
    airports, late = read("airport_delays"), read("late_departures")
    for table in (
        worst_chains(events),
        carriers_by_airport(statistics),
        worst_hours(airports),
        delays_by_weather(read("weather_delays")),
        busiest_hours(read("busiest_hours")),
        counts(events, statistics, aside, airports, late, run),
    ):
        console.print()
        console.print(table)
    say(console, f"\nTables: {output}")


def worst_chains(events: pa.Table) -> Table:
    """Return the worst chain of knock-on delays of each of the most affected aircraft."""
    table = _table(
        "Worst chains of knock-on delays", "aircraft", "carrier", "in a row#", "minutes late#", "last departure (UTC)", "from"
    )
    knock_on = events.filter(pc.equal(events["kind"], "knock-on"))
    order = [("chain_minutes", "descending"), ("aircraft", "ascending"), ("departure", "ascending")]
    seen: set[str] = set()
    # The last event of a chain has the most minutes, so it comes first.
    for row in knock_on.sort_by(order).to_pylist():
        if row["aircraft"] in seen:
            continue
        seen.add(row["aircraft"])
        table.add_row(
            row["aircraft"],
            row["carrier"],
            f"{row['chain']:,}",
            f"{row['chain_minutes']:,}",
            f"{row['departure']:%Y-%m-%d %H:%M}",
            row["origin"],
        )
        if len(seen) == _CHAINS:
            break
    return table


def carriers_by_airport(statistics: pa.Table) -> Table:
    """Return the figures of the largest carriers at each airport, over all months."""
    table = _table(
        f"Carriers by airport, the {_CARRIERS} largest of each",
        "airport",
        "carrier",
        "flights#",
        "late#",
        "knock-on#",
        "mean delay#",
        "worst delay#",
    )
    years = statistics.group_by(["origin", "carrier"]).aggregate(
        [("flights", "sum"), ("late", "sum"), ("knock_on", "sum"), ("delay_minutes", "sum"), ("worst_delay", "max")]
    )
    shown: dict[str, int] = {}
    for row in sorted(years.to_pylist(), key=lambda row: (row["origin"], -row["flights_sum"], row["carrier"])):
        origin, flights = row["origin"], row["flights_sum"]
        shown[origin] = shown.get(origin, 0) + 1
        if shown[origin] > _CARRIERS:
            continue
        if shown[origin] == 1 and len(shown) > 1:
            table.add_section()
        table.add_row(
            origin if shown[origin] == 1 else "",
            row["carrier"],
            f"{flights:,}",
            f"{row['late_sum'] / flights:.1%}",
            f"{row['knock_on_sum'] / flights:.1%}",
            f"{row['delay_minutes_sum'] / flights:.1f} min",
            f"{row['worst_delay_max']:,} min",
        )
    return table


def last_firings(airports: pa.Table) -> list[dict[str, Any]]:
    """Return the valid row of each window: the one with the most flights, because late flights only add to a window."""
    windows: dict[tuple[str, Any], dict[str, Any]] = {}
    for row in airports.to_pylist():
        window = row["origin"], row["window_start"]
        if window not in windows or windows[window]["flights"] < row["flights"]:
            windows[window] = row
    return list(windows.values())


def worst_hours(airports: pa.Table) -> Table:
    """Return the windows of three hours in which each airport lost the most minutes; of overlapping windows only the worst."""
    table = _table(
        "Worst three hours of each airport", "airport", "from (UTC)", "flights#", "late#", "mean delay#", "worst delay#"
    )
    shown: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(last_firings(airports), key=lambda row: (row["origin"], -row["delay_minutes"], row["window_start"])):
        worst = shown.setdefault(row["origin"], [])
        overlaps = any(row["window_start"] < other["window_end"] and other["window_start"] < row["window_end"] for other in worst)
        if overlaps or len(worst) == _WORST:
            continue
        if not worst:
            table.add_section()
        airport = "" if worst else row["origin"]
        table.add_row(airport, f"{row['window_start']:%Y-%m-%d %H:%M}", *_figures(row), f"{row['worst_delay']:,} min")
        worst.append(row)
    return table


def delays_by_weather(weather: pa.Table) -> Table:
    """Return the figures by wind and by visibility, over all hours and airports."""
    table = _table("Delays by weather", "weather", "flights#", "late#", "mean delay#")
    rows = weather.to_pylist()
    for column, names in _WEATHER.items():
        sums: dict[float, Counter[str]] = {bound: Counter() for bound in names}
        for row in rows:
            # The value may be missing in a reading.
            bound = next((bound for bound in names if row[column] is not None and row[column] < bound), None)
            if bound is not None:
                sums[bound].update({name: row[name] for name in ("flights", "late", "delay_minutes")})
        table.add_section()
        for bound, figures in sums.items():
            if figures["flights"]:
                table.add_row(names[bound], *_figures(figures))
    return table


def busiest_hours(busiest: pa.Table) -> Table:
    """Return the days with the busiest hours."""
    table = _table("Busiest hours of all days", "hour (UTC)", "flights#", "late#", "mean delay#")
    order = [("flights", "descending"), ("hour", "ascending")]
    for row in busiest.sort_by(order).slice(0, _BUSIEST).to_pylist():
        table.add_row(f"{row['hour']:%Y-%m-%d %H:%M}", *_figures(row))
    return table


def _figures(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return cells for the flights, the share of late ones and the mean delay."""
    flights = row["flights"]
    return f"{flights:,}", f"{row['late'] / flights:.1%}", f"{row['delay_minutes'] / flights:.1f} min"


def counts(events: pa.Table, statistics: pa.Table, aside: pa.Table, airports: pa.Table, late: pa.Table, run: Run) -> Table:
    """Return the number of records of each kind, and the run's time and speed."""
    table = _table("Counts", "", "#", header=False)
    reasons, kinds = _numbers(aside["reason"].to_pylist()), _numbers(events["kind"].to_pylist())
    followed = pc.sum(statistics["flights"]).as_py() or 0
    bad_weather = reasons.pop("malformed weather", 0)
    table.add_row("flights read", f"{followed + sum(reasons.values()):,}")
    table.add_row("  followed", f"{followed:,}")
    table.add_row("  of them late, 15 minutes or more", f"{pc.sum(statistics['late']).as_py() or 0:,}")
    for reason in ("cancelled", "too late", "malformed"):
        what = "too late: hours behind the others" if reason == "too late" else reason
        table.add_row(f"  set aside: {what}", f"{reasons.get(reason, 0):,}")
    table.add_section()
    table.add_row("knock-on delays", f"{kinds.get('knock-on', 0):,}")
    table.add_row("aircraft standing for long", f"{kinds.get('standing', 0):,}")
    windows = len(last_firings(airports))
    table.add_row("windows of three hours", f"{windows:,}")
    table.add_row("  corrections by late flights", f"{airports.num_rows - windows:,}")
    table.add_row("  flights too late for all windows", f"{late.num_rows:,}")
    if bad_weather:
        table.add_row("lines of weather set aside", f"{bad_weather:,}")
    table.add_section()
    table.add_row("checkpoints", f"{run.checkpoints:,}")
    table.add_row("epochs", f"{run.epochs:,}")
    if run.restarts:
        table.add_row("restarts", f"{run.restarts:,}")
    table.add_row("seconds, with the start", f"{run.seconds:,.1f}")
    table.add_row("records/s, after the start", f"{run.rate:,.0f}")
    return table


def _table(title: str, *columns: str, header: bool = True) -> Table:
    """Return an empty table; columns whose names end in # are for numbers. It fits its cells, so that each row is one line."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=header)
    for column in columns:
        table.add_column(column.removesuffix("#"), justify="right" if column.endswith("#") else "left", no_wrap=True)
    return table


def _numbers(values: Iterable[str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for value in values:
        numbers[value] = numbers.get(value, 0) + 1
    return numbers
