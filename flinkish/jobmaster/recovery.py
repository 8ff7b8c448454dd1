"""Determines what a job starts from: its cluster id's record, its checkpoint storage, and the checkpoint to restore, if any."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flinkish.checkpoint import paths
from flinkish.checkpoint.manifest import OperatorShape
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import options
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, ForeignCheckpointError
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import IdSource, LineageId, OperatorUid
from flinkish.graph.job_graph import JobGraph
from flinkish.graph.runtime_mode import is_batch
from flinkish.jobmaster import program_parts
from flinkish.jobmaster.ha import ClusterRecord, YarnAttempt
from flinkish.program.dead_letters import DEAD_LETTERS_UID
from flinkish.runtime.state.rows import RUNTIME_STATES, SCHEMA

if TYPE_CHECKING:
    from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage

_log = logging.getLogger("flinkish.jobmaster.recovery")


def cluster_record(configuration: Configuration, *, checkpointing: bool) -> ClusterRecord | None:
    """Return the record of the cluster id, by which a job is found again after its process has ended.

    None if no id is set, or if the job takes no checkpoints. Raises ConfigurationError for an id without a folder for its record.
    """
    cluster_id = configuration.get(options.HA_CLUSTER_ID)
    if cluster_id is None:
        return None
    if not checkpointing:
        _log.warning("high-availability.cluster-id = %r has no effect: the job takes no checkpoints.", cluster_id)
        return None
    directory = configuration.get(options.HA_STORAGE_PATH) or configuration.get(options.CHECKPOINTS_DIRECTORY)
    if directory is None:
        raise ConfigurationError(
            f"high-availability.cluster-id = {cluster_id!r}: there is no folder that outlives the process",
            hint="set execution.checkpointing.dir.",
        )
    folder = paths.durable_root(directory, key=options.HA_STORAGE_PATH.key)
    return ClusterRecord(folder, cluster_id, YarnAttempt.of(os.environ))


def signing_key(configuration: Configuration) -> SigningKey:
    return SigningKey.load(configuration.get(options.CHECKPOINT_HMAC_KEY_FILE))


def open_storage(
    configuration: Configuration, job_id: str, *, lineage: LineageId, clock: Clock, ids: IdSource, temporary: Path
) -> DeltaCheckpointStorage:
    """Take over the job's checkpoint storage, or create one; in `temporary` if no folder is configured.

    `lineage`: the lineage of new checkpoints if there are none yet.
    Raises what the storage raises: ConfigurationError, CheckpointError.
    """
    from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage

    directory = configuration.get(options.CHECKPOINTS_DIRECTORY)
    # Checked before signing_key, which may create a key.
    root = temporary if directory is None else paths.table_root(directory, key=options.CHECKPOINTS_DIRECTORY.key)
    return DeltaCheckpointStorage(
        root,
        job_id,
        lineage=lineage,
        signing_key=signing_key(configuration),
        clock=clock,
        ids=ids,
        num_retained=configuration.get(options.MAX_RETAINED_CHECKPOINTS),
        durable=directory is not None,
    )


def find_checkpoint(configuration: Configuration, storage: DeltaCheckpointStorage | None) -> StoredCheckpoint | None:
    """Return the checkpoint to start from: the last one of this job, else the one that execution.state-recovery.path names.

    Does not take over the storage. Raises CorruptCheckpointError or ForeignCheckpointError; never falls back to an older one.
    """
    latest = storage.peek() if storage is not None else None
    if latest is not None:
        return latest
    path = configuration.get(options.SAVEPOINT_PATH)
    if path is None:
        return None
    if is_batch(configuration):
        raise ConfigurationError(
            f"{options.SAVEPOINT_PATH.key} is set, but the job runs in batch mode, which always starts from the beginning",
            hint="leave the key out, or set execution.runtime-mode to STREAMING.",
        )
    from flinkish.checkpoint.opening import open_checkpoint, parse_selection

    parse_selection(path)  # raises before signing_key, which may create a key
    key = signing_key(configuration)
    checkpoint = open_checkpoint(path, signing_key=key)
    if not checkpoint.trusted and not configuration.get(options.SAVEPOINT_ALLOW_UNTRUSTED):
        raise ForeignCheckpointError(
            f"{options.SAVEPOINT_PATH.key} = {path!r}: checkpoint {checkpoint.checkpoint_id} of job {checkpoint.manifest.job_id} "
            f"was signed by another key than ours ({key.path})",
            hint=f"set {options.CHECKPOINT_HMAC_KEY_FILE.key} to the key that it was made with. To start from it all the same, "
            f"set {options.SAVEPOINT_ALLOW_UNTRUSTED.key}: pickles in it are not decoded, and what its sinks were about to "
            "commit is left alone.",
        )
    return checkpoint


def recorded_max_parallelism(checkpoint: StoredCheckpoint | None) -> Mapping[OperatorUid, int]:
    """Return the recorded maximum parallelism of each operator, on which the key groups depend."""
    if checkpoint is None:
        return {}
    return {shape.uid: shape.max_parallelism for shape in checkpoint.manifest.coordinator.operators}


def check_fits(checkpoint: StoredCheckpoint, graph: JobGraph, *, allow_unclaimed: bool) -> None:
    """Raise if the program cannot take over the state of a checkpoint.

    Raises ForeignCheckpointError for state of operators that the program does not have (unless allowed), for state of an operator
    that is of another kind now (program/state_kinds.py), and for a changed maximum parallelism. The watermark that the runtime
    stores for an operator is ignored, so operators without own state may be added or removed.
    """
    from flinkish.checkpoint.opening import check_operators

    shapes = {node.uid: program_parts.operator_shape(vertex, node) for vertex, node in program_parts.operators(graph)}
    # The job commits dead letters of a checkpoint even if it keeps none itself.
    shapes[DEAD_LETTERS_UID] = OperatorShape(uid=DEAD_LETTERS_UID, name="dead letters", parallelism=1, max_parallelism=1, kind="")
    manifest, where = checkpoint.manifest, checkpoint.external_path
    unclaimed = check_operators(manifest, shapes, allow_unclaimed=True, where=where)
    _check_kinds(checkpoint, shapes)
    if not unclaimed:
        return
    if allow_unclaimed:
        _log.warning("State of operators %s in %s is left behind.", ", ".join(unclaimed), where)
        return
    stateless = set(unclaimed) - _with_state(checkpoint, frozenset(unclaimed))
    files = tuple(
        replace(file, operator_uids=tuple(uid for uid in file.operator_uids if uid not in stateless)) for file in manifest.files
    )
    check_operators(replace(manifest, files=files), shapes, allow_unclaimed=False, where=where)


def _check_kinds(checkpoint: StoredCheckpoint, shapes: Mapping[OperatorUid, OperatorShape]) -> None:
    """Refuse state of operators that keep another kind of state now: it would be lost, or read as state of the new kind."""
    coordinator = checkpoint.manifest.coordinator
    changed = {old.uid: old for old in coordinator.operators if old.uid in shapes and old.kind != shapes[old.uid].kind}
    if not changed:
        return
    # A source that is read on the driver has no position before its end.
    without_position = {source.uid for source in coordinator.sources if source.enumerator is None}
    for uid in sorted(_with_state(checkpoint, frozenset(changed)) - without_position):
        raise ForeignCheckpointError(
            f"{checkpoint.external_path}: operator {uid} ({shapes[uid].name}) cannot take over the state that has its uid: that "
            f"is of {changed[uid].kind} ({changed[uid].name}), but in this program the operator is {shapes[uid].kind}",
            hint="give the operator another uid, to start without state, and set "
            f"{options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key} to leave the old state behind.",
        )


def _with_state(checkpoint: StoredCheckpoint, uids: frozenset[OperatorUid]) -> set[OperatorUid]:
    """Return the operators, among `uids`, that have their own state in a checkpoint, whose files are verified before."""
    import pyarrow.parquet as pq

    from flinkish.checkpoint.checkpoint_files import verify_files

    verify_files(checkpoint)
    manifest = checkpoint.manifest
    found = {source.uid for source in manifest.coordinator.sources}
    found |= {committable.operator_uid for committable in manifest.committables}
    for file in manifest.files:
        if uids.isdisjoint(file.operator_uids):
            continue
        with files_at(checkpoint.root).open(file.path) as stream:
            # Without threads, for the reason in runtime/state/restore.py.
            table = pq.ParquetFile(stream).read(columns=["operator_uid", "state_name", "state_kind"], use_threads=False)
        distinct = table.group_by(["operator_uid", "state_name", "state_kind"]).aggregate([]).to_pylist()
        found |= {
            row["operator_uid"] for row in distinct if row["state_name"] not in RUNTIME_STATES and row["state_kind"] != SCHEMA
        }
    return {uid for uid in uids if uid in found}
