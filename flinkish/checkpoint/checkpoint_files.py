"""Reads and writes a checkpoint's files: the manifest, the marker of the newest version, and state files, which it checks."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.checkpoint import manifest as manifests
from flinkish.checkpoint import paths
from flinkish.checkpoint.delta_log import STATE_SCHEMA, DeltaLog
from flinkish.checkpoint.manifest import CheckpointReference, Manifest
from flinkish.checkpoint.signing import Signature, SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CorruptCheckpointError, ForeignCheckpointError
from flinkish.common.files.checkpoint_files import NewFile, StoreReference
from flinkish.common.files.schemes import files_at
from flinkish.runtime.protocol import StateFile

_DAMAGED = "the table was damaged; restore from another checkpoint (path@id) or from a savepoint."
_KIND = "coordinator"
#: Maximum size of a manifest, which is read into memory at once; it is enough for the positions of millions of splits.
MANIFEST_LIMIT = 1 << 30
#: Seconds to wait, one after the other, for a list of objects that shows what exists.
LIST_WAITS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
#: Number of bytes of a state file that are read at a time.
_CHUNK = 1 << 20
#: Maximum size of the marker in bytes; it contains a few numbers as JSON.
_LATEST_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The newest version that a table must have, because Delta cannot detect that the last entry of a log was lost."""

    version: int
    checkpoint_id: int
    generation: int


def manifest_rows(manifest: Manifest, key: SigningKey) -> tuple[bytes, int]:
    """Return a Parquet file with the manifest, its signature, and readable rows for people, and the number of all rows."""
    data = manifests.encode(manifest)
    signature = key.sign(data)
    splits = [(source.uid, split) for source in manifest.coordinator.sources for split in source.splits]
    rows = 2 + len(splits)
    columns: dict[str, list[Any]] = {
        "operator_uid": [manifest.job_id, manifest.job_id, *(uid for uid, _ in splits)],
        "state_name": ["manifest", "signature", *["split"] * len(splits)],
        "state_kind": [_KIND] * rows,
        "key_group": [-1] * rows,
        "key": [None, signature.key_id.encode(), *(split.split_id.encode() for _, split in splits)],
        "key_json": [None, None, *(json.dumps(split.split_id) for _, split in splits)],
        "namespace": [None] * rows,
        "namespace_json": [None] * rows,
        "user_key": [None] * rows,
        "user_key_json": [None] * rows,
        "value": [data, signature.mac, *[None] * len(splits)],
        "value_json": [manifests.to_json(manifest), None, *(manifests.readable_json(split.split) for _, split in splits)],
        "checkpoint_id": [manifest.checkpoint_id] * rows,
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns, schema=STATE_SCHEMA), buffer, compression="zstd")
    return buffer.getvalue(), rows


def read_checkpoint(root: PurePath, log: DeltaLog, key: SigningKey) -> StoredCheckpoint | None:
    """Read and check the checkpoint in a version of a table; None if there is none.

    Checks everything except the content of state files: the tasks check it when they read them (see also `verify_files`).
    """
    where = f"checkpoint table {root} version {log.version}"
    if not log.has_state_schema:
        raise ForeignCheckpointError(
            f"{where}: a Delta table, but its columns are not those of a state table",
            hint="execution.state-recovery.path must name a checkpoint or savepoint table made by flinkish.",
        )
    try:
        active = log.files()
    except Exception as error:
        raise CorruptCheckpointError(f"{where}: the Delta log cannot be read: {error}", hint=_DAMAGED) from error
    if not active:
        return None
    found = [path for path in active if paths.parse_manifest(path) is not None]
    if len(found) != 1:
        raise CorruptCheckpointError(f"{where}: expected one manifest, got {len(found)} among {len(active)} files", hint=_DAMAGED)
    stored = _read_manifest(root, found[0], key, version=log.version, size=active[found[0]], where=where)
    manifest = stored.manifest
    expected = {file.path: file.size for file in manifest.files}
    listed = {path: size for path, size in active.items() if path != found[0]}
    if expected != listed:
        different = sorted(path for path in expected.keys() | listed.keys() if expected.get(path) != listed.get(path))
        raise CorruptCheckpointError(
            f"{where}: the Delta log and the manifest of checkpoint {manifest.checkpoint_id} "
            f"list different files: {different[:5]}",
            hint=_DAMAGED,
        )
    check_sizes(stored)
    return stored


def _read_manifest(root: PurePath, path: str, key: SigningKey, *, version: int, size: int | None, where: str) -> StoredCheckpoint:
    """Read the file of a manifest, check it against its name, and decode it."""
    name = paths.parse_manifest(path)
    if name is None:
        raise CorruptCheckpointError(f"{where}: {path[:200]!r} is not the name of a manifest", hint=_DAMAGED)
    paths.check_inside(root, path)
    try:
        content = files_at(root).read(path, limit=MANIFEST_LIMIT)
    except OSError as error:
        raise CorruptCheckpointError(f"{where}: {path} cannot be read: {error}", hint=_DAMAGED) from error
    if size is not None and len(content) != size:
        raise CorruptCheckpointError(f"{where}: {path} has {len(content)} bytes, expected {size}", hint=_DAMAGED)
    got = manifests.sha256(content)
    named, expected = name
    if got != expected:
        raise CorruptCheckpointError(f"{where}: {path} has SHA-256 {got}, expected {expected}", hint=_DAMAGED)
    data, signature = _unpack(content, where=f"{where}: {path}")
    manifest = manifests.decode(data, where=where)
    folder = paths.Folder(manifest.checkpoint_id, manifest.generation)
    if folder != named:
        raise CorruptCheckpointError(
            f"{where}: {path} holds checkpoint {folder.checkpoint_id} of generation {folder.generation}", hint=_DAMAGED
        )
    trusted = signature.key_id == key.key_id
    if trusted and not key.verify(data, signature):
        raise CorruptCheckpointError(
            f"{where}: the signature of checkpoint {manifest.checkpoint_id} is wrong, though its key is ours",
            hint="the manifest was tampered with; do not restore from it.",
        )
    return StoredCheckpoint(manifest=manifest, root=root, version=version, manifest_path=path, trusted=trusted)


def read_reference(root: PurePath, reference: CheckpointReference, key: SigningKey) -> StoredCheckpoint:
    """Read a retained checkpoint that is not the newest one; its state files are not checked."""
    where = f"checkpoint table {root} checkpoint {reference.checkpoint_id}"
    return _read_manifest(root, reference.manifest_path, key, version=reference.version, size=None, where=where)


def _unpack(content: bytes, *, where: str) -> tuple[bytes, Signature]:
    try:
        # Without threads, for the reason in restore.py.
        parquet = pq.ParquetFile(pa.BufferReader(content))
        table = parquet.read(columns=["state_name", "state_kind", "key", "value"], use_threads=False)
        rows = {row["state_name"]: row for row in table.slice(0, 2).to_pylist() if row["state_kind"] == _KIND}
        return rows["manifest"]["value"], Signature(rows["signature"]["key"].decode(), rows["signature"]["value"])
    except (pa.ArrowException, OSError, KeyError, AttributeError, ValueError) as error:
        raise CorruptCheckpointError(f"{where}: not a manifest: {type(error).__name__}: {error}", hint=_DAMAGED) from error


def check_sizes(checkpoint: StoredCheckpoint) -> None:
    """Raise CorruptCheckpointError unless every state file exists and has its length."""
    files = files_at(checkpoint.root)
    for file in checkpoint.manifest.files:
        paths.check_inside(checkpoint.root, file.path)
        try:
            size = files.size(file.path)
        except OSError as error:
            raise _damaged(checkpoint, file, f"cannot be read: {error.strerror}") from error
        if size != file.size:
            raise _damaged(checkpoint, file, f"has {size} bytes, expected {file.size}")


def verify_files(checkpoint: StoredCheckpoint) -> None:
    """Raise CorruptCheckpointError unless every state file has its length and SHA-256; reads all of them."""
    check_sizes(checkpoint)
    files = files_at(checkpoint.root)
    for file in checkpoint.manifest.files:
        try:
            with files.open(file.path) as stream:
                _verify(checkpoint, file, stream)
        except OSError as error:
            raise _damaged(checkpoint, file, f"cannot be read: {error.strerror}") from error


def copy_verified(checkpoint: StoredCheckpoint, file: StateFile, root: PurePath) -> None:
    """Copy a state file into another table and make it durable.

    Raises CorruptCheckpointError if its content does not match the manifest.
    """
    paths.check_inside(checkpoint.root, file.path)
    with files_at(checkpoint.root).open(file.path) as source, files_at(root).create(file.path) as copy:
        _verify(checkpoint, file, source, copy)
        copy.sync()


def _verify(checkpoint: StoredCheckpoint, file: StateFile, source: IO[bytes], copy: NewFile | None = None) -> None:
    """Read a state file to its end, copy what is read, and check its SHA-256."""
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        if copy is not None:
            copy.write(chunk)
    if digest.hexdigest() != file.sha256:
        raise _damaged(checkpoint, file, f"has SHA-256 {digest.hexdigest()}, expected {file.sha256}")


def _damaged(checkpoint: StoredCheckpoint, file: StateFile, what: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"checkpoint {checkpoint.checkpoint_id} in {checkpoint.root}: {file.path} {what}; nothing was restored", hint=_DAMAGED
    )


def write_latest(root: PurePath, latest: Latest, *, sync: bool) -> None:
    """Write the marker of the newest version of a table."""
    body = msgspec.to_builtins(latest)
    content = json.dumps({**body, "sha256": _digest(body)}).encode()
    # The generation in the draft's name identifies its writer, in case the draft is left behind.
    files_at(root).replace(paths.LATEST, content, sync=sync, draft=f".{latest.generation}")


def read_latest(root: PurePath) -> Latest | None:
    """Return the newest version that a table must have; None without a marker (a savepoint, or a table copied by hand)."""
    file = root / paths.LATEST
    try:
        content = files_at(root).read(paths.LATEST, limit=_LATEST_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CorruptCheckpointError(f"{file} cannot be read: {error}", hint=_DAMAGED) from error
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, msgspec.ValidationError):
        body = json.loads(content)
        digest = body.pop("sha256")
        if digest == _digest(body):
            return msgspec.convert(body, Latest)
    raise CorruptCheckpointError(
        f"{file} is damaged: it holds {len(content)} bytes that do not match their own hash",
        hint="remove it to take the newest version of the table as it is, or restore from a savepoint.",
    )


def _digest(body: dict[str, Any]) -> str:
    return manifests.sha256(json.dumps(body, sort_keys=True).encode())


def read_newest(root: PurePath, open_log: Callable[[], DeltaLog], key: SigningKey) -> tuple[DeltaLog, StoredCheckpoint | None]:
    """Open the newest version of a table and read its checkpoint, even while a driver commits and cleans up.

    Raises CorruptCheckpointError like `read_checkpoint`, and if the log ends at an earlier version than its marker says.
    """
    waits = iter(LIST_WAITS if isinstance(root, StoreReference) else ())
    while True:
        # Read the marker first: it must not be newer than the log with which it is compared.
        latest = read_latest(root)
        log = open_log()
        try:
            checkpoint = read_checkpoint(root, log, key)
            if latest is not None:
                _check_latest(root, log, checkpoint, latest)
            return log, checkpoint
        except CorruptCheckpointError:
            # Missing files may have been replaced in the meantime.
            if open_log().version == log.version:
                # An object store may list the newest entry late.
                wait = next(waits, None)
                if wait is None or latest is None or log.version >= latest.version:
                    raise
                time.sleep(wait)


def _check_latest(root: PurePath, log: DeltaLog, checkpoint: StoredCheckpoint | None, latest: Latest) -> None:
    got = 0 if checkpoint is None else checkpoint.checkpoint_id
    if log.version < latest.version or got < latest.checkpoint_id:
        raise CorruptCheckpointError(
            f"checkpoint table {root}: its log ends with version {log.version} and checkpoint {got}, "
            f"expected version {latest.version} and checkpoint {latest.checkpoint_id}: entries of _delta_log are lost",
            hint=f"to go on from the older checkpoint all the same, give it in execution.state-recovery.path as {root}@{got}.",
        )
