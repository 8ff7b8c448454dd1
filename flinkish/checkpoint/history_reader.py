"""Reads the history tables of jobs, for people. See history.py, which writes them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from flinkish.checkpoint import paths
from flinkish.checkpoint.history import WAITING, waiting_notes
from flinkish.common.delta_calls import panics_as_errors, rows_of
from flinkish.common.errors import ConfigurationError, CorruptCheckpointError
from flinkish.common.files.schemes import files_at

_KEY = "execution.checkpointing.dir"
#: The event of a job's end; its message is the last status.
ENDED = "job ended"
#: The event of a metrics reporter; its message says how many there are.
METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Event:
    """One row of a history; `time` is milliseconds since the epoch."""

    time: int
    event: str
    checkpoint_id: int | None
    message: str


def jobs_with_history(directory: str) -> list[str]:
    """Return the ids of the jobs that have a history below a checkpoint directory, in order.

    Raises ConfigurationError if there is no such directory.
    """
    root = _root(directory)
    files = files_at(root)
    if not files.is_folder():
        raise ConfigurationError(f"{_KEY}: there is no folder {root}", hint="--dir names the folder of the checkpoints.")
    return sorted(name for name in files.names() if any(files.exists(f"{name}/history/{each}") for each in (paths.LOG, WAITING)))


@panics_as_errors()
def read_history(directory: str, job_id: str) -> Sequence[Event]:
    """Return the events of a job, oldest first; empty if it has no history. Raises CorruptCheckpointError for a damaged table."""
    root = paths.job_folder(_root(directory), job_id) / "history"
    files = files_at(root)
    try:
        files.refuse_links(paths.LOG)
        try:
            table = DeltaTable(str(root), storage_options=dict(files.delta_options) or None)
        except TableNotFoundError:
            table = None
        # First, as the writer may move these notes into the table in the meantime.
        waiting = waiting_notes(files, table)
        rows = None if table is None else rows_of(table, root)
    except (DeltaError, OSError, msgspec.MsgspecError) as error:
        raise CorruptCheckpointError(f"the history {root} cannot be read: {error}") from error
    found = [] if rows is None else rows.select(["time", "event", "checkpoint_id", "message"]).sort_by("time").to_pylist()
    return [
        *(Event(_milliseconds(row["time"]), row["event"], row["checkpoint_id"], row["message"] or "") for row in found),
        *(Event(note.time, note.event, note.checkpoint_id, note.message) for note in waiting),
    ]


def _root(directory: str) -> PurePath:
    return paths.table_root(directory, key=_KEY)


def _milliseconds(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1000)
