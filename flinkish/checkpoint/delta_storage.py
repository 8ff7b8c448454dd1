"""Checkpoints of a job as versions of one Delta table.

A commit is, in this order:

1. the tasks have written state files into a folder that only this checkpoint of this generation uses;
2. the manifest is written beside them, under a name that holds its hash;
3. ONE Delta commit replaces the files of the table by these, with the transaction (job id -> generation * 10^9 + checkpoint id),
   through a handle that saw no newer generation; any version that came in between refuses it;
4. the table is opened anew: only if it now stands at our transaction and names our manifest, the checkpoint is complete;
5. the marker of the newest version is moved.

Whatever fails before 3 leaves files that nobody names; a later clean-up removes them. If 3 reports an error, 4 tells what
happened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import platform
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from flinkish.checkpoint import cleaning, paths
from flinkish.checkpoint.checkpoint_files import (
    Latest,
    copy_verified,
    count_rows,
    manifest_rows,
    read_manifest,
    read_newest,
    write_latest,
)
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.manifest import CheckpointKind, CheckpointReference, Manifest, sha256
from flinkish.checkpoint.signing import KEY_OPTION, SigningKey
from flinkish.checkpoint.storage import CheckpointDraft, CheckpointLocation, StoredCheckpoint
from flinkish.common import safe_files
from flinkish.common.clock import Clock
from flinkish.common.delta_calls import sync_log
from flinkish.common.disk import make_folders, sync
from flinkish.common.errors import (
    CheckpointError,
    CommitOutcomeUnknownError,
    ConfigurationError,
    CorruptCheckpointError,
    FlinkishError,
    ForeignCheckpointError,
    StaleGenerationError,
)
from flinkish.common.ids import CheckpointId, Generation, IdSource, LineageId
from flinkish.runtime import faults
from flinkish.runtime.protocol import StateFile

_log = logging.getLogger(__name__)

#: Transaction = generation * this + checkpoint id; both fit into the 63 bits of a Delta transaction.
_IDS_PER_GENERATION = 10**9
#: A summary of the log is written after so many versions, and the log before the last needed one is deleted.
_VERSIONS_PER_SUMMARY = 10
#: Drivers that start at once get in each other's way when they claim; each try of one of them succeeds.
_CLAIM_TRIES = 20
#: So many tries in a row that fail although nobody else was quicker: then it is the storage.
_LONELY_TRIES = 3
#: Written to a folder for a savepoint before the job is stopped for it.
_PROBE = "probe"
_PROBE_BYTES = 1 << 16
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_LONGEST_ERROR = 500


class DeltaCheckpointStorage:
    """Keeps the checkpoints of one job in `<directory>/<job id>/state`. Implements CheckpointStorage."""

    def __init__(
        self,
        directory: str | Path,
        job_id: str,
        *,
        lineage: LineageId,
        signing_key: SigningKey,
        clock: Clock,
        ids: IdSource,
        num_retained: int = 1,
        durable: bool = True,
        delta_log: type[DeltaLog] = DeltaLog,
    ) -> None:
        """`directory` is execution.checkpointing.dir, which every task must reach. `lineage` is for a job that begins here.

        With `durable` files are synced to the disk before they are relied on. `delta_log` is for tests.
        Raises ConfigurationError for a directory that cannot be used, or that holds the signing key.
        """
        base = paths.table_path(str(directory), key="execution.checkpointing.dir")
        if signing_key.path is not None and Path(os.path.realpath(signing_key.path)).is_relative_to(os.path.realpath(base)):
            raise ConfigurationError(
                f"execution.checkpointing.dir = {base} holds the signing key {signing_key.path}",
                hint="keep the key outside: whoever can write checkpoints could sign them.",
            )
        if num_retained < 1:
            raise ConfigurationError(f"execution.checkpointing.num-retained = {num_retained}: expected at least 1")
        self._root = paths.job_folder(base, job_id) / "state"
        self._job_id = job_id
        self._lineage = lineage
        self._key = signing_key
        self._clock = clock
        self._ids = ids
        self._num_retained = num_retained
        self._durable = durable
        self._delta_log = delta_log
        self._handle: DeltaLog | None = None
        self._generation = Generation(0)
        self._last_id = CheckpointId(0)
        self._retained: list[StoredCheckpoint] = []
        # checkpoints whose commit may or may not have happened; their files stay until a later one has completed
        self._unknown: set[CheckpointId] = set()
        self._savepoints: set[str] = set()
        self._summarized = 0
        #: Version up to which the log is on the disk.
        self._synced = -1

    # -- taking over -------------------------------------------------------------------------------------------------------

    def peek(self) -> StoredCheckpoint | None:
        """See CheckpointStorage.peek."""
        if self._open() is None:
            self._refuse_lost_log()
            return None
        log, current = self._read_current(self._reopen)
        self._check_transaction(log, current)
        if current is not None:
            self._lineage = current.manifest.lineage
        return current

    def _reopen(self) -> DeltaLog:
        log = self._open()
        if log is None:
            raise CheckpointError(f"checkpoint table {self._root} was removed while it was read")
        return log

    def claim(self) -> Generation:
        """See CheckpointStorage.claim."""
        versions: list[int] = []
        for _ in range(_CLAIM_TRIES):
            log, current = self._read_current(self._open_or_create)
            self._check_transaction(log, current)
            versions.append(log.version)
            generation, last_id = divmod(log.transaction(self._job_id) or 0, _IDS_PER_GENERATION)
            transaction = (generation + 1) * _IDS_PER_GENERATION + last_id
            try:
                log.note_transaction(self._job_id, transaction, {"flinkish.generation": str(generation + 1)})
            except Exception as error:  # somebody else was quicker, or it is not known: the next try takes a higher generation
                if versions[-_LONELY_TRIES:] == [log.version] * _LONELY_TRIES:
                    raise CheckpointError(
                        f"execution.checkpointing.dir: {self._root} cannot be written: {_brief(error)}",
                        hint="check the folder's permissions and space.",
                    ) from error
                _log.info("Claiming job %s failed and is tried again: %s", self._job_id, _brief(error))
                continue
            fresh = self._open_or_create()
            if fresh.transaction(self._job_id) != transaction:
                continue
            try:
                self._sync_log()
            except OSError as error:
                raise CheckpointError(
                    f"execution.checkpointing.dir: it is not known whether the disk keeps {self._root}: {error}",
                    hint="check the disk.",
                ) from error
            self._handle = fresh
            self._generation = Generation(generation + 1)
            self._retained = [*self._read_previous(current), current] if current else []
            if current is not None:
                self._lineage = current.manifest.lineage
            self._last_id = CheckpointId(max(last_id, current.checkpoint_id if current else 0, *self._ids_of_folders(), 0))
            self._note_latest(fresh)
            self._summarized = 0
            return self._generation
        raise CheckpointError(
            f"job {self._job_id}: {self._root} could not be claimed in {_CLAIM_TRIES} tries",
            hint="several driver processes seem to start for the same high-availability.cluster-id; stop all but one.",
        )

    def _open(self) -> DeltaLog | None:
        """Open the newest version of the table; None if there is none."""
        try:
            paths.refuse_links(self._root.parent, self._root)
            return self._delta_log.open(self._root)
        except FlinkishError:
            raise
        except OSError as error:
            raise self._unusable(error) from error
        except Exception as error:
            raise CorruptCheckpointError(
                f"checkpoint table {self._root}: its Delta log cannot be read: {_brief(error)}",
                hint="restore from a savepoint, or remove the table to start from nothing.",
            ) from error

    def _open_or_create(self) -> DeltaLog:
        log = self._open()
        if log is not None:
            return log
        self._refuse_gone()
        try:
            self._make_folder(self._root)
        except OSError as error:
            raise self._unusable(error) from error
        self._refuse_lost_log()
        failure: Exception | None = None
        try:
            self._delta_log.create(self._root, {}, {}, time=self._clock.wall_time())
        except Exception as error:  # made by somebody else meanwhile: then it opens now
            failure = error
        log = self._open()
        if log is not None:
            return log
        if isinstance(failure, OSError):
            raise self._unusable(failure) from failure
        if failure is not None:
            raise CheckpointError(f"checkpoint table {self._root} cannot be made: {_brief(failure)}") from failure
        raise CheckpointError(f"checkpoint table {self._root} was removed while it was opened")

    def _unusable(self, error: OSError) -> CheckpointError:
        return CheckpointError(
            f"execution.checkpointing.dir: {self._root} cannot be used: {error}", hint="check the folder's permissions and space."
        )

    def _refuse_lost_log(self) -> None:
        if (self._root / paths.LATEST).exists():
            raise CorruptCheckpointError(
                f"checkpoint table {self._root}: its folder {paths.LOG} is missing",
                hint="restore from a savepoint, or remove the table to start from nothing.",
            )

    def _read_current(self, open_log: Callable[[], DeltaLog]) -> tuple[DeltaLog, StoredCheckpoint | None]:
        log, current = read_newest(self._root, open_log, self._key)
        if current is not None and current.manifest.job_id != self._job_id:
            raise CorruptCheckpointError(
                f"checkpoint table {self._root}: it holds a checkpoint of job {current.manifest.job_id}, not of {self._job_id}",
                hint="start from it with execution.state-recovery.path and let the job have a folder of its own.",
            )
        if current is not None and not current.trusted:
            raise ForeignCheckpointError(
                f"checkpoint table {self._root}: its newest checkpoint {current.checkpoint_id} was signed by another key than "
                f"ours ({self._key.path or 'no file'}); the job does not go on from it",
                hint=f"give the job the key that it had, in {KEY_OPTION}. If that one is lost, start another job, with another "
                f"high-availability.cluster-id, from {current.external_path} with execution.state-recovery.path and "
                "execution.state-recovery.allow-untrusted. If nobody changed the key, the storage was tampered with.",
            )
        return log, current

    def _check_transaction(self, log: DeltaLog, current: StoredCheckpoint | None) -> None:
        if current is None:
            return
        least = current.manifest.generation * _IDS_PER_GENERATION + current.checkpoint_id
        got = log.transaction(self._job_id)
        if got is None or got < least:
            raise CorruptCheckpointError(
                f"checkpoint table {self._root}: its log has transaction {got} of job {self._job_id}, expected at least {least}",
                hint="the Delta log was damaged; restore from a savepoint.",
            )

    def _read_previous(self, current: StoredCheckpoint) -> list[StoredCheckpoint]:
        previous = []
        for reference in current.manifest.previous[max(0, len(current.manifest.previous) - self._num_retained + 1) :]:
            where = f"checkpoint table {self._root} checkpoint {reference.checkpoint_id}"
            manifest, trusted = read_manifest(self._root, reference.manifest_path, self._key, size=None, where=where)
            previous.append(
                StoredCheckpoint(
                    manifest=manifest,
                    root=self._root,
                    version=reference.version,
                    manifest_path=reference.manifest_path,
                    trusted=trusted,
                )
            )
        return previous

    def _ids_of_folders(self) -> Iterator[CheckpointId]:
        for entry in self._root.iterdir():
            folder = paths.parse_folder(entry.name)
            if folder is not None:
                yield folder.checkpoint_id

    # -- what is there -----------------------------------------------------------------------------------------------------

    @property
    def root(self) -> Path:
        """Folder of the Delta table."""
        return self._root

    @property
    def generation(self) -> Generation:
        """See CheckpointStorage.generation."""
        return self._generation

    @property
    def lineage(self) -> LineageId:
        """See CheckpointStorage.lineage."""
        return self._lineage

    def check_generation(self) -> None:
        """See CheckpointStorage.check_generation."""
        self._current_handle()

    @property
    def last_id(self) -> CheckpointId:
        """See CheckpointStorage.last_id."""
        return self._last_id

    def retained(self) -> Sequence[StoredCheckpoint]:
        """See CheckpointStorage.retained."""
        return tuple(self._retained)

    def latest(self) -> StoredCheckpoint | None:
        """See CheckpointStorage.latest. Reads the table again: what was good when it was written may be damaged now."""
        self._refuse_gone()
        log, current = self._read_current(self._open_or_create)
        self._refuse_stale(log)
        return current

    # -- writing -----------------------------------------------------------------------------------------------------------

    def prepare(self, checkpoint_id: CheckpointId, savepoint_target: str | None) -> CheckpointLocation:
        """See CheckpointStorage.prepare."""
        self._current_handle()
        name = paths.folder_name(checkpoint_id, self._generation)
        folder = self._root / name
        # made for savepoints as well: a folder's name is what is left of an id that was used, if the process ends here
        folder.mkdir()
        self._last_id = max(self._last_id, checkpoint_id)
        root = self._root
        if savepoint_target is not None:
            root = self._make_savepoint_folder(savepoint_target)
            folder = root / name
            folder.mkdir()
        return CheckpointLocation(directory=str(folder), root=str(root))

    def _make_savepoint_folder(self, target: str) -> Path:
        base = paths.table_path(target, key="savepoint directory")
        root = base / f"savepoint-{self._job_id[:6]}-{self._ids()[:12]}"
        self._make_folder(base)
        root.mkdir()
        self._sync(base)
        self._savepoints.add(str(root))
        return root

    def commit(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """See CheckpointStorage.commit."""
        faults.reach(faults.Point.STATE_WRITTEN)
        log = self._current_handle()
        previous = self._retained[-(self._num_retained - 1) :] if self._num_retained > 1 else []
        references = tuple(
            CheckpointReference(checkpoint_id=old.checkpoint_id, version=old.version, manifest_path=old.manifest_path)
            for old in previous
        )
        manifest = self._manifest(draft, references)
        path, files = self._write_manifest(manifest, Path(draft.location.root))
        faults.reach(faults.Point.MANIFEST_WRITTEN)
        transaction = self._generation * _IDS_PER_GENERATION + draft.checkpoint_id
        details = {"flinkish.checkpoint": str(draft.checkpoint_id), "flinkish.generation": str(self._generation)}
        failure: Exception | None = None
        try:
            log.replace_files(files, self._job_id, transaction, details, time=self._clock.wall_time())
        except Exception as error:
            failure = error
        log = self._outcome(draft.checkpoint_id, transaction, path, failure)
        self._handle = log
        stored = StoredCheckpoint(manifest=manifest, root=self._root, version=log.version, manifest_path=path, trusted=True)
        self._retained = [*previous, stored]
        self._unknown.clear()
        try:
            self._sync_log()
        except OSError as error:
            self._unknown.add(draft.checkpoint_id)
            raise CommitOutcomeUnknownError(
                f"checkpoint {draft.checkpoint_id} of job {self._job_id} was committed, "
                f"but it is not known whether the disk keeps it: {error}"
            ) from error
        self._note_latest(log)
        faults.reach(faults.Point.CHECKPOINT_COMMITTED)
        return stored

    def _outcome(self, checkpoint_id: CheckpointId, transaction: int, manifest_path: str, failure: Exception | None) -> DeltaLog:
        """Look at the table to learn whether a commit happened; returns a handle at it if it did, else raises."""
        try:
            log = self._delta_log.open(self._root)
            found = None if log is None else log.transaction(self._job_id)
            named = log is not None and manifest_path in log.files()
        except Exception as error:
            self._withdraw_lone_entry()
            self._refuse_gone()
            self._unknown.add(checkpoint_id)
            raise CommitOutcomeUnknownError(
                f"checkpoint {checkpoint_id} of job {self._job_id}: it is not known whether its commit to {self._root} happened: "
                f"{_brief(failure or error)}; reading the table failed: {_brief(error)}",
                hint="nothing was deleted; the next checkpoint or restart finds out.",
            ) from (failure or error)
        if log is not None and found == transaction and named:
            if failure is not None:
                _log.warning("Checkpoint %d of job %s was committed, although an error came back.", checkpoint_id, self._job_id)
            return log
        if log is not None:
            self._refuse_stale(log)
        self._refuse_gone()
        raise CheckpointError(
            f"checkpoint {checkpoint_id} of job {self._job_id}: its commit to {self._root} was refused: "
            f"{_brief(failure) if failure else f'the table has transaction {found}, expected {transaction}'}"
        ) from failure

    def commit_savepoint(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """See CheckpointStorage.commit_savepoint."""
        faults.reach(faults.Point.STATE_WRITTEN)
        self._current_handle()
        manifest = self._manifest(draft, ())
        return self._write_savepoint(Path(draft.location.root), manifest)

    def prepare_export(self, target: str) -> str:
        """See CheckpointStorage.prepare_export."""
        root = self._make_savepoint_folder(target)
        try:
            with safe_files.create_file(root, _PROBE) as probe:
                probe.write(bytes(_PROBE_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
            safe_files.remove_file(root, _PROBE)
        except OSError:
            self.discard(CheckpointLocation(directory=str(root), root=str(root)))
            raise
        return str(root)

    def export_savepoint(self, checkpoint: StoredCheckpoint, folder: str) -> StoredCheckpoint:
        """See CheckpointStorage.export_savepoint."""
        root = Path(folder)
        try:
            for file in checkpoint.manifest.files:
                safe_files.make_folders(root, os.path.dirname(file.path))
                copy_verified(checkpoint, file, root)
            for inside in {os.path.dirname(file.path) for file in checkpoint.manifest.files}:
                self._sync(root / inside)
            manifest = dataclasses.replace(checkpoint.manifest, kind=CheckpointKind.STOP_SAVEPOINT, committables=(), previous=())
            (root / paths.folder_name(manifest.checkpoint_id, manifest.generation)).mkdir(exist_ok=True)
            return self._write_savepoint(root, manifest)
        except CommitOutcomeUnknownError:
            raise
        except Exception:
            self.discard(CheckpointLocation(directory=str(root), root=str(root)))
            raise

    def _write_savepoint(self, root: Path, manifest: Manifest) -> StoredCheckpoint:
        path, files = self._write_manifest(manifest, root)
        faults.reach(faults.Point.MANIFEST_WRITTEN)
        details = {"flinkish.savepoint": str(manifest.checkpoint_id), "flinkish.job": self._job_id}
        failure: Exception | None = None
        try:
            self._delta_log.create(root, files, details, time=self._clock.wall_time())
        except Exception as error:
            failure = error
        try:
            log = self._delta_log.open(root)
            named = log is not None and path in log.files()
        except Exception as error:
            raise CommitOutcomeUnknownError(
                f"savepoint {root}: it is not known whether it was written: {_brief(failure or error)}"
            ) from error
        if not named:
            raise CheckpointError(f"savepoint {root} could not be written: {_brief(failure)}") from failure
        if self._durable:
            sync_log(root, -1)
        self._savepoints.discard(str(root))
        return StoredCheckpoint(manifest=manifest, root=root, version=0, manifest_path=path, trusted=True)

    def _manifest(self, draft: CheckpointDraft, previous: tuple[CheckpointReference, ...]) -> Manifest:
        root = Path(draft.location.root)
        for file in draft.files:
            self._check_written(root, draft.location, file)
        return Manifest(
            job_id=self._job_id,
            lineage=self._lineage,
            generation=self._generation,
            checkpoint_id=draft.checkpoint_id,
            kind=draft.kind,
            trigger_time=draft.trigger_time,
            completion_time=self._clock.wall_time(),
            coordinator=draft.coordinator,
            committables=draft.committables,
            files=tuple(sorted(draft.files, key=lambda file: file.path)),
            previous=previous,
            written_by={"flinkish": _version(), "python": platform.python_version()},
        )

    def _check_written(self, root: Path, location: CheckpointLocation, file: StateFile) -> None:
        inside = Path(location.directory).relative_to(root).as_posix()
        if not paths.is_safe(file.path) or not file.path.startswith(f"{inside}/"):
            raise CheckpointError(f"a task acknowledged the state file {file.path!r}, which is not in its folder {inside}")
        with safe_files.open_file(root, file.path) as stream:
            size = os.fstat(stream.fileno()).st_size
        if size != file.size:
            raise CheckpointError(f"a task acknowledged {file.path} with {file.size} bytes, it has {size}")
        self._sync(root / file.path)

    def _write_manifest(self, manifest: Manifest, root: Path) -> tuple[str, Mapping[str, tuple[int, int]]]:
        """Write the manifest and return its path with all files of the checkpoint, by path: size and rows."""
        content = manifest_rows(manifest, self._key)
        folder = paths.folder_name(manifest.checkpoint_id, manifest.generation)
        path = paths.manifest_name(folder, sha256(content))
        with safe_files.create_file(root, path) as stream:
            stream.write(content)
        self._sync(root / path)
        self._sync(root / folder)
        self._sync(root)
        files = {file.path: (file.size, file.rows) for file in manifest.files}
        if len(files) != len(manifest.files):
            raise CheckpointError(f"checkpoint {manifest.checkpoint_id}: two tasks acknowledged a state file of the same name")
        return path, {**files, path: (len(content), count_rows(manifest))}

    # -- fencing -----------------------------------------------------------------------------------------------------------

    def _current_handle(self) -> DeltaLog:
        """Return a handle at the newest version, after making sure that nobody has taken over."""
        if self._handle is None:
            raise CheckpointError(f"checkpoint table {self._root} was not claimed")
        self._refuse_gone()
        try:
            self._handle.refresh()
        except Exception:  # a handle that fell behind a cleaned log cannot follow; a new one can
            self._handle = self._open_or_create()
        self._refuse_stale(self._handle)
        return self._handle

    def _refuse_gone(self) -> None:
        """Refuse to make the table anew after it was claimed: the job would begin from nothing, and repeat what it did."""
        paths.refuse_links(self._root.parent, self._root, self._root / paths.LOG)
        if self._generation > 0 and not (self._root / paths.LOG).is_dir():
            raise StaleGenerationError(
                f"job {self._job_id}: its checkpoints in {self._root} are gone, this driver process is generation "
                f"{self._generation}",
                hint="another driver process has taken over the job and ended it, or the folder was removed; this one must end.",
            )

    def _withdraw_lone_entry(self) -> None:
        """Remove a log that holds only our last commit: on its way when the table was deleted, it made the folder anew."""
        if self._handle is None:
            return
        entry = f"{paths.LOG}/{self._handle.version + 1:020}.json"
        with contextlib.suppress(OSError):
            if list(safe_files.files_below(self._root, paths.LOG)) == [entry]:
                safe_files.remove_file(self._root, entry)
                safe_files.remove_empty_folders(self._root, paths.LOG)
                self._root.rmdir()

    def _refuse_stale(self, log: DeltaLog) -> None:
        found = (log.transaction(self._job_id) or 0) // _IDS_PER_GENERATION
        if found != self._generation:
            raise StaleGenerationError(
                f"job {self._job_id}: {self._root} belongs to generation {found} now, this driver process is generation "
                f"{self._generation}",
                hint="another driver process has taken over the job; this one must end.",
            )

    # -- removing ----------------------------------------------------------------------------------------------------------

    def discard(self, location: CheckpointLocation) -> None:
        """See CheckpointStorage.discard."""
        if location.root in self._savepoints:
            # made by us, under a random name, and never completed
            shutil.rmtree(location.root, ignore_errors=True)
            self._savepoints.discard(location.root)
            return
        folder = Path(location.directory)
        named = paths.parse_folder(folder.name)
        if folder.parent != self._root or named is None or named.generation != self._generation:
            return
        if named.checkpoint_id in self._unknown or any(old.checkpoint_id == named.checkpoint_id for old in self._retained):
            return
        # the empty folder stays: its name says that the id was used
        with contextlib.suppress(OSError, CorruptCheckpointError):
            paths.refuse_links(self._root.parent, self._root)
            self._delete(self._root, list(safe_files.files_below(self._root, folder.name)))

    def discard_files(self, location: CheckpointLocation, files: Collection[StateFile]) -> None:
        """See CheckpointStorage.discard_files."""
        self._delete(Path(location.root), [file.path for file in files if paths.is_safe(file.path)])

    def clean_up(self, in_use: Collection[CheckpointId]) -> int:
        """See CheckpointStorage.clean_up."""
        if not (self._root / paths.LOG).is_dir():
            return 0  # the table is gone; what comes next is refused
        try:
            paths.refuse_links(self._root.parent, self._root)
            found = {
                folder: tuple(safe_files.files_below(self._root, name))
                for name in sorted(os.listdir(self._root))
                if (folder := paths.parse_folder(name)) is not None
            }
            removal = cleaning.plan(
                found,
                retained=[
                    (old.checkpoint_id, {old.manifest_path, *(file.path for file in old.manifest.files)})
                    for old in self._retained
                ],
                in_use={*in_use, *self._unknown},
                generation=self._generation,
            )
            deleted = self._delete(self._root, removal.files)
            for folder in removal.folders:
                self._remove_empty(paths.folder_name(*folder))
            self._delete(self._root, [name for name in os.listdir(self._root) if self._is_old_draft(name)])
            self._clean_log()
        except Exception:  # cleaning is tried again after the next checkpoint
            _log.warning("Cleaning up %s failed.", self._root, exc_info=True)
            return 0
        return deleted

    def _clean_log(self) -> None:
        """Delete the entries of the Delta log that no retained checkpoint needs."""
        if self._handle is None or not self._retained:
            return
        version = self._handle.version
        if version - self._summarized < _VERSIONS_PER_SUMMARY:
            return
        self._handle.write_checkpoint()
        if self._durable:
            sync_log(self._root, version - 1)
        self._summarized = version
        names = [entry.name for entry in (self._root / paths.LOG).iterdir()]
        obsolete = cleaning.obsolete_log_entries(names, oldest_needed=self._retained[0].version)
        self._delete(self._root, [f"{paths.LOG}/{name}" for name in obsolete])

    def _is_old_draft(self, name: str) -> bool:
        """Tell whether a file is what a killed driver was about to name `_latest.json`; none of ours is being written now."""
        generation = paths.parse_draft(name)
        return generation is not None and generation <= self._generation

    @staticmethod
    def _delete(root: Path, files: Collection[str]) -> int:
        """Delete files, by their paths relative to a table, and return how many."""
        deleted = 0
        for file in files:
            faults.reach(faults.Point.DELETING)
            try:
                safe_files.remove_file(root, file)
                deleted += 1
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.warning("%s could not be deleted and stays for the next clean-up: %s", root / file, error)
        return deleted

    def _remove_empty(self, folder: str) -> None:
        try:
            safe_files.remove_empty_folders(self._root, folder)
        except OSError:  # a late task has written into it: the next clean-up finds that
            _log.debug("%s is not empty yet.", self._root / folder)

    def delete_all(self) -> None:
        """See CheckpointStorage.delete_all."""
        try:
            paths.refuse_links(self._root.parent, self._root)
            log = self._delta_log.open(self._root)
            if log is not None:
                self._refuse_stale(log)
            (self._root / paths.LATEST).unlink(missing_ok=True)
            # in one step from a whole table to none: half a table would look like a damaged one
            if log is not None:
                gone = self._root / f"_deleted-{self._ids()[:12]}"
                os.rename(self._root / paths.LOG, gone)
            self._handle = None
            self._retained = []
            shutil.rmtree(self._root, ignore_errors=True)
        except StaleGenerationError:
            _log.warning("The checkpoints in %s stay: another driver process has taken over job %s.", self._root, self._job_id)
        except Exception:
            _log.warning("The checkpoints in %s could not be deleted.", self._root, exc_info=True)

    # -- the disk ----------------------------------------------------------------------------------------------------------

    def _note_latest(self, log: DeltaLog) -> None:
        newest = self._retained[-1].checkpoint_id if self._retained else 0
        latest = Latest(version=log.version, checkpoint_id=newest, generation=self._generation)
        try:
            write_latest(self._root, latest, sync=self._durable)
        except OSError as error:  # the checkpoint is durable without it; only the loss of log entries would go unnoticed
            _log.warning("%s could not be written: %s", self._root / paths.LATEST, error)

    def _sync_log(self) -> None:
        if self._durable:
            if self._synced < 0:
                sync(self._root)
            self._synced, _ = sync_log(self._root, self._synced)

    def _sync(self, path: Path) -> None:
        if self._durable:
            sync(path, follow_links=False)

    def _make_folder(self, path: Path) -> None:
        if self._durable:
            make_folders(path)
        else:
            path.mkdir(parents=True, exist_ok=True)


def _brief(error: BaseException | None) -> str:
    """Return an error on one line; delta-rs puts what is at the bottom of it on lines of their own, behind coloured arrows."""
    if error is None:
        return ""
    lines = (line.strip(" \t↳") for line in _COLOUR.sub("", str(error)).splitlines())
    return f"{type(error).__name__}: {': '.join(line for line in lines if line)[:_LONGEST_ERROR]}"


def _version() -> str:
    try:
        return metadata.version("flinkish")
    except metadata.PackageNotFoundError:
        return "unknown"
