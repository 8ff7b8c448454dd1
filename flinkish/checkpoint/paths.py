"""Names of the files and folders of checkpoints, and checks that names in stored data do not lead outside of the table.

<checkpoint dir>/<job id>/state/                    the Delta table of the job's checkpoints
    _delta_log/                                     its log: one version for each completed checkpoint, one for each take-over
    _latest.json                                    the newest version there must be (draft: .<generation>.<random>.new)
    chk-<checkpoint id>-g<generation>/              one checkpoint
        manifest-<sha256 of this file>.parquet      its manifest, as rows
        *.parquet                                   state, written by the tasks
<checkpoint dir>/<job id>/history/                  what happened, for people
<savepoint dir>/savepoint-<job id>-<random>/        a savepoint: a table with the same inside, and one version
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import NamedTuple

from flinkish.common import safe_files
from flinkish.common.delta_calls import unusable_name
from flinkish.common.errors import ConfigurationError, CorruptCheckpointError
from flinkish.common.files.schemes import OBJECT_NAMES, is_reference, is_safe, object_root, root_of, without_user
from flinkish.common.ids import CheckpointId, Generation
from flinkish.common.paths import location

LATEST = "_latest.json"
LOG = "_delta_log"

_FOLDER = re.compile(r"chk-([0-9]{1,10})-g([0-9]{1,9})")
_MANIFEST = re.compile(r"chk-([0-9]{1,10})-g([0-9]{1,9})/manifest-([0-9a-f]{64})\.parquet")
_DRAFT = re.compile(r"_latest\.json\.([0-9]{1,9})\.[0-9a-f]+\.new")
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Folder(NamedTuple):
    """The parsed name of a checkpoint's folder."""

    checkpoint_id: CheckpointId
    generation: Generation


def folder_name(checkpoint_id: CheckpointId, generation: Generation) -> str:
    """Return the name of a checkpoint's folder; it is different for each generation."""
    return f"chk-{checkpoint_id}-g{generation}"


def parse_folder(name: str) -> Folder | None:
    """Parse the name of a checkpoint's folder; None for any other name."""
    match = _FOLDER.fullmatch(name)
    return None if match is None else Folder(CheckpointId(int(match[1])), Generation(int(match[2])))


def manifest_name(folder: str, digest: str) -> str:
    """Return the relative path of a manifest's file, whose name contains the hash of its content."""
    return f"{folder}/manifest-{digest}.parquet"


def parse_manifest(path: str) -> tuple[Folder, str] | None:
    """Parse the relative path of a manifest's file: its folder, and the SHA-256 of its content; None for any other path."""
    match = _MANIFEST.fullmatch(path)
    return None if match is None else (Folder(CheckpointId(int(match[1])), Generation(int(match[2]))), match[3])


def parse_draft(name: str) -> Generation | None:
    """Return the generation of the driver that wrote a draft of `_latest.json`; None for any other file."""
    match = _DRAFT.fullmatch(name)
    return None if match is None else Generation(int(match[1]))


def check_inside(root: PurePath, path: str) -> None:
    """Raise CorruptCheckpointError if a file that a manifest names would be outside of its table.

    Links are not checked here: `CheckpointFiles` refuses them when it opens the file.
    """
    if not is_safe(path):
        raise CorruptCheckpointError(
            f"checkpoint table {root}: its manifest names the file {path[:200]!r}, which is not inside the table",
            hint="the table was tampered with; do not restore from it.",
        )


def check_log(root: Path) -> None:
    """Raise CorruptCheckpointError if the log of a table is a link or contains links, pipes or devices.

    This is needed because delta-rs would follow them.
    """
    log = root / LOG
    safe_files.refuse_links(log)
    if not log.is_dir():
        return
    with os.scandir(log) as entries:
        for entry in entries:
            safe_files.refuse_links(log / entry.name)
            if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
                raise CorruptCheckpointError(
                    f"{log / entry.name} is not an ordinary file", hint="the storage was tampered with; remove it."
                )


def local_path(text: str, *, key: str) -> Path:
    """Return the folder that a configuration value or an argument names: a path, or a file: URL.

    `key` is the name of the value in messages. Raises ConfigurationError for other schemes and for text that is not a path.
    """
    place = location(text)
    if not place.is_local:
        raise ConfigurationError(
            f"{key} = {without_user(text)!r}: checkpoints are kept in folders and in s3:// (extra s3), gs:// (gs) and abfss:// "
            f"(azure), not at {place.scheme}://{place.host.rpartition('@')[2]}",
            hint="give a path, or a file:/// URL, that the driver and all executors reach (a mounted share on a cluster), "
            "or s3://bucket/path.",
        )
    value = place.file
    if not value.strip() or "\0" in value:
        raise ConfigurationError(f"{key} = {text!r}: expected the path of a folder", hint="such as /data/checkpoints.")
    return Path(os.path.abspath(os.path.expanduser(value)))


def table_root(text: str, *, key: str) -> PurePath:
    """Return the root that a value names, for a Delta table in or below it: in a known kind of storage, or as `local_path`."""
    found = _object_root(text, key=key)
    if found is not None or is_reference(text):
        return found or root_of(text)
    path = local_path(text, key=key)
    unusable = unusable_name(str(path))
    if unusable is not None:
        name, characters = unusable
        raise ConfigurationError(
            f"{key} = {text!r}: no Delta table can be kept in the folder {name!r}, because of the {characters!r} in its name",
            hint=f"choose a folder without {characters!r} in its path.",
        )
    return path


def durable_root(text: str, *, key: str) -> PurePath:
    """Return the root that a value names: in an object store, or else as `local_path`."""
    return _object_root(text, key=key) or local_path(text, key=key)


def _object_root(text: str, *, key: str) -> PurePath | None:
    """Return the root in an object store that a value names; None for other places.

    Raises ConfigurationError for names that an object store or deltalake would not read as they are written.
    """
    try:
        return object_root(text)
    except ValueError as error:
        raise ConfigurationError(f"{key} = {error}", hint=OBJECT_NAMES) from None


def job_folder(directory: PurePath, job_id: str) -> PurePath:
    """Return the folder of a job below the checkpoint directory."""
    if _JOB_ID.fullmatch(job_id) is None:
        raise ConfigurationError(
            f"job id {job_id!r} cannot name a folder", hint="use letters, digits, '.', '_' and '-', at most 200, not '.' first."
        )
    return directory / job_id
