"""The interface between the checkpoint coordinator, which decides, and the storage, which reads and writes checkpoints.

`DeltaCheckpointStorage` (delta_storage.py) implements it. Typical use by the JobMaster:

    storage = DeltaCheckpointStorage(
        directory, job_id, lineage=LineageId(random_id()), signing_key=SigningKey.load(key_file), clock=clock, ids=random_id
    )
    restored = storage.peek()             # last completed checkpoint of this job, or None
    ...                                   # refuse a program that does not fit the checkpoint
    storage.claim()                       # fences every driver process that had this job before
    # or, for execution.state-recovery.path:
    restored = recovery.open_checkpoint(path, signing_key=key)
    coordinator = CheckpointCoordinator(storage=storage, ...)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from flinkish.checkpoint.manifest import CheckpointKind, Committable, CoordinatorState, Manifest
from flinkish.common.ids import CheckpointId, Generation, LineageId
from flinkish.runtime.protocol import Restore, StateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLocation:
    """Where the tasks write their state files for one checkpoint; goes into the Barrier."""

    #: Folder for the files; it exists.
    directory: str
    #: Folder to which the paths of the files are relative: that of the Delta table that will list them.
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDraft:
    """A checkpoint whose acknowledgements have all arrived, ready to be made durable."""

    checkpoint_id: CheckpointId
    kind: CheckpointKind
    trigger_time: int
    location: CheckpointLocation
    coordinator: CoordinatorState
    files: tuple[StateFile, ...]
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A durable checkpoint, with its location."""

    manifest: Manifest
    #: The table that contains it: a folder, or a reference to another kind of store.
    root: PurePath
    #: Version of that table.
    version: int
    #: Relative path of the file with the manifest.
    manifest_path: str
    #: Whether the signature was made with our key, so that pickled values in it may be decoded.
    trusted: bool

    @property
    def checkpoint_id(self) -> CheckpointId:
        return self.manifest.checkpoint_id

    @property
    def external_path(self) -> str:
        """The value of execution.state-recovery.path that starts a job from this checkpoint."""
        if self.manifest.kind.is_savepoint and self.version == 0:
            return str(self.root)
        return f"{self.root}@{self.checkpoint_id}"

    def to_restore(self) -> Restore:
        """Return the data that tasks need to restore it in the first epoch of an attempt."""
        return Restore(
            checkpoint_id=self.checkpoint_id,
            root=str(self.root),
            files=self.manifest.files,
            pickle_allowed=self.trusted,
            parallelism=self.manifest.parallelism,
        )


class CheckpointStorage(Protocol):
    """Keeps the checkpoints of one job. Calls come from one thread at a time (the coordinator holds its lock)."""

    def peek(self) -> StoredCheckpoint | None:
        """Return the last completed checkpoint of this job without taking the job over from another process.

        It is meant for checks before `claim`, and changes nothing. Raises the same errors as `claim`.
        """
        ...

    def claim(self) -> Generation:
        """Take over the job: every earlier generation is refused from now on. Must be called once, before the methods below.

        Returns the new generation, which is 1 for a new job. Raises CheckpointError if the storage cannot be used, and
        CorruptCheckpointError or ForeignCheckpointError if its content is damaged or not ours.
        """
        ...

    @property
    def generation(self) -> Generation:
        """The generation that `claim` returned."""
        ...

    @property
    def lineage(self) -> LineageId:
        """The lineage to which the job's checkpoint ids belong: that of its last checkpoint, or a new one if there is none."""
        ...

    def check_generation(self) -> None:
        """Raise StaleGenerationError if another driver has taken over; raises other errors if that cannot be determined now."""
        ...

    @property
    def last_id(self) -> CheckpointId:
        """The highest checkpoint id that this job has ever used; 0 if it has used none."""
        ...

    def latest(self) -> StoredCheckpoint | None:
        """Return the last completed checkpoint of this job.

        Raises CorruptCheckpointError if it is damaged; an older checkpoint never replaces it silently.
        """
        ...

    def retained(self) -> Sequence[StoredCheckpoint]:
        """Return the checkpoints that can be restored, oldest first; never empty after the first one has completed."""
        ...

    def prepare(self, checkpoint_id: CheckpointId, savepoint_target: str | None) -> CheckpointLocation:
        """Create the folder for the state files of a checkpoint; for a savepoint of a job that continues, below the given folder.

        Raises OSError if that is not possible, StaleGenerationError if another driver has taken over.
        """
        ...

    def commit(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """Make a checkpoint durable and visible in one step; afterwards it is `latest()`.

        Raises StaleGenerationError if another driver has taken over (nothing became visible), CommitOutcomeUnknownError if it is
        not known whether the commit happened, and any other error if it did not happen.
        """
        ...

    def commit_savepoint(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """Make a savepoint of a job that continues durable at its own location. Raises the same errors as `commit`."""
        ...

    def prepare_export(self, target: str) -> str:
        """Create the folder for a savepoint below `target`, check that files can be written there, and return it.

        For `export_savepoint`; `discard` removes it. Raises OSError or ConfigurationError.
        """
        ...

    def export_savepoint(self, checkpoint: StoredCheckpoint, folder: str) -> StoredCheckpoint:
        """Copy a completed checkpoint to a self-contained table in a prepared folder, verifying every byte copied.

        To be called after the sinks have committed its committables: the copy omits these, so that a job that starts from it may
        write elsewhere.
        """
        ...

    def discard(self, location: CheckpointLocation) -> None:
        """Delete all files of a checkpoint that was never committed. Never raises; `clean_up` removes any remaining files."""
        ...

    def discard_files(self, location: CheckpointLocation, files: Collection[StateFile]) -> None:
        """Delete individual files that do not belong to the checkpoint. Never raises."""
        ...

    def clean_up(self, in_use: Collection[CheckpointId]) -> int:
        """Delete files that no retained checkpoint names, except those of checkpoints in progress. Never raises.

        Returns the number of deleted files.
        """
        ...

    def delete_all(self) -> None:
        """Delete every checkpoint of the job, because the job has ended for good and its retention demands it."""
        ...
