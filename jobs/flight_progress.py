"""Runs flight_delays.py, shows a progress line, and measures the run."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from flinkish.datastream import StreamExecutionEnvironment
from flinkish.jobmaster.job_metrics import JobFigures

#: Seconds between two looks at the job, and between two lines in a log.
_LOOK_S: Final = 0.25
_LOG_S: Final = 5.0
#: A watermark above this value means the end of all input.
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
    """The measurements of a run; for a run that resumed from a checkpoint, only those since then."""

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
    """The progress line of a running job."""

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
        """Return the current progress line."""
        run, figures = self.run(), self._client.figures()
        # The weather is at its end long before the flights.
        watermark = max((vertex.watermark for vertex in figures.vertices if vertex.watermark < _END), default=0)
        if watermark > 0:
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
        """Return the measurements so far."""
        now = time.monotonic()
        figures: JobFigures = self._client.figures()
        if self._working is None and figures.epochs:
            # If more than one epoch has passed at the first look, the job is so short that only its total time is known.
            self._working = now - figures.last_epoch_ms / 1000 if figures.epochs == 1 else self._started
        return Run(
            records=figures.records_read,
            seconds=now - self._started,
            working_seconds=0.0 if self._working is None else now - self._working,
            checkpoints=self._client.checkpoints().counts.completed,
            epochs=figures.epochs,
            restarts=figures.restarts,
        )


def _line(*cells: str) -> str:
    return " ".join(cell.rjust(width) for cell, width in zip(cells, _COLUMNS.values(), strict=True))


def run_with_progress(env: StreamExecutionEnvironment, name: str) -> Run:
    """Run the job; show one line that is updated on a terminal, elsewhere a new line every few seconds.

    Raises JobExecutionError if the job fails. After Ctrl-C and SIGTERM the job is stopped before the exception arrives here.
    """
    console = Console()
    client: Any = env.execute_async(name)
    result = client.get_job_execution_result()
    progress = Progress(client)
    try:
        say(console, f"{name}: starting")
        while not result.done() and not progress.begun:
            time.sleep(_LOOK_S)
            progress.run()
        if console.is_terminal:
            _show_live(console, progress, result)
        else:
            _log_lines(console, progress, result)
        result.result()
    except (KeyboardInterrupt, SystemExit):
        say(console, "Stopped. The tables hold what was committed up to the last checkpoint.")
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
    say(console, _line(*_COLUMNS))
    due = 0.0
    while not result.done():
        if time.monotonic() >= due:
            say(console, progress.look())
            due = time.monotonic() + _LOG_S
        time.sleep(_LOOK_S)
    say(console, progress.look())


def say(console: Console, line: str) -> None:
    """Print a line without breaking it, because a log has no width."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)
