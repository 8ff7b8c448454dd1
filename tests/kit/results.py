"""Collects the results of a job."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from flinkish.datastream.data_stream import DataStream


def collect(stream: Any) -> list[Any]:
    """Run the program of a stream and return the stream's records."""
    with stream.execute_and_collect() as results:
        return list(results)


def visible(folder: Path) -> list[Path]:
    """Return the files below a folder that readers see: all but files in progress, whose names begin with a dot."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def collect_each(**streams: DataStream[Any]) -> dict[str, list[Any]]:
    """Run one job with several streams and return the records of each; a job on Spark for each takes seconds."""
    named = [stream.map(partial(_named, name)) for name, stream in streams.items()]
    found: dict[str, list[Any]] = {name: [] for name in streams}
    for name, value in collect(named[0].union(*named[1:])):
        found[name].append(value)
    return found


def _named(name: str, value: Any) -> tuple[str, Any]:
    return name, value
