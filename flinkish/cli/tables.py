"""Tables, times, durations and sizes as text for people."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Wide enough for any line: a table that goes to a file or a pipe must not be wrapped.
_UNLIMITED = 10_000
_SIZES = (10**3, "KB"), (10**6, "MB"), (10**9, "GB"), (10**12, "TB")
_STYLES = {"RUNNING": "green", "FINISHED": "blue", "FAILED": "red", "FAILING": "red", "RESTARTING": "yellow"}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, whole: str) -> None:
    """Print a table within the width of the terminal; states have colours, and values of the column `whole` are never wrapped."""
    console = Console() if sys.stdout.isatty() else Console(width=_UNLIMITED)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(Text(name), no_wrap=name == whole, overflow="fold", min_width=32 if name == whole else None)
    for row in rows:
        table.add_row(*(Text(value, style=_STYLES.get(value, "")) for value in row))
    console.print(table)


def time_text(milliseconds: int) -> str:
    """Return milliseconds since the epoch as local time; `-` for 0 and for negative numbers, which mean no time."""
    if milliseconds <= 0:
        return "-"
    return datetime.datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")


def duration_text(milliseconds: int) -> str:
    """Return a duration in its two largest units.

    >>> duration_text(3_725_000), duration_text(59_900), duration_text(40), duration_text(200_000_000)
    ('1 h 2 min', '59 s', '40 ms', '2 d 7 h')
    """
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    seconds = milliseconds // 1_000
    parts = [(seconds // 86_400, "d"), (seconds // 3_600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    first = next(number for number, (amount, _) in enumerate(parts) if amount)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount)


def restarts_text(restarts: Mapping[str, Any]) -> str:
    """Return one line about the restarts of a job, from a server's answer.

    >>> restarts_text({"count": 1, "last-failure": "operator 'map': ValueError: 7", "last-failure-time": 0})
    "1 restart, last failure -: operator 'map': ValueError: 7"
    """
    count, since = restarts["count"], restarts.get("restarting-since")
    text = f"{count} restart{'' if count == 1 else 's'}"
    if since is not None:
        text = f"restarting since {time_text(since)}, {text}"
    return f"{text}, last failure {time_text(restarts['last-failure-time'])}: {restarts['last-failure']}"


def size_text(size: int) -> str:
    """Return a number of bytes in the largest suitable unit."""
    if size < 1_000:
        return f"{size} B"
    return next(f"{size / unit:.1f} {name}" for unit, name in _SIZES if size < 1_000 * unit or name == "TB")
