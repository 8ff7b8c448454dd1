"""Writes the files that complete a checkpoint: its manifest and, for a savepoint, the table of its own."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import flinkish
from flinkish.checkpoint import paths
from flinkish.checkpoint.checkpoint_files import manifest_rows
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.job_table import brief
from flinkish.checkpoint.manifest import Manifest, sha256
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CheckpointError, CommitOutcomeUnknownError
from flinkish.common.files.checkpoint_files import CheckpointFiles
from flinkish.runtime import faults


def own_versions() -> Mapping[str, str]:
    """Return the versions that a manifest records of its writer."""
    return {"flinkish": flinkish.__version__, "python": platform.python_version()}


def write_manifest(
    manifest: Manifest, table: CheckpointFiles, key: SigningKey, *, durable: bool
) -> tuple[str, Mapping[str, tuple[int, int]]]:
    """Write the manifest and return its path with all files of the checkpoint, by path: size and rows."""
    content, rows = manifest_rows(manifest, key)
    folder = paths.folder_name(manifest.checkpoint_id, manifest.generation)
    path = paths.manifest_name(folder, sha256(content))
    with table.create(path) as stream:
        stream.write(content)
    if durable:
        for inside in (path, folder, ""):
            table.sync(inside)
    files = {file.path: (file.size, file.rows) for file in manifest.files}
    if len(files) != len(manifest.files):
        raise CheckpointError(f"checkpoint {manifest.checkpoint_id}: two tasks acknowledged a state file of the same name")
    return path, {**files, path: (len(content), rows)}


def write_savepoint(
    files: CheckpointFiles,
    manifest: Manifest,
    key: SigningKey,
    *,
    durable: bool,
    time: int,
    delta_log: type[DeltaLog] = DeltaLog,
) -> StoredCheckpoint:
    """Make a savepoint of a folder with its state files, in one commit, which creates the table. `time` is in milliseconds.

    Raises CommitOutcomeUnknownError if it is not known whether the commit happened, and CheckpointError if it did not.
    """
    root = files.root
    path, listed = write_manifest(manifest, files, key, durable=durable)
    faults.reach(faults.Point.MANIFEST_WRITTEN)
    details = {"flinkish.savepoint": str(manifest.checkpoint_id), "flinkish.job": manifest.job_id}
    failure: Exception | None = None
    try:
        delta_log.create(root, listed, details, time=time)
    except Exception as error:
        failure = error
    try:
        log = delta_log.open(root)
        named = log is not None and path in log.files()
    except Exception as error:
        raise CommitOutcomeUnknownError(
            f"savepoint {root}: it is not known whether it was written: {brief(failure or error)}"
        ) from error
    if not named:
        raise CheckpointError(f"savepoint {root} could not be written: {brief(failure)}") from failure
    if durable:
        files.sync_log(-1)
    return StoredCheckpoint(manifest=manifest, root=root, version=0, manifest_path=path, trusted=True)
