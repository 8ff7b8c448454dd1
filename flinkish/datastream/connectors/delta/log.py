"""Reads the log of a Delta table: the changes of each version, and the files of a version.

deltalake (1.6) does not list deletion vectors with the files, and gives no Arrow data of tables with them or with column mapping.
So this module reads the parts of the log that a reader needs: files, change files, schema, protocol, times of commits.
Source of the rules: Delta's protocol specification.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common.errors import SourceError
from flinkish.datastream.connectors.delta.files import LOG, files_of
from flinkish.datastream.connectors.delta.vectors import DeletionVector

#: Contains the version of the newest checkpoint of the log.
_LAST_CHECKPOINT: Final = f"{LOG}/_last_checkpoint"
_COMMIT: Final = re.compile(r"([0-9]{20})\.json")
#: `<version>.checkpoint.parquet`, `.checkpoint.<part>.<parts>.parquet` or `.checkpoint.<uuid>.json|parquet`.
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint\.(?:([0-9]{10})\.([0-9]{10})\.|[0-9a-f-]{36}\.)?(json|parquet)")
#: Supported reader features; a table with any other is refused, and the error names the feature.
_READER_FEATURES: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_INSTEAD: Final = {
    "variantType": "a job can read a copy of the table without VARIANT columns, for example one with to_json(column)",
    "catalogManaged": "such a table can only be read through its catalog",
    "catalogOwned-preview": "such a table can only be read through its catalog",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file or change file in the log."""

    #: Relative to the table.
    path: str
    #: Bytes; None if the log does not contain it, as for some removed files.
    size: int | None
    #: By physical name of the partition column; None if the log does not contain it, as for some removed files.
    partition: dict[str, str | None] | None
    #: Number of rows, including deleted ones; None if unknown.
    rows: int | None
    #: Rows of the file that are deleted.
    deleted: DeletionVector | None
    #: False if the commit only moved rows between files.
    data_change: bool
    #: Milliseconds since the epoch.
    modification_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Schema and properties of a table."""

    id: str
    #: Delta's JSON, decoded.
    schema: dict[str, Any]
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]

    @property
    def has_change_feed(self) -> bool:
        return self.configuration.get("delta.enableChangeDataFeed", "").lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The changes of one version."""

    version: int
    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    #: Files of the change data feed.
    changes: tuple[DataFile, ...]
    metadata: Metadata | None
    operation: str


class DeltaLog:
    """The log of a table.

    A list of objects in a store may be old. So versions after the newest listed version are requested by name.
    """

    def __init__(self, table: str, *, who: str = "DeltaSource") -> None:
        self.table = table
        self.files = files_of(table)
        self._who = who

    def newest(self) -> int:
        """Return the newest version; raises SourceError if there is no table."""
        newest = self.newest_or_none()
        if newest is None:
            raise SourceError(
                f"{self._who}: there is no Delta table at {self.table}",
                hint="is the path right? It must be the folder that contains _delta_log.",
            )
        return newest

    def newest_or_none(self) -> int | None:
        """Return the newest version; None if there is no table."""
        newest = max(self._listed(), default=None)
        if self.files.is_remote and (newest is None or not self.has(newest)):
            newest = max(newest or 0, self.summarized())
            if not self.has(newest):
                return None
        while newest is not None and self.has(newest + 1):
            newest += 1
        return newest

    def has(self, version: int) -> bool:
        """Return whether the log has an entry for a version, without a list."""
        with self._reading(f"the log of {self.table}"):
            return self.files.exists(_entry(version))

    def summarized(self) -> int:
        """Return the version of the newest checkpoint of the log according to _last_checkpoint; 0 if there is none."""
        with suppress(FileNotFoundError), self._reading(self.files.path(_LAST_CHECKPOINT)):
            return int(json.loads(self.files.read(_LAST_CHECKPOINT)[0])["version"])
        return 0

    def commit(self, version: int) -> Commit | None:
        """Return the changes of a version; None if it does not exist. Raises SourceError if it cannot be read."""
        found = self._read(version)
        if found is None:
            return None
        actions, _ = found
        return Commit(
            version=version,
            added=self._files(actions, "add"),
            removed=self._files(actions, "remove"),
            changes=self._files(actions, "cdc"),
            metadata=self._last_metadata(actions, version),
            operation=_info(actions).get("operation") or "unknown operation",
        )

    def info(self, version: int) -> dict[str, Any]:
        """Return the commitInfo of a version; empty if it has none or was cleaned up. Raises SourceError if it cannot be read."""
        actions, _ = self._read(version) or ([], 0)
        return _info(actions)

    def snapshot(self, version: int) -> tuple[Metadata, list[DataFile]]:
        """Return the files of a version, by their times and paths. Raises SourceError if it no longer exists or is unreadable."""
        return self._state(version, files=True)

    def metadata(self, version: int) -> Metadata:
        """Return schema and properties of a version; raises as `snapshot` does."""
        return self._state(version, files=False)[0]

    def version_as_of(self, time: int) -> int:
        """Return the newest version committed at or before a time (ms); raises SourceError if there is none."""
        found = [version for version, _ in takewhile(lambda entry: entry[1] <= time, self._times())]
        if not found:
            raise SourceError(f"{self._who}: {self.table} has no version as old as {time} ms since the epoch")
        return found[-1]

    def version_from(self, time: int) -> int:
        """Return the first version committed at or after a time (ms); if there is none, the next version to appear."""
        newest = self.newest()
        return next((version for version, committed in self._times() if committed >= time), newest + 1)

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Turn errors other than FileNotFoundError into SourceErrors."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
            raise SourceError(f"{self._who} cannot read {what}: {getattr(error, 'strerror', None) or error}") from error

    def _names(self) -> list[str]:
        with self._reading(f"the log of {self.table}"):
            return self.files.names(LOG)

    def _read(self, version: int) -> tuple[list[dict[str, Any]], int] | None:
        """Return the actions of a version and the time at which they were written (ms); None if it does not exist."""
        with suppress(FileNotFoundError), self._reading(f"version {version} of {self.table}"):
            content, written = self.files.read(_entry(version))
            return _actions(content), written
        return None

    def _listed(self) -> list[int]:
        """Return the versions that a list of the log shows; the entry of a version with a checkpoint may have been cleaned up."""
        return [int(match[1]) for name in self._names() if (match := _COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name))]

    def _times(self) -> Iterator[tuple[int, int]]:
        """Yield versions with their rising times in ms. Source of the rule: Delta (in-commit timestamps, else times of files)."""
        versions = sorted(int(match[1]) for name in self._names() if (match := _COMMIT.fullmatch(name)))
        # A list of a store may lack the newest versions.
        newest = self.newest_or_none() if self.files.is_remote else None
        if newest is not None:
            versions += range(max(versions, default=-1) + 1, newest + 1)
        last = -1
        for version in versions:
            found = self._read(version)
            if found is None:
                continue  # cleaned up after it was listed
            actions, written = found
            last = max(last + 1, _info(actions).get("inCommitTimestamp") or written)
            yield version, last

    def _state(self, version: int, *, files: bool) -> tuple[Metadata, list[DataFile]]:
        metadata, found = None, dict[tuple[str, str], DataFile]()
        for actions in self._replay(version, files=files):
            metadata = self._last_metadata(actions, version) or metadata
            for file in self._files(actions, "remove") if files else ():
                found.pop(_key(file), None)
            for file in self._files(actions, "add") if files else ():
                found[_key(file)] = file
        if metadata is None:
            raise SourceError(f"{self._who}: the log of {self.table} has no schema up to version {version}; it is damaged")
        return metadata, sorted(found.values(), key=lambda file: (file.modification_time, file.path))

    def _replay(self, version: int, *, files: bool) -> Iterator[list[dict[str, Any]]]:
        """Yield the actions that lead to a version: those of the log's last checkpoint, then those of each later version."""
        newest = self.newest()
        if not 0 <= version <= newest:
            raise SourceError(f"{self._who}: {self.table} has no version {version}; the newest is {newest}")
        summary, actions = self._checkpoint(version, files=files)
        yield actions
        for later in range(summary + 1, version + 1):
            found = self._read(later)
            if found is None:
                raise SourceError(
                    f"{self._who}: the log of {self.table} does not reach back to version {later} any more",
                    hint="read a newer version, or keep the log for longer (delta.logRetentionDuration).",
                )
            yield found[0]

    def _last_metadata(self, actions: Iterable[dict[str, Any]], version: int) -> Metadata | None:
        found, protocol = None, None
        for action in actions:
            if action.get("protocol") is not None:
                protocol = action["protocol"]
            elif action.get("metaData") is not None:
                table = action["metaData"]
                found = Metadata(
                    id=table["id"],
                    schema=json.loads(table["schemaString"]),
                    partition_columns=tuple(table.get("partitionColumns") or ()),
                    configuration=dict(table.get("configuration") or {}),
                )
        if protocol is not None:
            self._check_protocol(protocol, version, variants=found is not None and has_variants(found.schema))
        return found

    def _checkpoint(self, version: int, *, files: bool) -> tuple[int, list[dict[str, Any]]]:
        """Return version and actions of the log's newest checkpoint up to a version; -1 and no actions if there is none."""
        names: dict[int, list[re.Match[str]]] = {}
        for name in self._names():
            match = _CHECKPOINT.fullmatch(name)
            if match and int(match[1]) <= version:
                names.setdefault(int(match[1]), []).append(match)
        for found in sorted(names, reverse=True):
            for match in names[found]:
                if match[2] is None:
                    return found, self._read_checkpoint([match[0]], files=files)
            parts = {match[2]: match[0] for match in names[found]}
            if len(parts) == int(names[found][0][3]):
                return found, self._read_checkpoint([parts[part] for part in sorted(parts)], files=files)
        return -1, []

    def _read_checkpoint(self, names: Iterable[str], *, files: bool) -> list[dict[str, Any]]:
        actions: list[dict[str, Any]] = []
        try:
            for name in names:
                path = f"{LOG}/{name}"
                with self._reading(self.files.path(path)):
                    actions += _actions(self.files.read(path)[0]) if name.endswith(".json") else self._parquet(path, files=files)
            sidecars = [action["sidecar"]["path"] for action in actions if "sidecar" in action]
            for sidecar in sidecars if files else ():
                path = f"{LOG}/_sidecars/{posixpath.basename(sidecar)}"
                with self._reading(self.files.path(path)):
                    actions += self._parquet(path, files=True)
        except FileNotFoundError as error:
            raise SourceError(f"{self._who} cannot read {self.files.path(path)}: {error.strerror or error}") from error
        return actions

    def _parquet(self, path: str, *, files: bool) -> list[dict[str, Any]]:
        """Return the actions of a checkpoint of the log that readers need; `files` = including those of files."""
        with pq.ParquetFile(self.files.source(path)[0], pre_buffer=self.files.is_remote) as file:
            needed = ("protocol", "metaData", "add", "sidecar") if files else ("protocol", "metaData")
            wanted = [name for name in needed if name in file.schema_arrow.names]
            leaves = [_leaves(file.schema_arrow.field(name), name) for name in wanted]
            table = file.read(columns=[leaf for group in leaves for leaf in group])
        return [{name: value} for name in wanted for value in table.column(name).drop_null().to_pylist()]

    def _check_protocol(self, protocol: dict[str, Any], version: int, *, variants: bool) -> None:
        reader = protocol.get("minReaderVersion") or 1
        # deltalake lists variantType in tables with deletion vectors, too. A column of this type is refused by `type_of`.
        allowed = _READER_FEATURES if variants else _READER_FEATURES | {"variantType"}
        unknown = sorted(set(protocol.get("readerFeatures") or ()) - allowed)
        if reader > 3 or unknown:
            what = f"features {', '.join(unknown)}" if unknown else f"reader version {reader}"
            hints = [_INSTEAD[name] for name in unknown if name in _INSTEAD]
            raise SourceError(
                f"{self._who} cannot read version {version} of {self.table}: the table has {what}",
                hint=hints[0]
                if hints
                else "let Spark write the needed rows to a table without these features, and read that table.",
            )

    def _files(self, actions: Iterable[dict[str, Any]], kind: str) -> tuple[DataFile, ...]:
        return tuple(self._file(action[kind], kind) for action in actions if action.get(kind) is not None)

    def _file(self, action: dict[str, Any], kind: str) -> DataFile:
        path = unquote(action["path"])
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) or path.startswith("/"):
            raise SourceError(
                f"{self._who} cannot read {self.table}: it is a shallow clone, its files are elsewhere ({path})",
                hint="read the table that it was cloned from, or make a deep copy.",
            )
        vector = action.get("deletionVector")
        partition = action.get("partitionValues")
        return DataFile(
            path=path,
            size=action.get("size"),
            partition=None if partition is None else dict(partition),
            rows=_rows(action.get("stats")),
            deleted=None
            if vector is None
            else DeletionVector(
                storage=vector["storageType"],
                value=vector["pathOrInlineDv"],
                offset=vector.get("offset"),
                size=vector["sizeInBytes"],
                cardinality=vector["cardinality"],
            ),
            data_change=bool(action.get("dataChange", True)) or kind == "cdc",
            modification_time=action.get("modificationTime") or 0,
        )


def _entry(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def _actions(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def _info(actions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return next((action["commitInfo"] for action in actions if action.get("commitInfo") is not None), {})


def has_variants(part: Any) -> bool:
    """Return whether a type or schema of Delta contains the type variant."""
    if isinstance(part, str):
        return part == "variant"
    parts = [part[name] for name in ("elementType", "keyType", "valueType") if name in part]
    return any(map(has_variants, [*parts, *(field["type"] for field in part.get("fields", ()))]))


def _key(file: DataFile) -> tuple[str, str]:
    return file.path, "" if file.deleted is None else f"{file.deleted.storage}{file.deleted.value}@{file.deleted.offset}"


def _rows(stats: str | None) -> int | None:
    try:
        found = json.loads(stats or "{}").get("numRecords")
    except ValueError:
        return None
    return found if isinstance(found, int) else None


#: Parts of an `add` action that are not needed: statistics as columns, tags.
_UNUSED: Final = ("stats_parsed", "partitionValues_parsed", "tags")


def _leaves(field: pa.Field, name: str) -> list[str]:
    if not pa.types.is_struct(field.type):
        return [name]
    return [f"{name}.{part.name}" for part in field.type if part.name not in _UNUSED]
