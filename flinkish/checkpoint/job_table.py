"""The table of a job's checkpoints: opens and reads it, refuses damaged or foreign ones, deletes files in it."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import PurePath

from flinkish.checkpoint import cleaning, fencing, paths
from flinkish.checkpoint.checkpoint_files import read_latest, read_newest, read_reference
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.fencing import Transaction
from flinkish.checkpoint.paths import Folder
from flinkish.checkpoint.signing import KEY_OPTION, SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import (
    CheckpointError,
    CorruptCheckpointError,
    FlinkishError,
    ForeignCheckpointError,
    StaleGenerationError,
)
from flinkish.common.files.checkpoint_files import CheckpointFiles
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import CheckpointId, Generation
from flinkish.runtime import faults

_log = logging.getLogger(__name__)

#: A Delta log checkpoint is written after this many versions; then log entries that no retained checkpoint needs are deleted.
_VERSIONS_PER_SUMMARY = 10
#: Maximum size in bytes of a log entry that is read: it has a line for each state file.
_ENTRY_LIMIT = 1 << 28
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_LONGEST_ERROR = 500


class JobTable:
    """The table of one job's checkpoints; its users decide who may write to it."""

    def __init__(
        self,
        root: PurePath,
        job_id: str,
        key: SigningKey,
        *,
        option: str = "execution.checkpointing.dir",
        log: type[DeltaLog] = DeltaLog,
    ) -> None:
        """Describe the table; `option` is the configuration key that names its place. `log` is for tests."""
        self.root = root
        self._option = option
        self.files: CheckpointFiles = files_at(root)
        self.job_id = job_id
        self._key = key
        self._log = log

    # -- opening -----------------------------------------------------------------------------------------------------------

    def open(self) -> DeltaLog | None:
        """Open the newest version of the table; None if there is none."""
        try:
            self.files.refuse_links()
            return self._log.open(self.root)
        except FlinkishError:
            raise
        except OSError as error:
            raise self._unusable(error) from error
        except Exception as error:
            raise self._unreadable(error) from error

    def reopen(self) -> DeltaLog:
        """Open a table that existed a moment ago."""
        log = self.open()
        if log is None:
            raise CheckpointError(f"checkpoint table {self.root} was removed while it was read")
        return log

    def open_or_create(self, own: Generation, *, time: int, sync: bool) -> DeltaLog:
        """Open the newest version; create the table if there is none, unless it was already claimed as generation `own`."""
        log = self.open()
        if log is not None:
            return log
        self.refuse_gone(own)
        try:
            self.files.make_root(sync=sync)
        except OSError as error:
            raise self._unusable(error) from error
        self.refuse_lost_log()
        failure: Exception | None = None
        try:
            self._log.create(self.root, {}, {}, time=time)
        except Exception as error:  # if another process has created it in the meantime, it can be opened now
            failure = error
        log = self.open()
        if log is not None:
            return log
        if isinstance(failure, OSError):
            raise self._unusable(failure) from failure
        raise CheckpointError(f"checkpoint table {self.root} cannot be made: {brief(failure) or 'it was removed'}") from failure

    def _unusable(self, error: OSError) -> CheckpointError:
        return CheckpointError(
            f"{self._option}: {self.root} cannot be used: {brief(error)}", hint="check the folder's permissions and space."
        )

    def _unreadable(self, error: Exception) -> CorruptCheckpointError:
        return CorruptCheckpointError(
            f"checkpoint table {self.root}: its Delta log cannot be read: {brief(error)}",
            hint="restore from a savepoint, or remove the table to start from nothing.",
        )

    def refuse_lost_log(self) -> None:
        """Raise CorruptCheckpointError if there is the folder of a table whose log is missing."""
        if self.files.exists(paths.LATEST):
            raise CorruptCheckpointError(
                f"checkpoint table {self.root}: its folder {paths.LOG} is missing",
                hint="restore from a savepoint, or remove the table to start from nothing.",
            )

    def refuse_gone(self, own: Generation) -> None:
        """Raise if the table has disappeared after its claim: with a new one, the job would start again and repeat its work."""
        self.files.refuse_links(paths.LOG)
        if own > 0 and not self.files.is_folder(paths.LOG):
            raise StaleGenerationError(
                f"job {self.job_id}: its checkpoints in {self.root} are gone, this driver process is generation {own}",
                hint="another driver process has taken over the job and ended it, or the folder was removed; this one must end.",
            )

    def refuse_stale(self, log: DeltaLog, own: Generation) -> None:
        """Raise StaleGenerationError if the job belongs to another generation than our own."""
        other = fencing.newer_generation(log.transaction(self.job_id), own)
        if other is not None:
            raise self.taken_over(other, own)

    def taken_over(self, by: Generation, own: Generation) -> StaleGenerationError:
        """Return the error for a driver whose job now belongs to another one."""
        return StaleGenerationError(
            f"job {self.job_id}: {self.root} belongs to generation {by} now, this driver process is generation {own}",
            hint="another driver process has taken over the job; this one must end.",
        )

    # -- reading -----------------------------------------------------------------------------------------------------------

    def read_current(self, open_log: Callable[[], DeltaLog]) -> tuple[DeltaLog, StoredCheckpoint | None]:
        """Read the newest checkpoint. Raises CorruptCheckpointError, and ForeignCheckpointError if another key signed it."""
        log, current = read_newest(self.root, open_log, self._key)
        if current is not None and current.manifest.job_id != self.job_id:
            raise CorruptCheckpointError(
                f"checkpoint table {self.root}: it holds a checkpoint of job {current.manifest.job_id}, not of {self.job_id}",
                hint="start from it with execution.state-recovery.path, and give the job another execution.checkpointing.dir.",
            )
        if current is not None and not current.trusted:
            raise ForeignCheckpointError(
                f"checkpoint table {self.root}: its newest checkpoint {current.checkpoint_id} was signed by another key than "
                f"ours ({self._key.path or 'no file'}); the job does not go on from it",
                hint=f"set {KEY_OPTION} to the key that the job had. If that key is lost, start another job, with another "
                f"high-availability.cluster-id, from {current.external_path} with execution.state-recovery.path and "
                "execution.state-recovery.allow-untrusted. If nobody changed the key, the storage was tampered with.",
            )
        return log, current

    def transaction(self, log: DeltaLog) -> int | None:
        """Return the newest transaction of the job; raises CorruptCheckpointError if it cannot be read."""
        try:
            return log.transaction(self.job_id)
        except OSError as error:
            raise self._unusable(error) from error
        except Exception as error:  # delta-rs looks for it only now
            raise self._unreadable(error) from error

    def check_transaction(self, log: DeltaLog, current: StoredCheckpoint | None) -> None:
        """Raise CorruptCheckpointError if the log has lost the transaction of the newest checkpoint."""
        if current is None:
            return
        got, newest = self.transaction(log), Transaction(current.manifest.generation, current.checkpoint_id)
        if fencing.log_is_damaged(got, newest):
            raise CorruptCheckpointError(
                f"checkpoint table {self.root}: its log has transaction {got} of job {self.job_id}, "
                f"expected at least {newest.number}",
                hint="the Delta log was damaged; restore from a savepoint.",
            )

    def read_previous(self, current: StoredCheckpoint, count: int) -> list[StoredCheckpoint]:
        """Read the last `count` retained checkpoints before the newest one, oldest first."""
        references = current.manifest.previous
        return [read_reference(self.root, each, self._key) for each in references[max(0, len(references) - count) :]]

    def folders(self) -> list[Folder]:
        """Return the parsed names of the folders of checkpoints."""
        return [folder for name in self.files.names() if (folder := paths.parse_folder(name)) is not None]

    def has_entry(self, version: int, manifest_path: str) -> bool:
        """Return whether the log's entry of a version is there and adds this manifest, without a list. Raises OSError."""
        try:
            content = self.files.read(f"{paths.LOG}/{version:020}.json", limit=_ENTRY_LIMIT)
        except FileNotFoundError:
            return False
        added = (json.loads(line).get("add") for line in content.splitlines() if line)
        return any(each is not None and each.get("path") == manifest_path for each in added)

    def is_marked(self, own: Generation) -> bool:
        """Return whether our generation wrote the marker; a table that was removed or taken over has none, or another one."""
        latest = read_latest(self.root)
        return latest is not None and latest.generation == own

    # -- removing ----------------------------------------------------------------------------------------------------------

    def delete(self, files: Iterable[str]) -> None:
        """Delete files; those that cannot be deleted are logged and stay."""
        delete(self.files, files)

    def discard_folder(self, name: str) -> None:
        """Delete the files of a checkpoint; its empty folder is kept, because its name records that the id was used."""
        with contextlib.suppress(OSError, CorruptCheckpointError):
            self.files.refuse_links()
            self.delete(list(self.files.files_below(name)))

    def clean_up(self, retained: Sequence[StoredCheckpoint], in_use: Collection[CheckpointId], own: Generation) -> None:
        """Delete the files in `cleaning.plan` and drafts of killed drivers."""
        self.files.refuse_links()
        names = sorted(self.files.names())
        removal = cleaning.plan(
            {folder: tuple(self.files.files_below(name)) for name in names if (folder := paths.parse_folder(name)) is not None},
            retained=[(old.checkpoint_id, {old.manifest_path, *(file.path for file in old.manifest.files)}) for old in retained],
            in_use=in_use,
            generation=own,
        )
        self.delete(removal.files)
        for folder in removal.folders:
            with contextlib.suppress(OSError):  # a late task has written into it; the next clean-up removes that file
                self.files.remove_empty_folders(paths.folder_name(*folder))
        # Drafts of `_latest.json` that killed drivers have left; this process is not writing one now.
        drafts = {name: paths.parse_draft(name) for name in self.files.names()}
        self.delete([name for name, generation in drafts.items() if generation is not None and generation <= own])

    def clean_log(self, log: DeltaLog, *, summarized: int, oldest_needed: int, sync: bool) -> int:
        """Delete log entries that are not needed, if enough versions have been written since the last time.

        `summarized` is the version at which this was last done; returns the value for the next call.
        """
        if log.version - summarized < _VERSIONS_PER_SUMMARY:
            return summarized
        log.write_checkpoint()
        if sync:
            self.files.sync_log(log.version - 1)
        obsolete = cleaning.obsolete_log_entries(self.files.names(paths.LOG), oldest_needed=oldest_needed)
        self.delete([f"{paths.LOG}/{name}" for name in obsolete])
        return log.version

    def withdraw_lone_entry(self, version: int) -> None:
        """Remove a log with a single entry, which a commit created because the table was deleted in the meantime."""
        entry = f"{paths.LOG}/{version:020}.json"
        with contextlib.suppress(OSError):
            if list(self.files.files_below(paths.LOG)) == [entry]:
                self.files.remove(entry)
                self.files.remove_empty_folders(paths.LOG)
                self.files.remove_empty_folders("")

    def delete_all(self, own: Generation, gone: str) -> None:
        """Delete the table if it is still our own; `gone` is the temporary name of its log while it is deleted."""
        self.files.refuse_links()
        log = self._log.open(self.root)
        if log is not None:
            self.refuse_stale(log, own)
        with contextlib.suppress(FileNotFoundError):
            self.files.remove(paths.LATEST)
        # Rename the log first, so that the table disappears in one step: half a table would look damaged.
        if log is not None:
            self.files.rename(paths.LOG, gone)
        self.files.remove_all()


def delete(files: CheckpointFiles, names: Iterable[str]) -> None:
    """Delete files of a table; those that cannot be deleted are logged and stay."""
    for name in names:
        faults.reach(faults.Point.DELETING)
        try:
            files.remove(name)
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning("%s could not be deleted and stays for the next clean-up: %s", files.root / name, error)


def brief(error: BaseException | None) -> str:
    """Return an error as one line; delta-rs writes its causes on separate lines, after coloured arrows."""
    if error is None:
        return ""
    lines = (line.strip(" \t↳") for line in _COLOUR.sub("", str(error)).splitlines())
    return f"{type(error).__name__}: {': '.join(line for line in lines if line)[:_LONGEST_ERROR]}"
