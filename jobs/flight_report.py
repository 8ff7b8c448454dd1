"""Shows flight_delays.py to a person: progress while it runs, short tables at the end."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flinkish.datastream import StreamExecutionEnvironment
from flinkish.jobmaster.job_metrics import JobFigures

#: How often a job is looked at, and how often a line goes to a log, in seconds.
_LOOK_S: Final = 0.25
_LOG_S: Final = 5.0
_CHAINS: Final = 10
_CARRIERS: Final = 5
#: A watermark beyond stands for the end of all input.
_END: Final = 2**62
#: Metrics of the job, by name of the operator.
_READ: Final = "Parse.flights"
_CANCELLED: Final = "Parse.cancelled"
_TOO_LATE: Final = "Set late flights aside.too late"

#: Columns of the progress and their widths: 79 characters in all.
_COLUMNS: Final = {
    "time": 6,
    "event time": 16,
    "read": 9,
    "too late": 8,
    "cancelled": 9,
    "checkpoints": 11,
    "records/s": 9,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run took; of one that went on from a checkpoint, only this last part."""

    records: int
    #: From the command to the end, and from the first record to the end.
    seconds: float
    working_seconds: float
    checkpoints: int
    epochs: int
    restarts: int

    @property
    def rate(self) -> float:
        """Records per second, without the start of the engine."""
        return self.records / max(self.working_seconds, 0.001)


class Progress:
    """What is shown of a running job at a moment."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._started = time.monotonic()
        self._working: float | None = None
        self._event_time = "-"

    @property
    def begun(self) -> bool:
        """Whether the first epoch is done; before, the engine starts."""
        return self._working is not None

    def look(self) -> str:
        """Return the line of this moment."""
        run, figures = self.run(), self._client.figures()
        watermark = max((vertex.watermark for vertex in figures.vertices), default=0)
        if 0 < watermark < _END:
            self._event_time = f"{datetime.datetime.fromtimestamp(watermark / 1000, datetime.UTC):%Y-%m-%d %H:%M}"
        minutes, seconds = divmod(int(run.seconds), 60)
        return _line(
            f"{minutes}:{seconds:02}",
            self._event_time,
            f"{figures.user.get(_READ, 0):,}",
            f"{figures.user.get(_TOO_LATE, 0):,}",
            f"{figures.user.get(_CANCELLED, 0):,}",
            f"{run.checkpoints:,}",
            f"{run.rate:,.0f}",
        )

    def run(self) -> Run:
        """Return what the run has taken so far."""
        now = time.monotonic()
        figures: JobFigures = self._client.figures()
        if self._working is None and figures.epochs:
            # Of a job so short that more than one epoch has gone by, only the whole is known.
            self._working = now - figures.last_epoch_ms / 1000 if figures.epochs == 1 else self._started
        coordinator = self._client.job_master.coordinator
        return Run(
            records=figures.records_read,
            seconds=now - self._started,
            working_seconds=0.0 if self._working is None else now - self._working,
            checkpoints=0 if coordinator is None else coordinator.statistics.counts.completed,
            epochs=figures.epochs,
            restarts=figures.restarts,
        )


def _line(*cells: str) -> str:
    return " ".join(cell.rjust(width) for cell, width in zip(cells, _COLUMNS.values(), strict=True))


def run_with_progress(env: StreamExecutionEnvironment, name: str) -> Run:
    """Run the job: on a terminal with a line that changes, elsewhere with a line every few seconds.

    Raises JobExecutionError if it fails. After Ctrl-C and SIGTERM the job is stopped before the exception arrives here.
    """
    console = Console()
    client: Any = env.execute_async(name)
    result = client.get_job_execution_result()
    progress = Progress(client)
    try:
        _say(console, f"{name}: starting")
        while not result.done() and not progress.begun:
            time.sleep(_LOOK_S)
            progress.run()
        if console.is_terminal:
            _show_live(console, progress, result)
        else:
            _log_lines(console, progress, result)
        result.result()
    except (KeyboardInterrupt, SystemExit):
        _say(console, "Stopped. The tables hold what was committed up to the last checkpoint.")
        raise
    return progress.run()


def _show_live(console: Console, progress: Progress, result: Any) -> None:
    with Live(console=console, auto_refresh=False) as live:
        while True:
            ended = result.done()
            live.update(Text(f"{_line(*_COLUMNS)}\n{progress.look()}", no_wrap=True, overflow="crop"), refresh=True)
            if ended:
                return
            time.sleep(_LOOK_S)


def _log_lines(console: Console, progress: Progress, result: Any) -> None:
    _say(console, _line(*_COLUMNS))
    due = 0.0
    while not result.done():
        if time.monotonic() >= due:
            _say(console, progress.look())
            due = time.monotonic() + _LOG_S
        time.sleep(_LOOK_S)
    _say(console, progress.look())


def _say(console: Console, line: str) -> None:
    """Print a line as it is: a log has no width that it should be broken at."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_results(output: Path, run: Run, console: Console | None = None) -> None:
    """Print what the three tables of the job say, and what the run took."""
    console = console or Console()
    events = DeltaTable(output / "aircraft_events").to_pyarrow_table()
    statistics = DeltaTable(output / "carrier_statistics").to_pyarrow_table()
    aside = DeltaTable(output / "set_aside_flights").to_pyarrow_table()
    for table in (worst_chains(events), carriers_by_airport(statistics), counts(events, statistics, aside, run)):
        console.print()
        console.print(table)
    _say(console, f"\nTables: {output}")


def worst_chains(events: pa.Table) -> Table:
    """Return the worst chain of knock-on delays of each of the worst hit aircraft."""
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


def counts(events: pa.Table, statistics: pa.Table, aside: pa.Table, run: Run) -> Table:
    """Return how many records there were of each kind, and what the run took."""
    table = _table("Counts", "", "#", header=False)
    reasons, kinds = _numbers(aside["reason"].to_pylist()), _numbers(events["kind"].to_pylist())
    followed = pc.sum(statistics["flights"]).as_py() or 0
    table.add_row("flights read", f"{followed + aside.num_rows:,}")
    table.add_row("  followed", f"{followed:,}")
    table.add_row("  of them late, 15 minutes or more", f"{pc.sum(statistics['late']).as_py() or 0:,}")
    for reason in ("cancelled", "too late", "malformed"):
        what = "too late: hours behind the others" if reason == "too late" else reason
        table.add_row(f"  set aside: {what}", f"{reasons.get(reason, 0):,}")
    table.add_section()
    table.add_row("knock-on delays", f"{kinds.get('knock-on', 0):,}")
    table.add_row("aircraft standing for long", f"{kinds.get('standing', 0):,}")
    table.add_section()
    table.add_row("checkpoints", f"{run.checkpoints:,}")
    table.add_row("epochs", f"{run.epochs:,}")
    if run.restarts:
        table.add_row("restarts", f"{run.restarts:,}")
    table.add_row("seconds, with the start", f"{run.seconds:,.1f}")
    table.add_row("records/s, after the start", f"{run.rate:,.0f}")
    return table


def _table(title: str, *columns: str, header: bool = True) -> Table:
    """Return an empty table; columns that end in # are for numbers. It is never wider than its cells: rows stay lines."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=header)
    for column in columns:
        table.add_column(column.removesuffix("#"), justify="right" if column.endswith("#") else "left", no_wrap=True)
    return table


def _numbers(values: Iterable[str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for value in values:
        numbers[value] = numbers.get(value, 0) + 1
    return numbers
