"""The manifest of a checkpoint, with everything except the rows of state: frozen plain data, stored as MessagePack in the table.

The manifest defines a checkpoint: a state file that it does not list does not belong to the checkpoint, and a listed file must
have the recorded size and SHA-256. Nothing in it is pickled.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

import msgspec

from flinkish.common.errors import CorruptCheckpointError, ForeignCheckpointError
from flinkish.common.ids import CheckpointId, Generation, LineageId, OperatorUid
from flinkish.runtime.protocol import SplitState, StateFile

#: Increased whenever older versions of flinkish cannot read the new format. Since 3, state files may replace rows of others;
#: since 4, there is no hash of the program's structure.
FORMAT_VERSION = 4
_READABLE = (2, 3, 4)


class CheckpointKind(Enum):
    """Why a checkpoint was taken, which decides what it is used for."""

    #: Triggered by the interval.
    PERIODIC = "periodic"
    #: Requested by a user or by the JobMaster.
    REQUESTED = "requested"
    #: The last one of a bounded job, when all input has ended.
    FINAL = "final"
    #: A separate self-contained table that belongs to the user; the job continues.
    SAVEPOINT = "savepoint"
    #: A savepoint after which the job stops; it is a checkpoint of the job as well, so that its sinks commit.
    STOP_SAVEPOINT = "stop-savepoint"

    @property
    def is_savepoint(self) -> bool:
        """Whether it is written as a table to a path that the user has chosen."""
        return self in (CheckpointKind.SAVEPOINT, CheckpointKind.STOP_SAVEPOINT)

    @property
    def is_recovery_point(self) -> bool:
        """Whether the job may restart from it; if so, it supersedes older ones, tasks are notified and sinks commit.

        Flink (FLIP-203): a savepoint of a job that continues belongs to the user, who may delete it, so the job must not depend
        on it.
        """
        return self is not CheckpointKind.SAVEPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorShape:
    """An operator as it was when the checkpoint was taken."""

    uid: OperatorUid
    name: str
    parallelism: int
    max_parallelism: int
    #: See program/state_kinds.py.
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The positions of one source: the state of its enumerator, and all unfinished splits of its readers.

    The `generator` of a split is plain data; a tuple in it is restored as a list.
    """

    uid: OperatorUid
    #: MessagePack of the enumerator's snapshot; None for a source without an enumerator (one that is read on the driver).
    enumerator: bytes | None
    splits: tuple[SplitState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Committable:
    """A committable that a sink writer prepared; `data` is MessagePack of the sink's committable type."""

    operator_uid: OperatorUid
    subtask: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorState:
    """The driver's part of a checkpoint; the JobMaster passes it to the coordinator when the barrier's epoch has ended.

    The positions of sources must be those at the end of exactly that epoch.
    """

    job_name: str
    sources: tuple[SourceState, ...]
    operators: tuple[OperatorShape, ...]
    attempt_id: str = ""
    #: More plain data of the JobMaster, by name; MessagePack.
    extra: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReference:
    """A retained checkpoint: its version of the state table, and the relative path of its manifest."""

    checkpoint_id: CheckpointId
    version: int
    manifest_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything about one completed checkpoint. Times are milliseconds since the epoch."""

    format_version: int = FORMAT_VERSION
    job_id: str
    lineage: LineageId
    generation: Generation
    checkpoint_id: CheckpointId
    kind: CheckpointKind
    trigger_time: int
    completion_time: int
    coordinator: CoordinatorState
    #: Committed by the sinks once this checkpoint is complete, and again (idempotently) after a restore from it.
    committables: tuple[Committable, ...]
    files: tuple[StateFile, ...]
    #: Older checkpoints that are retained in addition to this one, oldest first.
    previous: tuple[CheckpointReference, ...] = ()
    #: Versions of flinkish and Python that wrote it, for information.
    written_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def parallelism(self) -> dict[OperatorUid, int]:
        """Parallelism of each operator when the checkpoint was taken."""
        return {shape.uid: shape.parallelism for shape in self.coordinator.operators}


@functools.cache
def _decoder() -> msgspec.msgpack.Decoder[Manifest]:
    return msgspec.msgpack.Decoder(Manifest)


# Before 0.23, msgspec raises UnicodeDecodeError, a ValueError, for text that is not UTF-8.
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _Header(msgspec.Struct):
    format_version: int


def encode(manifest: Manifest) -> bytes:
    """Return the manifest as MessagePack; the same manifest always gives the same bytes."""
    return msgspec.msgpack.encode(manifest, order="deterministic")


def decode(data: bytes, *, where: str) -> Manifest:
    """Decode the result of `encode`; `where` names the table and version in messages.

    Raises ForeignCheckpointError for another format version and CorruptCheckpointError for anything that is not a manifest.
    """
    try:
        version = msgspec.msgpack.decode(data, type=_Header).format_version
    except _UNDECODABLE as error:
        _not_a_manifest(where, error)
    if version not in _READABLE:
        raise ForeignCheckpointError(
            f"{where}: the checkpoint has format {version}, this flinkish reads formats {_READABLE[0]} to {_READABLE[-1]}",
            hint="start it with the version of flinkish that wrote it.",
        )
    try:
        return _decoder().decode(data)
    except _UNDECODABLE as error:
        _not_a_manifest(where, error)


def _not_a_manifest(where: str, error: BaseException) -> NoReturn:
    raise CorruptCheckpointError(
        f"{where}: the manifest cannot be decoded: {error}",
        hint="the table was damaged or written by something else; restore from another checkpoint or savepoint.",
    ) from error


def to_json(manifest: Manifest) -> str:
    """Return the manifest as JSON for people who read the table with SQL.

    MessagePack inside it (enumerators, committables) is decoded if it is plain data, otherwise shown in hexadecimal. Splits are
    only counted, because they have their own rows.
    """
    sources = manifest.coordinator.sources
    short = tuple(dataclasses.replace(source, splits=()) for source in sources)
    coordinator = dataclasses.replace(manifest.coordinator, sources=short)
    plain = msgspec.to_builtins(dataclasses.replace(manifest, coordinator=coordinator), builtin_types=(bytes,))
    for shown, source in zip(plain["coordinator"]["sources"], sources, strict=True):
        shown["splits"] = len(source.splits)
    return json.dumps(_readable(plain), sort_keys=True)


def readable_json(data: bytes) -> str | None:
    """Return MessagePack as JSON for people; None if it is not MessagePack."""
    try:
        return json.dumps(_readable(msgspec.msgpack.decode(data)), sort_keys=True)
    except (*_UNDECODABLE, TypeError):
        return None


def _readable(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return _readable(msgspec.msgpack.decode(value)) if value else ""
        except _UNDECODABLE:
            return value.hex()
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _readable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def sha256(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
