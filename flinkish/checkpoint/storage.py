"""Where checkpoints are kept: the seam between the coordinator, which decides, and what reads and writes.

`DeltaCheckpointStorage` (delta_storage.py) is the one used. Typical use by the JobMaster:

    storage = DeltaCheckpointStorage(
        directory, job_id, lineage=LineageId(random_id()), signing_key=SigningKey.load(key_file), clock=clock, ids=random_id
    )
    restored = storage.peek()             # last completed checkpoint of this very job, or None
    ...                                   # refuse a program that does not fit it
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

    #: Folder for the files, exists.
    directory: str
    #: What the paths of the files are relative to: the folder of the Delta table that will list them.
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDraft:
    """All that is known of a checkpoint when the last acknowledgement is in, to be made durable."""

    checkpoint_id: CheckpointId
    kind: CheckpointKind
    trigger_time: int
    location: CheckpointLocation
    coordinator: CoordinatorState
    files: tuple[StateFile, ...]
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint that is durable, and from where it can be restored."""

    manifest: Manifest
    #: The table that holds it: a folder, or a reference to a store that is none.
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
        """What to give to execution.state-recovery.path to start from this checkpoint."""
        if self.manifest.kind.is_savepoint and self.version == 0:
            return str(self.root)
        return f"{self.root}@{self.checkpoint_id}"

    def to_restore(self) -> Restore:
        """Return what the tasks need in the first epoch of an attempt."""
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
        """Return the last completed checkpoint of this job without taking over; whoever runs the job goes on undisturbed.

        For what has to be known before `claim`. Changes nothing. Raises as `claim`.
        """
        ...

    def claim(self) -> Generation:
        """Take over the job: every earlier generation is refused from now on. Called once, before all below.

        Returns the new generation, 1 for a job that is new. Raises CheckpointError if the storage cannot be used, and
        CorruptCheckpointError or ForeignCheckpointError if what is there is damaged or not ours.
        """
        ...

    @property
    def generation(self) -> Generation:
        """What `claim` returned."""
        ...

    @property
    def lineage(self) -> LineageId:
        """The lineage that the job's checkpoint ids belong to; that of its last checkpoint if there is one, else a new one."""
        ...

    def check_generation(self) -> None:
        """Raise StaleGenerationError if another driver has taken over; other errors if that cannot be learned now."""
        ...

    @property
    def last_id(self) -> CheckpointId:
        """The highest checkpoint id ever used by this job, 0 for none."""
        ...

    def latest(self) -> StoredCheckpoint | None:
        """Return the last completed checkpoint of this job.

        Raises CorruptCheckpointError if it is damaged; an older one is never taken in its place silently.
        """
        ...

    def retained(self) -> Sequence[StoredCheckpoint]:
        """Return the checkpoints that can be restored, oldest first; never empty once one has completed."""
        ...

    def prepare(self, checkpoint_id: CheckpointId, savepoint_target: str | None) -> CheckpointLocation:
        """Make the place for the state files of a checkpoint; for a savepoint in passing, below the folder given.

        Raises OSError if that is not possible, StaleGenerationError if another driver has taken over.
        """
        ...

    def commit(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """Make a checkpoint durable and visible in one step; afterwards it is `latest()`.

        Raises StaleGenerationError if another driver has taken over (nothing became visible); CommitOutcomeUnknownError if it
        is not known whether the commit happened; any other error: it did not.
        """
        ...

    def commit_savepoint(self, draft: CheckpointDraft) -> StoredCheckpoint:
        """Make a savepoint in passing durable at its own location. Errors as `commit`."""
        ...

    def prepare_export(self, target: str) -> str:
        """Make the folder for a savepoint below `target`, try whether files can be written there, and return it.

        For `export_savepoint`; `discard` removes it. Raises OSError or ConfigurationError.
        """
        ...

    def export_savepoint(self, checkpoint: StoredCheckpoint, folder: str) -> StoredCheckpoint:
        """Copy a completed checkpoint to a self-contained table in a prepared folder, verifying every byte copied.

        To be called when the sinks have committed what it holds: the copy leaves that out, so that a job that starts from it
        may write elsewhere.
        """
        ...

    def discard(self, location: CheckpointLocation) -> None:
        """Delete all files of a checkpoint that was never committed. Never raises; what is left is an orphan for `clean_up`."""
        ...

    def discard_files(self, location: CheckpointLocation, files: Collection[StateFile]) -> None:
        """Delete single files that do not belong to the checkpoint after all. Never raises."""
        ...

    def clean_up(self, in_use: Collection[CheckpointId]) -> int:
        """Delete what no retained checkpoint names, except of the checkpoints that are in progress. Never raises.

        Returns how many files were deleted.
        """
        ...

    def delete_all(self) -> None:
        """Delete every checkpoint of the job, because the job has ended for good and its retention says so."""
        ...
