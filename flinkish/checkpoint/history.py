"""A Delta table with the events of a job, for people: checkpoints, attempts, exceptions, metrics. It is not used for recovery.

Notes are best effort: a failure to write them is logged and does not affect the job. They are written to the table in batches,
and old rows are removed from time to time, so that the table stays small however long the job runs. The notes of the next batch
wait in a file of the table's folder. If the process is killed, the job's next process writes them into the table.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from flinkish.checkpoint import paths
from flinkish.checkpoint.statistics import CheckpointRecord
from flinkish.common.clock import Clock
from flinkish.common.delta_calls import panics_as_errors, rows_of
from flinkish.common.errors import ConfigurationError, CorruptCheckpointError
from flinkish.common.files.checkpoint_files import CheckpointFiles
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import Generation

_log = logging.getLogger(__name__)

_SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("ms", tz="UTC")),
        ("generation", pa.int64()),
        ("event", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("message", pa.string()),
        ("details", pa.string()),
    ]
)
#: Notes are written when _BATCH of them wait, or when one arrives and the last write is at least _BATCH_MS ago.
_BATCH = 50
_BATCH_MS = 60_000
#: The file with the notes of the next batch; readers of the table ignore it because of its name.
WAITING = "_waiting.json"
_LARGEST_WAITING = 64 * 1024 * 1024
_KEY = "execution.checkpointing.dir"
_PROPERTIES = {"delta.logRetentionDuration": "interval 1 days", "delta.deletedFileRetentionDuration": "interval 1 hours"}
#: The event of a job's end; its message is the last status.
ENDED = "job ended"
#: The event of a metrics reporter; its message says how many there are.
METRICS = "metrics"
#: The figures of a checkpoint that are recorded; the part of each subtask is not.
_DETAILS = tuple(
    field.name
    for field in fields(CheckpointRecord)
    if field.name not in ("status", "kind", "failure", "failed_at", "acknowledgements", "parallelism")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A row of the table; `time` is milliseconds since the epoch."""

    time: int
    generation: int
    event: str
    checkpoint_id: int | None
    message: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Notes that one commit writes into the table; the commit's application transaction is (generation, number)."""

    generation: int
    number: int
    notes: list[Note]


def _open(root: PurePath, files: CheckpointFiles) -> tuple[DeltaTable | None, list[Note]]:
    """Return the table of a history, None if there is none, and the notes that wait in its file and are not in the table.

    Raises OSError or msgspec.MsgspecError if there is a file that cannot be read.
    """
    files.refuse_links(paths.LOG)
    # Before the table, as its writer may move these notes into it in the meantime.
    try:
        batch = msgspec.json.decode(files.read(WAITING, limit=_LARGEST_WAITING), type=_Batch)
    except FileNotFoundError:
        batch = None
    try:
        table = DeltaTable(str(root), storage_options=dict(files.delta_options))
    except TableNotFoundError:
        return None, [] if batch is None else batch.notes
    written = None if batch is None else table.transaction_version(_application(batch.generation))
    waits = batch is not None and (written is None or written < batch.number)
    return table, batch.notes if batch is not None and waits else []


def _application(generation: int) -> str:
    return f"flinkish/history/{generation}"


class JobHistory:
    """Notes about one job in `<directory>/<job id>/history`. Thread-safe; no method raises if the storage fails."""

    def __init__(
        self,
        directory: str | PurePath,
        job_id: str,
        *,
        generation: Generation,
        clock: Clock,
        batches_per_compaction: int = 50,
        kept_rows: int = 100_000,
    ) -> None:
        directory = paths.table_root(str(directory), key=_KEY)
        self.root = paths.job_folder(directory, job_id) / "history"
        self._files = files_at(self.root)
        self._generation = generation
        self._clock = clock
        self._batches_per_compaction = batches_per_compaction
        self._kept_rows = kept_rows
        self._lock = threading.Lock()
        self._last_write = clock.monotonic()
        self._batches = 0
        self._notes: list[Note] = []
        try:
            self._notes = self._left_waiting()
        except Exception:
            _log.warning("The last notes of an earlier process about the job could not be read.", exc_info=True)

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        """Record a checkpoint that completed or failed."""
        details = {name: getattr(record, name) for name in _DETAILS}
        self.note(
            f"checkpoint {record.status.value.lower()}",
            record.failure or f"{record.kind.value} checkpoint of {record.state_size} bytes",
            checkpoint_id=record.checkpoint_id,
            details={"kind": record.kind.value, **details},
        )

    def note(
        self, event: str, message: str = "", *, checkpoint_id: int | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        """Record an event, such as "attempt failed"; `details` is plain data."""
        now = self._clock.monotonic()
        with self._lock:
            text = json.dumps(details or {}, default=str, sort_keys=True)
            self._notes.append(
                Note(
                    time=self._clock.wall_time(),
                    generation=self._generation,
                    event=event,
                    checkpoint_id=checkpoint_id,
                    message=message,
                    details=text,
                )
            )
            due = len(self._notes) >= _BATCH or now - self._last_write >= _BATCH_MS
            self._keep_waiting()
        if due:
            self.flush()

    def flush(self) -> None:
        """Write the waiting notes; also called at the end of the job."""
        with self._lock:
            notes, self._notes = self._notes, []
            self._last_write = self._clock.monotonic()
            if not notes:
                return
            try:
                self._append(notes)
            except Exception:
                _log.warning("%d notes about the job could not be written to %s.", len(notes), self.root, exc_info=True)

    @panics_as_errors()
    def _left_waiting(self) -> list[Note]:
        """Return the notes that an earlier process, which was killed, has left."""
        return _open(self.root, self._files)[1] if self._files.exists(WAITING) else []

    def _keep_waiting(self) -> None:
        """Write the waiting notes to their file, for the case that the process is killed."""
        batch = _Batch(generation=self._generation, number=self._batches, notes=self._notes)
        try:
            self._files.refuse_links()
            self._files.make_root(sync=False)
            self._files.replace(WAITING, msgspec.json.encode(batch), sync=False)
        except (OSError, CorruptCheckpointError):
            _log.debug("The waiting notes about the job could not be written to %s.", self.root, exc_info=True)

    @panics_as_errors()
    def _append(self, notes: list[Note]) -> None:
        table = pa.Table.from_pylist([asdict(note) for note in notes], schema=_SCHEMA)
        self._files.refuse_links()
        if isinstance(self.root, Path):
            paths.check_log(self.root)
            self.root.parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(
            str(self.root),
            table,
            mode="append",
            name="flinkish history",
            configuration=_PROPERTIES,
            storage_options=dict(self._files.delta_options),
            commit_properties=CommitProperties(app_transactions=[Transaction(_application(self._generation), self._batches)]),
        )
        self._batches += 1
        with suppress(FileNotFoundError):
            self._files.remove(WAITING)
        if self._batches % self._batches_per_compaction == 0:
            self._compact()

    def _compact(self) -> None:
        """Rewrite the table as one file with the newest rows."""
        table = DeltaTable(str(self.root), storage_options=dict(self._files.delta_options))
        rows = rows_of(table, self.root).sort_by("time")
        rows = rows.slice(max(0, rows.num_rows - self._kept_rows))
        write_deltalake(
            table,
            rows,
            mode="overwrite",
            commit_properties=CommitProperties(custom_metadata={"flinkish.compaction": "true"}),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=True),
        )
        table.update_incremental()
        # Old versions of this table are not needed. vacuum() is not used, because it follows links when deleting.
        kept = set(pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist())
        for name in self._files.names():
            if name.endswith(".parquet") and name not in kept:
                self._files.remove(name)
        table.create_checkpoint()
        table.cleanup_metadata()


def jobs_with_history(directory: str) -> list[str]:
    """Return the ids of the jobs that have a history below a checkpoint directory, in order.

    Raises ConfigurationError if there is no such directory.
    """
    root = paths.table_root(directory, key=_KEY)
    files = files_at(root)
    if not files.is_folder():
        raise ConfigurationError(f"{_KEY}: there is no folder {root}", hint="--dir names the folder of the checkpoints.")
    return sorted(name for name in files.names() if any(files.exists(f"{name}/history/{each}") for each in (paths.LOG, WAITING)))


@panics_as_errors()
def read_history(directory: str, job_id: str) -> list[Note]:
    """Return the events of a job, oldest first; empty if it has no history. Raises CorruptCheckpointError for a damaged table."""
    root = paths.job_folder(paths.table_root(directory, key=_KEY), job_id) / "history"
    try:
        table, waiting = _open(root, files_at(root))
        rows = [] if table is None else rows_of(table, root).select(_SCHEMA.names).sort_by("time").to_pylist()
    except (DeltaError, OSError, msgspec.MsgspecError) as error:
        raise CorruptCheckpointError(f"the history {root} cannot be read: {error}") from error
    return [*(Note(**{**row, "time": round(row["time"].timestamp() * 1000)}) for row in rows), *waiting]
