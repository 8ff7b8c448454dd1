"""Decides which files of a checkpoint table are no longer needed; deletes nothing itself.

Everything is classified before anything is deleted. The rules protect, in this order: files of later generations, files that a
retained manifest names, and files of checkpoints in progress.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from flinkish.checkpoint import paths
from flinkish.checkpoint.paths import Folder
from flinkish.common.ids import CheckpointId, Generation

_LOG_ENTRY = re.compile(r"([0-9]{20})\.(json|checkpoint\.parquet)")


@dataclass(frozen=True, slots=True)
class Removal:
    """The files to delete, as relative paths in the order of deletion, and the folders that are empty afterwards."""

    files: tuple[str, ...]
    folders: tuple[Folder, ...]


def plan(
    found: Mapping[Folder, Sequence[str]],
    *,
    retained: Sequence[tuple[CheckpointId, AbstractSet[str]]],
    in_use: Collection[CheckpointId],
    generation: Generation,
) -> Removal:
    """Plan a clean-up.

    `found` has the existing folders with their files; `retained` the retained checkpoints, oldest first, with the files that
    their manifests name; `in_use` the checkpoints in progress or of unknown outcome. Folders of higher generations are not
    touched: if there are any, this process is stale and does not know their state.

    Manifests are deleted first, oldest first, so that a crash never leaves a manifest whose files have been deleted.
    """
    needed = {path for _, files in retained for path in files}
    newest = retained[-1][0] if retained else 0
    manifests: list[str] = []
    others: list[str] = []
    folders: list[Folder] = []
    for folder, files in sorted(found.items()):
        if folder.generation > generation or (folder.checkpoint_id in in_use and folder.generation == generation):
            continue
        garbage = [path for path in files if path not in needed]
        for path in garbage:
            (others if paths.parse_manifest(path) is None else manifests).append(path)
        # For an id above the newest completed one, the folder's name is the only record that the id was used.
        if len(garbage) == len(files) and folder.checkpoint_id < newest:
            folders.append(folder)
    return Removal((*manifests, *others), tuple(folders))


def obsolete_log_entries(names: Sequence[str], *, oldest_needed: int) -> tuple[str, ...]:
    """Return the entries of a Delta log that are not needed to read `oldest_needed` or any later version, oldest first.

    These are the entries before the newest summary (Delta calls it a checkpoint) that is not newer than `oldest_needed`.
    """
    entries = {name: (int(match[1]), match[2]) for name in names if (match := _LOG_ENTRY.fullmatch(name)) is not None}
    summaries = [version for version, kind in entries.values() if kind != "json" and version <= oldest_needed]
    if not summaries:
        return ()
    return tuple(
        sorted((name for name, (version, _) in entries.items() if version < max(summaries)), key=lambda name: entries[name])
    )
