"""Keeps the checkpoints of a job as versions of one Delta table.

A commit has these steps:

1. the tasks have written state files into a folder that only this checkpoint of this generation uses;
2. the manifest is written to the same folder, under a name that contains its hash;
3. ONE Delta commit replaces the files of the table by these, with the transaction (job id -> generation * 10^9 + checkpoint id),
   through a handle that saw no newer generation; the commit fails if any other version has appeared since;
4. the table is opened again: the checkpoint is complete only if the table now has our transaction and lists our manifest;
5. the marker of the newest version is updated.

A failure before step 3 leaves files that no version lists; a later clean-up removes them. If step 3 reports an error, step 4
finds out what happened.

fencing.py judges who owns the job and what became of a commit; cleaning.py decides what may be deleted. File operations go
through CheckpointFiles (common/files), so that this storage works with folders and object stores.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath

from flinkish.checkpoint import fencing, paths
from flinkish.checkpoint.checkpoint_files import LIST_WAITS, Latest, copy_verified, write_latest
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.fencing import Committed, Refused, TakenOver, Transaction
from flinkish.checkpoint.job_table import JobTable, brief, delete
from flinkish.checkpoint.manifest import CheckpointKind, CheckpointReference, Manifest
from flinkish.checkpoint.savepoints import own_versions, write_manifest, write_savepoint
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import CheckpointDraft, CheckpointLocation, StoredCheckpoint
from flinkish.common.clock import Clock
from flinkish.common.errors import (
    CheckpointError,
    CommitOutcomeUnknownError,
    ConfigurationError,
    StaleGenerationError,
)
from flinkish.common.files.checkpoint_files import CheckpointFiles, StoreReference
from flinkish.common.files.schemes import files_at, is_safe, root_of
from flinkish.common.ids import CheckpointId, Generation, IdSource, LineageId
from flinkish.runtime import faults
from flinkish.runtime.protocol import StateFile

_log = logging.getLogger(__name__)

#: Name of a test file that is written to the folder of a savepoint before the job is stopped for it.
_PROBE = "probe"
_PROBE_BYTES = 1 << 16


class DeltaCheckpointStorage:
    """Keeps the checkpoints of one job in `<directory>/<job id>/state`. Calls come from one thread at a time.

    For a start, `peek` tells from which checkpoint the job goes on. `claim`, which fences all earlier drivers of the job, comes
    after everything for which the program may be refused, and before all other methods.
    """

    def __init__(
        self,
        directory: str | PurePath,
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
        """Create a storage in `directory` (execution.checkpointing.dir), which every task must be able to access.

        A directory `s3://bucket/path` is in an object store. `lineage` is used for a job without checkpoints yet. With `durable`,
        files are synced to the disk before any other file refers to them. `delta_log` is for tests.
        Raises ConfigurationError for a directory that cannot be used, or that contains the signing key.
        """
        base = paths.table_root(str(directory), key="execution.checkpointing.dir")
        key_file = None if signing_key.path is None else Path(os.path.realpath(signing_key.path))
        if isinstance(base, Path) and key_file is not None and key_file.is_relative_to(os.path.realpath(base)):
            raise ConfigurationError(
                f"execution.checkpointing.dir = {base} holds the signing key {signing_key.path}",
                hint="keep the key outside: whoever can write checkpoints could sign them.",
            )
        #: The root of the table.
        self.root = paths.job_folder(base, job_id) / "state"
        self._log_type = delta_log
        self._table = JobTable(self.root, job_id, signing_key, log=delta_log)
        self._job_id = job_id
        #: The lineage of the job's checkpoint ids: the one in its last checkpoint, or a new one if there is none.
        self.lineage = lineage
        self._key = signing_key
        self._clock = clock
        self._ids = ids
        self._num_retained = num_retained
        self._durable = durable
        self._handle: DeltaLog | None = None
        #: The last version at which this driver has checked that no other driver had taken over; -1 = none.
        self._own_version = -1
        #: The generation that `claim` returned.
        self.generation = Generation(0)
        #: The highest checkpoint id that this job has ever used; 0 if it has used none.
        self.last_id = CheckpointId(0)
        self._retained: list[StoredCheckpoint] = []
        # Checkpoints whose commit may or may not have happened; their files are kept until a later one has completed.
        self._unknown: set[CheckpointId] = set()
        #: The newest checkpoint when one in progress began, by the latter's id: its tasks may name files of that one again.
        self._bases: dict[CheckpointId, StoredCheckpoint] = {}
        self._savepoints: set[str] = set()
        self._summarized = 0
        #: Version up to which the log has been synced to the disk.
        self._synced = -1

    # -- taking over -------------------------------------------------------------------------------------------------------

    def peek(self) -> StoredCheckpoint | None:
        """Return the last completed checkpoint of this job without taking the job over from another process.

        It is meant for checks before `claim`, and changes nothing. Raises the same errors as `claim`.
        """
        if self._table.open() is None:
            self._table.refuse_lost_log()
            return None
        log, current = self._table.read_current(self._table.reopen)
        self._table.check_transaction(log, current)
        if current is not None:
            self.lineage = current.manifest.lineage
        return current

    def claim(self) -> Generation:
        """Take over the job: every earlier generation is refused from now on. Must be called once, before the methods below.

        Returns the new generation, which is 1 for a new job. Raises CheckpointError if the storage cannot be used, and
        CorruptCheckpointError or ForeignCheckpointError if its content is damaged or not ours.
        """
        versions: list[int] = []
        for _ in range(fencing.CLAIM_TRIES):
            log, current = self._table.read_current(self._open_or_create)
            self._table.check_transaction(log, current)
            versions.append(log.version)
            claim = fencing.claim(self._table.transaction(log))
            try:
                log.note_transaction(self._job_id, claim.number, {"flinkish.generation": str(claim.generation)})
            except Exception as error:  # another driver may have been quicker: the next try takes a higher generation
                if fencing.storage_is_to_blame(versions, log.version):
                    raise CheckpointError(
                        f"execution.checkpointing.dir: {self.root} cannot be written: {brief(error)}",
                        hint="check the folder's permissions and space.",
                    ) from error
                _log.info("Claiming job %s failed and is tried again: %s", self._job_id, brief(error))
                continue
            fresh = self._open_or_create()
            if fresh.transaction(self._job_id) != claim.number:
                continue
            try:
                self._sync_log()
            except OSError as error:
                raise CheckpointError(
                    f"execution.checkpointing.dir: it is not known whether the disk keeps {self.root}: {error}",
                    hint="check the disk.",
                ) from error
            self._own(claim, fresh, current)
            return self.generation
        raise CheckpointError(
            f"job {self._job_id}: {self.root} could not be claimed in {fencing.CLAIM_TRIES} tries",
            hint="several driver processes seem to start for the same high-availability.cluster-id; stop all but one.",
        )

    def _own(self, claim: Transaction, log: DeltaLog, current: StoredCheckpoint | None) -> None:
        """Record the generation, ids and checkpoints that this process now owns."""
        self._handle = log
        self.generation = claim.generation
        self._retained = []
        if current is not None:
            self.lineage = current.manifest.lineage
            self._retained = [*self._table.read_previous(current, self._num_retained - 1), current]
        newest = None if current is None else current.checkpoint_id
        self.last_id = fencing.highest_id(claim.checkpoint_id, newest, self._table.folders())
        self._note_latest(log)
        self._summarized = 0

    def _open_or_create(self) -> DeltaLog:
        return self._table.open_or_create(self.generation, time=self._clock.wall_time(), sync=self._durable)

    # -- what is there -----------------------------------------------------------------------------------------------------

    def check_generation(self) -> None:
        """Raise StaleGenerationError if another driver has taken over; raises other errors if that cannot be determined now."""
        self._current_handle()

    def retained(self) -> Sequence[StoredCheckpoint]:
        """Return the checkpoints that can be restored, oldest first; never empty after the first one has completed."""
        return tuple(self._retained)

    def latest(self) -> StoredCheckpoint | None:
        """Return the last completed checkpoint of this job; reads the table again, as it may have been damaged since.

        Raises CorruptCheckpointError if it is damaged; an older checkpoint never replaces it silently.
        """
        self._table.refuse_gone(self.generation)
        log, current = self._table.read_current(self._open_or_create)
        self._table.refuse_stale(log, self.generation)
        return current

    # -- writing -----------------------------------------------------------------------------------------------------------

    def prepare(self, checkpoint_id: CheckpointId, savepoint_target: str | None) -> CheckpointLocation:
        """Create the folder for the state files of a checkpoint; for a savepoint of a job that continues, below the given folder.

        Raises OSError if that is not possible, StaleGenerationError if another driver has taken over.
        """
        self._current_handle()
        name = paths.folder_name(checkpoint_id, self.generation)
        # Created for savepoints as well: if the process ends here, the folder's name records that the id was used.
        self._table.files.make_folder(name)
        self.last_id = max(self.last_id, checkpoint_id)
        base: CheckpointId | None = None
        if self._retained:
            self._bases[checkpoint_id] = self._retained[-1]
            base = self._retained[-1].checkpoint_id
        files = self._table.files
        if savepoint_target is not None:
            files = self._make_savepoint_folder(savepoint_target)
            files.make_folder(name)
        return CheckpointLocation(directory=str(files.root / name), root=str(files.root), base=base)

    def _make_savepoint_folder(self, target: str) -> CheckpointFiles:
        base = paths.table_root(target, key="savepoint directory")
        files = files_at(base / f"savepoint-{self._job_id[:6]}-{self._ids()[:12]}")
        files_at(base).make_root(sync=self._durable)
        files.make_folder("")
        self._sync(files_at(base))
        self._savepoints.add(str(files.root))
        return files

    def commit(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """Make a checkpoint durable and visible in one step; afterwards it is `latest()`.

        Raises StaleGenerationError if another driver has taken over (nothing became visible), CommitOutcomeUnknownError if it is
        not known whether the commit happened, and any other error if it did not happen.
        """
        faults.reach(faults.Point.STATE_WRITTEN)
        log = self._current_handle()
        previous = self._retained[-(self._num_retained - 1) :] if self._num_retained > 1 else []
        references = tuple(
            CheckpointReference(checkpoint_id=old.checkpoint_id, version=old.version, manifest_path=old.manifest_path)
            for old in previous
        )
        manifest = self._manifest(draft, references)
        path, files = write_manifest(manifest, files_at(draft.location.root), self._key, durable=self._durable)
        faults.reach(faults.Point.MANIFEST_WRITTEN)
        own, version = Transaction(self.generation, draft.checkpoint_id), log.version + 1
        details = {"flinkish.checkpoint": str(draft.checkpoint_id), "flinkish.generation": str(self.generation)}
        failure: Exception | None = None
        try:
            log.replace_files(files, self._job_id, own.number, details, time=self._clock.wall_time())
        except Exception as error:
            failure = error
        log = self._shown_by_name(log, version, own, path, failure) or self._outcome(own, path, failure)
        self._handle, self._own_version = log, log.version
        stored = StoredCheckpoint(manifest=manifest, root=self.root, version=log.version, manifest_path=path, trusted=True)
        self._retained = [*previous, stored]
        self._unknown.clear()
        try:
            self._sync_log()
        except OSError as error:
            raise self._unsure(own, f" was committed, but it is not known whether the disk keeps it: {error}", None) from error
        self._note_latest(log)
        faults.reach(faults.Point.CHECKPOINT_COMMITTED)
        return stored

    def _shown_by_name(
        self, log: DeltaLog, version: int, own: Transaction, manifest_path: str, failure: Exception | None
    ) -> DeltaLog | None:
        """Return a handle at our commit if the log's entry says that it happened; None if the table must be read to know.

        An object store may list entries late, and what a list lacks would be taken for refused, and deleted. Its objects can be
        read by their names at once; that also takes a third of the requests.
        """
        if not isinstance(self.root, StoreReference):
            return None
        try:
            if not self._table.has_entry(version, manifest_path) or not self._table.is_marked(self.generation):
                return None
        except OSError as error:
            raise self._not_known(own, failure, "log", error) from (failure or error)
        for wait in (*LIST_WAITS, 0):
            with contextlib.suppress(Exception):
                log.refresh()
            if log.version >= version:
                break
            time.sleep(wait)
        if log.version < version:
            hint = "nothing was deleted; the next checkpoint or restart goes on when the store lists it."
            raise self._unsure(own, f" was committed, but {self.root} does not list it yet", hint) from failure
        return None if log.version > version else self._committed(log, own, failure)

    def _outcome(self, own: Transaction, manifest_path: str, failure: Exception | None) -> DeltaLog:
        """Read the table to find out whether a commit happened; return a handle at it if so, otherwise raise."""
        try:
            log = self._log_type.open(self.root)
            found = None if log is None else log.transaction(self._job_id)
            named = log is not None and manifest_path in log.files()
        except Exception as error:
            if self._handle is not None:
                self._table.withdraw_lone_entry(self._handle.version + 1)
            with contextlib.suppress(OSError):  # then it cannot be seen either whether the table is gone
                self._table.refuse_gone(self.generation)
            raise self._not_known(own, failure, "table", error) from (failure or error)
        match Refused() if log is None else fencing.outcome(found=found, named=named, own=own):
            case Committed():
                assert log is not None
                return self._committed(log, own, failure)
            case TakenOver(by):
                raise self._table.taken_over(by, self.generation)
            case Refused():
                self._table.refuse_gone(self.generation)
                raise CheckpointError(
                    f"checkpoint {own.checkpoint_id} of job {self._job_id}: its commit to {self.root} was refused: "
                    f"{brief(failure) if failure else f'the table has transaction {found}, expected {own.number}'}"
                ) from failure

    def _committed(self, log: DeltaLog, own: Transaction, failure: Exception | None) -> DeltaLog:
        if failure is not None:
            _log.warning("Checkpoint %d of job %s was committed, although an error came back.", own.checkpoint_id, self._job_id)
        return log

    def _not_known(self, own: Transaction, failure: Exception | None, what: str, error: Exception) -> CommitOutcomeUnknownError:
        text = f"it is not known whether its commit to {self.root} happened: {brief(failure or error)}"
        hint = "nothing was deleted; the next checkpoint or restart finds out."
        return self._unsure(own, f": {text}; reading the {what} failed: {brief(error)}", hint)

    def _unsure(self, own: Transaction, what: str, hint: str | None) -> CommitOutcomeUnknownError:
        """Keep the files of a checkpoint whose commit may or may not have happened, and return the error for it."""
        self._unknown.add(own.checkpoint_id)
        return CommitOutcomeUnknownError(f"checkpoint {own.checkpoint_id} of job {self._job_id}{what}", hint=hint)

    def commit_savepoint(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """Make a savepoint of a job that continues durable at its own location. Raises the same errors as `commit`."""
        faults.reach(faults.Point.STATE_WRITTEN)
        self._current_handle()
        return self._write_savepoint(files_at(draft.location.root), self._manifest(draft, ()))

    def prepare_export(self, target: str) -> str:
        """Create the folder for a savepoint below `target`, check that files can be written there, and return it.

        For `export_savepoint`; `discard` removes it. Raises OSError or ConfigurationError.
        """
        files = self._make_savepoint_folder(target)
        try:
            with files.create(_PROBE) as probe:
                probe.write(bytes(_PROBE_BYTES))
                probe.sync()
            files.remove(_PROBE)
        except OSError:
            self.discard(CheckpointLocation(directory=str(files.root), root=str(files.root)))
            raise
        return str(files.root)

    def export_savepoint(self, checkpoint: StoredCheckpoint, folder: str) -> StoredCheckpoint:
        """Copy a completed checkpoint to a self-contained table in a prepared folder, verifying every byte copied.

        To be called after the sinks have committed its committables: the copy omits these, so that a job that starts from it may
        write elsewhere.
        """
        files = files_at(folder)
        folders = {os.path.dirname(file.path) for file in checkpoint.manifest.files}
        try:
            for inside in folders:
                files.make_folders(inside)
            for file in checkpoint.manifest.files:
                copy_verified(checkpoint, file, files.root)
            for inside in folders:
                self._sync(files, inside)
            manifest = dataclasses.replace(checkpoint.manifest, kind=CheckpointKind.STOP_SAVEPOINT, committables=(), previous=())
            files.make_folders(paths.folder_name(manifest.checkpoint_id, manifest.generation))
            return self._write_savepoint(files, manifest)
        except CommitOutcomeUnknownError:
            raise
        except Exception:
            self.discard(CheckpointLocation(directory=folder, root=folder))
            raise

    def _write_savepoint(self, files: CheckpointFiles, manifest: Manifest) -> StoredCheckpoint:
        stored = write_savepoint(
            files, manifest, self._key, durable=self._durable, time=self._clock.wall_time(), delta_log=self._log_type
        )
        self._savepoints.discard(str(files.root))
        return stored

    def _manifest(self, draft: CheckpointDraft, previous: tuple[CheckpointReference, ...]) -> Manifest:
        for file in draft.files:
            self._check_file(draft, file)
        return Manifest(
            job_id=self._job_id,
            lineage=self.lineage,
            generation=self.generation,
            checkpoint_id=draft.checkpoint_id,
            kind=draft.kind,
            trigger_time=draft.trigger_time,
            completion_time=self._clock.wall_time(),
            coordinator=draft.coordinator,
            committables=draft.committables,
            files=tuple(sorted(draft.files, key=lambda file: file.path)),
            previous=previous,
            written_by=own_versions(),
        )

    def _check_file(self, draft: CheckpointDraft, file: StateFile) -> None:
        """Refuse a file that its tasks have not written for this checkpoint, unless an older one that cannot go yet names it."""
        location = draft.location
        files, inside = files_at(location.root), _folder_of(location)
        written = is_safe(file.path) and file.path.startswith(f"{inside}/")
        if not written and not (files.root == self.root and self._is_shared(draft.checkpoint_id, file)):
            raise CheckpointError(
                f"a task acknowledged the state file {file.path!r}, which is not in its folder {inside}, and which no retained "
                "checkpoint names in the same way"
            )
        if written:
            size = files.size(file.path)
            if size != file.size:
                raise CheckpointError(f"a task acknowledged {file.path} with {file.size} bytes, it has {size}")
            self._sync(files, file.path)

    def _is_shared(self, checkpoint_id: CheckpointId, file: StateFile) -> bool:
        base = self._bases.get(checkpoint_id)
        return any(file in old.manifest.files for old in (*self._retained, *([] if base is None else [base])))

    def _current_handle(self) -> DeltaLog:
        """Return a handle at the newest version, after checking that no other driver has taken over."""
        if self._handle is None:
            raise CheckpointError(f"checkpoint table {self.root} was not claimed")
        self._table.refuse_gone(self.generation)
        try:
            self._handle.refresh()
        except Exception:  # a handle that needs cleaned log entries cannot be refreshed, but a new one can be opened
            self._handle = self._open_or_create()
        if self._handle.version != self._own_version:
            # To look up the transaction reads the whole log, and it changes only with the version.
            self._table.refuse_stale(self._handle, self.generation)
            self._own_version = self._handle.version
        return self._handle

    # -- removing ----------------------------------------------------------------------------------------------------------

    def discard(self, location: CheckpointLocation) -> None:
        """Delete all files of a checkpoint that was never committed. Never raises; `clean_up` removes any remaining files."""
        if location.root in self._savepoints:
            # this process created it under a random name and never completed it
            files_at(location.root).remove_all()
            self._savepoints.discard(location.root)
            return
        folder = root_of(location.directory)
        retained = [old.checkpoint_id for old in self._retained]
        if folder.parent == self.root and fencing.may_discard(
            paths.parse_folder(folder.name), own=self.generation, unknown=self._unknown, retained=retained
        ):
            self._table.discard_folder(folder.name)

    def discard_files(self, location: CheckpointLocation, files: Collection[StateFile]) -> None:
        """Delete individual files that were written for a checkpoint but do not belong to it. Never raises."""
        own = f"{_folder_of(location)}/"
        delete(files_at(location.root), [file.path for file in files if is_safe(file.path) and file.path.startswith(own)])

    def clean_up(self, in_use: Collection[CheckpointId]) -> None:
        """Delete files that no retained checkpoint names, except those that checkpoints in progress may name. Never raises."""
        if not self._table.files.is_folder(paths.LOG):
            return  # the table is gone; the next commit will be refused
        try:
            kept = {*in_use, *self._unknown}
            self._bases = {checkpoint_id: base for checkpoint_id, base in self._bases.items() if checkpoint_id in kept}
            self._table.clean_up([*self._bases.values(), *self._retained], kept, self.generation)
            if self._handle is not None and self._retained:
                self._summarized = self._table.clean_log(
                    self._handle, summarized=self._summarized, oldest_needed=self._retained[0].version, sync=self._durable
                )
        except Exception:  # cleaning is tried again after the next checkpoint
            _log.warning("Cleaning up %s failed.", self.root, exc_info=True)

    def delete_all(self) -> None:
        """Delete every checkpoint of the job, because the job has ended for good and its retention demands it."""
        try:
            self._table.delete_all(self.generation, f"_deleted-{self._ids()[:12]}")
            self._handle = None
            self._retained = []
        except StaleGenerationError:
            _log.warning("The checkpoints in %s stay: another driver process has taken over job %s.", self.root, self._job_id)
        except Exception:
            _log.warning("The checkpoints in %s could not be deleted.", self.root, exc_info=True)

    # -- the disk ----------------------------------------------------------------------------------------------------------

    def _note_latest(self, log: DeltaLog) -> None:
        newest = self._retained[-1].checkpoint_id if self._retained else 0
        latest = Latest(version=log.version, checkpoint_id=newest, generation=self.generation)
        try:
            write_latest(self.root, latest, sync=self._durable)
        except OSError as error:  # the checkpoint is durable without it, only a later loss of log entries could not be detected
            _log.warning("%s could not be written: %s", self.root / paths.LATEST, error)

    def _sync_log(self) -> None:
        if self._durable:
            self._synced = self._table.files.sync_log(self._synced)

    def _sync(self, files: CheckpointFiles, inside: str = "") -> None:
        if self._durable:
            files.sync(inside)


def _folder_of(location: CheckpointLocation) -> str:
    """Return the folder for the files of a checkpoint, relative to the root of its table."""
    return root_of(location.directory).relative_to(root_of(location.root)).as_posix()
