"""Deletes a savepoint, and nothing else: a folder that contains anything but a savepoint is refused."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from flinkish.checkpoint import paths
from flinkish.checkpoint.checkpoint_files import read_checkpoint
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.job_table import brief
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CheckpointError, CorruptCheckpointError, FlinkishError, ForeignCheckpointError
from flinkish.common.files.checkpoint_files import CheckpointFiles
from flinkish.common.files.schemes import files_at
from flinkish.runtime import faults

_KEY = "savepoint-path"
_HINT = "give the path that was printed when the savepoint was taken: .../savepoint-<job>-<id>."
#: Names of files that delta-rs writes into a log.
_LOG_FILE = re.compile(rf"{paths.LOG}/(?:[0-9]{{20}}\..+|_last_checkpoint)")


def savepoint_root(text: str) -> PurePath:
    """Return the root that the path of a savepoint names; raises ConfigurationError if the text is not a path."""
    return paths.table_root(text, key=_KEY)


def is_at(root: PurePath, other: PurePath) -> bool:
    """Return whether two roots are the same place, even if one of them is a link."""
    if isinstance(root, Path) and isinstance(other, Path):
        return os.path.realpath(root) == os.path.realpath(other)
    return root == other


def dispose(text: str) -> None:
    """Delete the savepoint at a path or URL.

    The folder is checked first; it is deleted only if it contains a complete savepoint, its log, and nothing else. The log is
    deleted first, so that an interrupted deletion does not leave a savepoint that looks complete.
    Raises ForeignCheckpointError if it is not a savepoint, CorruptCheckpointError if it is damaged, ConfigurationError if the
    text is not a path; in these cases nothing was deleted. Raises CheckpointError if a file cannot be deleted.
    """
    root = savepoint_root(text)
    files = files_at(root)
    try:
        savepoint = _read(root, files, text)
        found = sorted(_all_files(files))
        known = {savepoint.manifest_path, *(file.path for file in savepoint.manifest.files)}
        unknown = [name for name in found if name not in known and _LOG_FILE.fullmatch(name) is None]
    except OSError as error:
        raise CheckpointError(f"the savepoint {text!r} cannot be read: {error}") from error
    if unknown:
        raise ForeignCheckpointError(
            f"the savepoint {text!r} is not deleted: its folder contains other files, such as {unknown[0]!r}",
            hint="move them, or delete the folder by hand.",
        )
    _delete(files, [name for name in found if name not in known], sorted(known), text)


def _read(root: PurePath, files: CheckpointFiles, text: str) -> StoredCheckpoint:
    """Return the savepoint of a folder, and raise if it is anything else."""
    if not files.is_folder():
        raise ForeignCheckpointError(f"there is no savepoint at {text!r}: there is no such folder", hint=_HINT)
    files.refuse_links(paths.LOG)
    if files.exists(paths.LATEST) or (files.is_folder("state") and not files.is_folder(paths.LOG)):
        raise ForeignCheckpointError(
            f"{text!r} is not a savepoint: it has the checkpoints of a job, which the job itself deletes", hint=_HINT
        )
    if not files.is_folder(paths.LOG):
        raise ForeignCheckpointError(f"{text!r} is not a savepoint of flinkish: it has no table", hint=_HINT)
    try:
        log = DeltaLog.open(root)
        # The key tells whether the values may be unpickled, which is not done here.
        savepoint = None if log is None else read_checkpoint(root, log, SigningKey(bytes(32)))
    except FlinkishError:
        raise
    except Exception as error:
        raise CorruptCheckpointError(f"the savepoint {text!r} cannot be read: {brief(error)}") from error
    if savepoint is None or log is None:
        raise ForeignCheckpointError(f"{text!r} is not a savepoint of flinkish: its table is empty", hint=_HINT)
    if not savepoint.manifest.kind.is_savepoint or log.version != 0:
        raise ForeignCheckpointError(
            f"{text!r} is not a savepoint as it was taken: it is a table of job {savepoint.manifest.job_id} of several versions",
            hint=_HINT,
        )
    return savepoint


def _all_files(files: CheckpointFiles) -> Iterator[str]:
    for name in files.names():
        if files.is_folder(name):
            yield from files.files_below(name)
        else:
            yield name


def _delete(files: CheckpointFiles, log: list[str], others: list[str], text: str) -> None:
    try:
        for name in (*log, *others):
            faults.reach(faults.Point.DELETING)
            with contextlib.suppress(FileNotFoundError):
                files.remove(name)
        for folder in sorted(files.names()):
            files.remove_empty_folders(folder)
        files.remove_empty_folders("")
    except OSError as error:
        raise CheckpointError(f"the savepoint {text!r} could not be deleted completely: {error}") from error
