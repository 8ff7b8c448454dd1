"""Checkpoints in their storage: what goes in (drafts), where their files are, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from flinkish.checkpoint.manifest import CheckpointKind, Committable, CoordinatorState, Manifest
from flinkish.common.ids import CheckpointId
from flinkish.runtime.protocol import Restore, StateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLocation:
    """Where the tasks write their state files for one checkpoint; goes into the Barrier."""

    #: Folder for the files; it exists.
    directory: str
    #: Folder of the Delta table that will list the files; their paths are relative to it.
    root: str
    #: The newest checkpoint in that table, whose files an incremental one may contain; None if there is none.
    base: CheckpointId | None = None


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
