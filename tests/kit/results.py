"""Collects the results of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def collect(stream: Any) -> list[Any]:
    """Run the program of a stream and return the stream's records."""
    with stream.execute_and_collect() as results:
        return list(results)


def visible(folder: Path) -> list[Path]:
    """Return the files below a folder that readers see: all but files in progress, whose names begin with a dot."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
