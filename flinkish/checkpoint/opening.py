"""Opens a checkpoint or savepoint to start a job from, and checks whether it fits the job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from flinkish.checkpoint import paths
from flinkish.checkpoint.checkpoint_files import check_sizes, read_checkpoint, read_newest, read_reference
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.job_table import brief
from flinkish.checkpoint.manifest import Manifest, OperatorShape
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CorruptCheckpointError, FlinkishError, ForeignCheckpointError
from flinkish.common.files.schemes import files_at, is_reference
from flinkish.common.ids import OperatorUid

KEY = "execution.state-recovery.path"
_SELECTOR = re.compile(r"(?P<path>.+)[@#](?P<version>v?)(?P<number>[0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Selection:
    """The table that execution.state-recovery.path names, and a checkpoint or version of it; without these, the newest one."""

    path: PurePath
    checkpoint_id: int | None = None
    version: int | None = None


def parse_selection(text: str) -> Selection:
    """Read `path`, `path@id`, `path#id` (id of a checkpoint) or `path@v7` (version of the table, as Spark writes it).

    A folder whose name has such an ending itself takes precedence.
    """
    match = _SELECTOR.fullmatch(text)
    if match is None or (not is_reference(text) and paths.local_path(text, key=KEY).is_dir()):
        return Selection(paths.table_root(text, key=KEY))
    path, number = paths.table_root(match["path"], key=KEY), int(match["number"])
    return Selection(path, version=number) if match["version"] else Selection(path, checkpoint_id=number)


def table_of(text: str) -> PurePath:
    """Return the root of the table that execution.state-recovery.path names; see `open_checkpoint` for its forms."""
    return _into_table(parse_selection(text)).path


def open_checkpoint(text: str, *, signing_key: SigningKey) -> StoredCheckpoint:
    """Open the checkpoint that execution.state-recovery.path names; see `parse_selection` for its forms.

    The path may be a savepoint, a job's folder below the checkpoint directory, its `state` table, or one checkpoint's folder
    (`.../chk-7-g1`) in it. Nothing is changed there, and no generation is claimed.
    Raises ForeignCheckpointError if there is no checkpoint of flinkish, CorruptCheckpointError if it is damaged.
    """
    selection = _into_table(parse_selection(text))
    root = selection.path
    if selection.checkpoint_id is None and selection.version is None:
        log, newest = read_newest(root, lambda: _open(root, None, text), signing_key)
    else:
        log = _open(root, selection.version, text)
        newest = read_checkpoint(root, log, signing_key)
    if newest is None:
        raise ForeignCheckpointError(
            f"{KEY} = {text!r}: version {log.version} of the table holds no checkpoint: none was completed by then",
            hint="give another version, or start without a checkpoint.",
        )
    if selection.checkpoint_id is None or newest.checkpoint_id == selection.checkpoint_id:
        return newest
    for reference in newest.manifest.previous:
        if reference.checkpoint_id == selection.checkpoint_id:
            older = read_reference(root, reference, signing_key)
            check_sizes(older)
            return older
    retained = [*(reference.checkpoint_id for reference in newest.manifest.previous), newest.checkpoint_id]
    raise ForeignCheckpointError(
        f"{KEY} = {text!r}: checkpoint {selection.checkpoint_id} is not retained there, these are: {retained}",
        hint="execution.checkpointing.num-retained says how many are kept.",
    )


def _into_table(selection: Selection) -> Selection:
    path = selection.path
    folder = paths.parse_folder(path.name)
    if folder is not None and selection == Selection(path) and files_at(path.parent).is_folder(paths.LOG):
        return Selection(path.parent, checkpoint_id=folder.checkpoint_id)
    files = files_at(path)
    if not files.is_folder(paths.LOG) and files.is_folder("state"):
        return Selection(path / "state", selection.checkpoint_id, selection.version)
    return selection


def _open(root: PurePath, version: int | None, text: str) -> DeltaLog:
    files = files_at(root)
    try:
        log = DeltaLog.open(root, version) if files.is_folder() else None
    except FlinkishError:
        raise
    except Exception as error:
        newest = None
        with contextlib.suppress(Exception):
            newest = DeltaLog.open(root)
        if version is not None and newest is not None:
            raise ForeignCheckpointError(
                f"{KEY} = {text!r}: the table has no version {version} (any more); its newest version is {newest.version}",
                hint="DESCRIBE HISTORY, or `path@<checkpoint id>` for a retained checkpoint.",
            ) from error
        raise CorruptCheckpointError(
            f"{KEY} = {text!r}: the Delta log of {root} cannot be read: {brief(error)}",
            hint="the table was damaged or cannot be accessed; restore from another savepoint.",
        ) from error
    if log is not None:
        return log
    if files.exists(paths.LATEST) or (files.is_folder() and any(map(paths.parse_folder, files.names()))):
        raise CorruptCheckpointError(
            f"{KEY} = {text!r}: {root} was a checkpoint table, but its {paths.LOG} is missing",
            hint="restore from another checkpoint or savepoint.",
        )
    what = "it is not a checkpoint or savepoint of flinkish (no Delta table)" if files.exists("") else "there is no such folder"
    raise ForeignCheckpointError(
        f"{KEY} = {text!r}: {what}",
        hint="give the path of a savepoint, of a job's folder below execution.checkpointing.dir, or `path@<checkpoint id>`.",
    )


def check_operators(
    manifest: Manifest, operators: Mapping[OperatorUid, OperatorShape], *, allow_unclaimed: bool, where: str
) -> tuple[OperatorUid, ...]:
    """Check that a program can take over a checkpoint's state, before anything is restored.

    Returns the uids that have state but no operator in the program. With `allow_unclaimed`
    (execution.state-recovery.ignore-unclaimed-state) that state is dropped, otherwise it is an error, as in Flink.
    A changed maximum parallelism is an error if there is keyed state: keys would be looked up in the wrong key group.
    """
    old = {shape.uid: shape for shape in manifest.coordinator.operators}
    keyed = {uid for file in manifest.files if file.key_groups[1] >= 0 for uid in file.operator_uids}
    stateful = {uid for file in manifest.files for uid in file.operator_uids}
    stateful |= {source.uid for source in manifest.coordinator.sources if source.splits or source.enumerator is not None}
    stateful |= {committable.operator_uid for committable in manifest.committables}
    for uid, shape in operators.items():
        before = old.get(uid)
        if before is not None and uid in keyed and before.max_parallelism != shape.max_parallelism:
            raise ForeignCheckpointError(
                f"{where}: operator {uid} ({shape.name}) has max parallelism {shape.max_parallelism}, "
                f"its keyed state was written with {before.max_parallelism}",
                hint=f"set_max_parallelism({before.max_parallelism}); the number of key groups cannot change.",
            )
    unclaimed = tuple(sorted(uid for uid in stateful if uid not in operators))
    if unclaimed and not allow_unclaimed:
        names = ", ".join(f"{uid} ({old[OperatorUid(uid)].name})" if uid in old else uid for uid in unclaimed)
        raise ForeignCheckpointError(
            f"{where}: checkpoint {manifest.checkpoint_id} holds state of operators that the program does not have: {names}",
            hint="give operators the uids they had, or set execution.state-recovery.ignore-unclaimed-state to leave it behind.",
        )
    return tuple(OperatorUid(uid) for uid in unclaimed)
