"""The registry: a Delta table of programs and jobs, one small signed file for each entry, which only the leader may change.

As for checkpoints, each commit has the transaction number `generation * 10^9 + sequence`: a Dispatcher that takes over commits a
higher generation, and from then on the commits of all earlier ones fail (`checkpoint/fencing.py`).
"""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping
from pathlib import PurePath

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.checkpoint import fencing
from flinkish.checkpoint.delta_log import STATE_SCHEMA, DeltaLog
from flinkish.checkpoint.fencing import Committed, TakenOver, Transaction
from flinkish.checkpoint.job_table import JobTable, brief
from flinkish.checkpoint.signing import Signature, SigningKey
from flinkish.common import options
from flinkish.common.clock import Clock
from flinkish.common.errors import (
    CorruptCheckpointError,
    ForeignCheckpointError,
    RegistryError,
    StaleGenerationError,
)
from flinkish.common.ids import CheckpointId, Generation
from flinkish.server.session.entries import Entry, JobEntry, ProgramEntry, key_of

_log = logging.getLogger("flinkish.server.session")

FOLDER = "registry"
_ENTRIES = "entries"
#: The application of the table's transactions.
_APPLICATION = "session"
#: Maximum size of an entry's file in bytes.
_LIMIT = 16 << 20
_ROWS = 2


class Registry:
    """The table of one session, claimed by one Dispatcher; its callers hold a lock."""

    def __init__(self, root: PurePath, key: SigningKey, clock: Clock) -> None:
        self._key = key
        self._clock = clock
        self._table = JobTable(root / FOLDER, _APPLICATION, key, option=options.HA_STORAGE_PATH.key)
        self._log: DeltaLog | None = None
        self._sequence = 0
        self._summarized = 0
        #: The file of each entry with its size, by key.
        self._files: dict[str, tuple[str, int]] = {}
        #: Files that are or are not in the table, because what became of their commits is not known.
        self._unknown: list[str] = []
        self._unsettled = False
        self.generation = Generation(0)

    def claim(self) -> dict[str, Entry]:
        """Take over the registry from any other Dispatcher, and return its entries by key.

        Raises RegistryError if the table cannot be written, CorruptCheckpointError if an entry is damaged, ForeignCheckpointError
        if an entry was signed by another key.
        """
        failure: Exception = OSError("other Dispatchers were quicker each time")
        entries: dict[str, Entry] = {}
        for _ in range(fencing.CLAIM_TRIES):
            log = self._table.open_or_create(Generation(0), time=self._clock.wall_time(), sync=True)
            try:
                # Before the claim: a Dispatcher that cannot read the entries must not take the lead from one that can.
                entries = {path: entries.get(path) or self._read(path) for path in log.files()}
            except CorruptCheckpointError as error:
                before = set(log.files())
                log.refresh()
                if set(log.files()) == before:
                    raise
                # The leader is still there, and has just replaced an entry.
                failure = error
                continue
            wanted = fencing.claim(log.transaction(_APPLICATION))
            try:
                log.note_transaction(_APPLICATION, wanted.number, {})
            except Exception as error:
                # Another Dispatcher may have been quicker, with the same number: it alone has this generation. If only the answer
                # was lost, the next try takes a higher one.
                failure = error
                continue
            log.refresh()
            if log.transaction(_APPLICATION) == wanted.number:
                break
        else:
            raise RegistryError(f"the registry {self._table.root} cannot be claimed: {brief(failure)}")
        self._log, self.generation, self._sequence = log, wanted.generation, wanted.checkpoint_id
        self._summarized = log.version
        found: dict[str, Entry] = {}
        for path, size in log.files().items():
            entry = entries.get(path) or self._read(path)
            found[key_of(entry)] = entry
            self._files[key_of(entry)] = (path, size)
        return found

    def put(self, entry: Entry) -> None:
        """Store an entry. Raises StaleGenerationError if another Dispatcher leads, RegistryError if it cannot be stored."""
        key = key_of(entry)
        self._sequence += 1
        path = f"{_ENTRIES}/{key}-{self.generation}-{self._sequence}.parquet"
        content = _rows(entry, self._key)
        try:
            self._table.files.make_folders(_ENTRIES)
            with self._table.files.create(path) as file:
                file.write(content)
                file.sync()
        except OSError as error:
            raise self._failed(error) from error
        before = self._files.get(key)
        self._commit({**self._files, key: (path, len(content))}, new=path)
        if before is not None:
            self._table.delete([before[0]])

    def remove(self, key: str) -> None:
        """Remove an entry; raises the same errors as `put`."""
        if key in self._files:
            self._sequence += 1
            before = self._files[key]
            self._commit({other: file for other, file in self._files.items() if other != key})
            self._table.delete([before[0]])

    def settle(self) -> None:
        """Undo commits that may have arrived although their callers got an error; raises the same errors as `put`.

        Otherwise, the next Dispatcher might find an entry that was not stored according to this one.
        """
        if self._unsettled:
            self._sequence += 1
            self._commit(self._files)

    def _commit(self, files: Mapping[str, tuple[str, int]], *, new: str | None = None) -> None:
        """Replace the files of the table by `files`; `new` is deleted if it has certainly not become a part of the table."""
        log = self._log
        assert log is not None, "not claimed"
        own = Transaction(self.generation, CheckpointId(self._sequence))
        failure: Exception | None = None
        try:
            log.refresh()
            self._table.refuse_stale(log, self.generation)
            listed = {path: (size, _ROWS) for path, size in files.values()}
            log.replace_files(listed, _APPLICATION, own.number, {}, time=self._clock.wall_time())
        except StaleGenerationError:
            raise
        except Exception as error:
            failure = error
        try:
            log.refresh()
            outcome = fencing.outcome(
                found=log.transaction(_APPLICATION),
                named=set(log.files()) == {path for path, _ in files.values()},
                own=own,
            )
        except Exception as error:
            # The commit may have arrived: a file that was deleted then would be missing in the table.
            self._unsettled = True
            self._unknown += [] if new is None else [new]
            raise self._failed(failure or error) from error
        match outcome:
            case Committed():
                self._files = dict(files)
                self._table.delete([path for path in self._unknown if path not in log.files()])
                self._unknown, self._unsettled = [], False
                self._clean(log)
            case TakenOver(by=by):
                raise self._table.taken_over(by, self.generation)
            case _:
                if new is not None:
                    self._table.delete([new])
                raise self._failed(failure or OSError("the commit was refused"))

    def _clean(self, log: DeltaLog) -> None:
        try:
            self._table.files.sync_log(log.version - 1)
            self._summarized = self._table.clean_log(log, summarized=self._summarized, oldest_needed=log.version, sync=True)
        except Exception:
            _log.warning("The log of the registry %s could not be cleaned.", self._table.root, exc_info=True)

    def _failed(self, error: Exception) -> RegistryError:
        return RegistryError(
            f"the registry {self._table.root} cannot be written: {brief(error)}",
            hint="check the space and the permissions of high-availability.storageDir.",
        )

    def _read(self, path: str) -> Entry:
        where = f"registry {self._table.root}: {path}"
        try:
            content = self._table.files.read(path, limit=_LIMIT)
            row = pq.read_table(io.BytesIO(content), columns=["state_name", "key", "value", "key_json"]).to_pylist()
            values = {each["state_name"]: each for each in row}
            data = values["entry"]["value"]
            signature = Signature(values["signature"]["key"].decode(), values["signature"]["value"])
        except (pa.ArrowException, OSError, KeyError, AttributeError, ValueError) as error:
            raise CorruptCheckpointError(f"{where} cannot be read: {type(error).__name__}: {error}") from error
        if not self._key.verify(data, signature):
            raise ForeignCheckpointError(
                f"{where} was not signed by our key ({self._key.path})",
                hint="all Dispatchers of a session need the same key in security.checkpoint.hmac-key-file; if they have it, the "
                "storage was tampered with.",
            )
        try:
            return msgspec.json.decode(data, type=ProgramEntry | JobEntry)
        except msgspec.MsgspecError as error:
            raise CorruptCheckpointError(f"{where} was written by another version: {error}") from error


def _rows(entry: Entry, key: SigningKey) -> bytes:
    """Return a Parquet file with an entry, its signature, and a part of it that is readable with SQL."""
    data = msgspec.json.encode(entry)
    signature = key.sign(data)
    common = {"operator_uid": key_of(entry), "state_kind": "session", "key_group": -1, "checkpoint_id": 0}
    rows = [
        {**common, "state_name": "entry", "value": data, "value_json": _readable(entry)},
        {**common, "state_name": "signature", "key": signature.key_id.encode(), "value": signature.mac},
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=STATE_SCHEMA), buffer, compression="zstd")
    return buffer.getvalue()


def _readable(entry: Entry) -> str:
    """Return the readable part of an entry, without arguments and properties, which may contain secrets."""
    if isinstance(entry, ProgramEntry):
        return msgspec.json.encode({"program": entry.name, "uploaded": entry.uploaded}).decode()
    shown = {"program": entry.program.name, "submitted": entry.submitted, "status": entry.status, "ended": entry.ended}
    return msgspec.json.encode(shown).decode()
