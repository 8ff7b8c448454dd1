"""Writes state as Parquet files of a checkpoint. Imports Arrow: only imported when a checkpoint is taken."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flinkish.common import safe_files
from flinkish.common.ids import IdSource
from flinkish.common.typeinfo import Types
from flinkish.runtime.key_groups import may_be_wrapped, original_key
from flinkish.runtime.protocol import Barrier, StateFile
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.codec import Codec, codec_of, encode_untyped
from flinkish.runtime.state.columns import (
    binary_column,
    encode_all,
    join_list,
    json_column,
    json_of,
    key_groups_of,
)
from flinkish.runtime.state.grouped import GroupedLists, MapTable, PaneTable
from flinkish.runtime.state.restore import RestoredRows
from flinkish.runtime.state.tables import Address, Namespaced, Table, TableMeta, key_of
from flinkish.runtime.state.timers import TimerQueue, TimerTable

#: Rows of one Parquet row group, and of the Arrow batch it is made from: bounds the memory that a snapshot takes.
_BATCH_ROWS = 1 << 17
_UNTYPED = codec_of(Types.PICKLED_BYTE_ARRAY())


class Column(NamedTuple):
    """Encodings, and their readable forms if there are any."""

    encoded: pa.Array
    json: pa.Array | None = None


@dataclass(slots=True)
class Rows:
    """Rows of one state, without the columns that are the same in all of them."""

    kind: str
    key_groups: pa.Array
    keys: Column | None
    namespaces: Column | None
    user_keys: Column | None
    values: Column


class _HashingFile:
    """A file that is hashed and counted while it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        self.closed = False
        #: Takes no more: Arrow writes an end to the file even if that failed before.
        self.abandoned = False

    def write(self, data: Any) -> int:
        if self.abandoned:
            return len(data)
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class SnapshotWriter:
    """Writes one file of a checkpoint: makes it with the first rows, so that nothing is left of a snapshot without any.

    Use as a context manager; on an error the file is removed. The file is synced to the disk before `finish` returns.
    """

    def __init__(self, barrier: Barrier, label: str, ids: IdSource) -> None:
        self._barrier = barrier
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", label)
        self._path = Path(barrier.directory) / f"state-{barrier.checkpoint_id}-{name}-{ids()}.parquet"
        self._file: IO[bytes] | None = None
        self._rows = 0
        self._uids: dict[str, None] = {}
        self._groups: set[int] = set()

    def __enter__(self) -> SnapshotWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is not None and kind is not None:
            self._sink.abandoned = True
            with contextlib.suppress(OSError, pa.ArrowException):
                self._parquet.close()
            self._file.close()
            self._path.unlink(missing_ok=True)

    def _open(self) -> None:
        # Not its parents: a table that was deleted, by a driver that took over and ended the job, is not made anew.
        self._path.parent.mkdir(exist_ok=True)
        self._file = safe_files.create_file(self._barrier.root, os.path.relpath(self._path, self._barrier.root))
        self._sink = _HashingFile(self._file)
        # Keys and values are mostly different from row to row: a dictionary of them would be built in vain.
        repeated = ["operator_uid", "state_name", "state_kind", "key_group", "checkpoint_id"]
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            rows.state_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=repeated,
            write_statistics=["operator_uid", "state_name", "state_kind", "key_group"],
            store_schema=False,
        )

    def write(self, uid: str, name: str, batch: Rows) -> None:
        """Add rows of one state."""
        count = len(batch.key_groups)
        if count == 0:
            return
        if self._file is None:
            self._open()
        columns = [
            _repeat(uid, count),
            _repeat(name, count),
            _repeat(batch.kind, count),
            batch.key_groups,
            *_both(batch.keys, count),
            *_both(batch.namespaces, count),
            *_both(batch.user_keys, count),
            *_both(batch.values, count),
            pa.repeat(pa.scalar(int(self._barrier.checkpoint_id), pa.int64()), count),
        ]
        self._parquet.write_table(pa.Table.from_arrays(columns, schema=rows.state_schema()), row_group_size=_BATCH_ROWS)
        self._rows += count
        self._uids[uid] = None
        if batch.kind != rows.SCHEMA:
            limits = pc.min_max(batch.key_groups).as_py()
            self._groups.update((limits["min"], limits["max"]))

    def declare(self, uid: str, name: str, declaration: rows.Declaration) -> None:
        """Add the schema row of a state."""
        self.write(
            uid,
            name,
            Rows(
                rows.SCHEMA,
                pa.array([rows.NO_KEY_GROUP], pa.int32()),
                None,
                None,
                None,
                Column(binary_column([declaration.encode()]), pa.array([declaration.to_json()], pa.large_string())),
            ),
        )

    def write_table(self, uid: str, name: str, table: Table, subtask: int) -> None:
        """Add the rows of a table, with its schema row."""
        self.declare(uid, name, declaration_of(table.meta))
        for batch in rows_of(table, subtask):
            self.write(uid, name, batch)

    def write_restored(self, uid: str, name: str, restored: RestoredRows, subtask: int) -> None:
        """Pass on rows of an earlier checkpoint that nobody asked for in this attempt, with what they are trusted with."""
        kind = restored.declaration.kind
        if kind == tables.OPERATOR_UNION and subtask != 0:
            return  # every subtask was given all of them: one passes them on
        self.declare(uid, name, msgspec.structs.replace(restored.declaration, trusted=restored.trusted))
        for row_kind, table in restored.by_kind.items():
            chosen = table.combine_chunks()
            for start in range(0, len(chosen), _BATCH_ROWS):
                part = chosen.slice(start, _BATCH_ROWS)
                columns = {name: part[name].combine_chunks() for name in part.column_names}
                groups = columns.pop("key_group")
                if kind in (tables.OPERATOR_LIST, tables.OPERATOR_UNION):
                    positions = range(start, start + len(part))
                    columns["user_key"] = binary_column([encode_untyped([subtask, position]) for position in positions])
                elif kind == tables.OPERATOR_BROADCAST:
                    columns["namespace"] = binary_column([encode_untyped(subtask)] * len(part))
                passed_on = (Column(columns[each]) for each in ("key", "namespace", "user_key", "value"))
                self.write(uid, name, Rows(row_kind, groups, *passed_on))

    def finish(self) -> tuple[StateFile, ...]:
        """Close the file and return what the manifest says of it; nothing if there were no rows."""
        if self._file is None:
            return ()
        self._parquet.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        _sync_folder(self._path.parent)
        return (
            StateFile(
                path=os.path.relpath(self._path, self._barrier.root),
                size=self._sink.size,
                sha256=self._sink.sha256,
                rows=self._rows,
                operator_uids=tuple(self._uids),
                key_groups=(min(self._groups), max(self._groups)) if self._groups else (rows.NO_KEY_GROUP, rows.NO_KEY_GROUP),
            ),
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _both(column: Column | None, count: int) -> tuple[pa.Array, pa.Array]:
    encoded, json = (None, None) if column is None else column
    return (
        pa.nulls(count, pa.binary()) if encoded is None else encoded.cast(pa.binary()),
        pa.nulls(count, pa.string()) if json is None else json.cast(pa.string()),
    )


def _repeat(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def declaration_of(meta: TableMeta) -> rows.Declaration:
    """Return what a checkpoint says about a state."""
    return rows.Declaration(
        format=rows.FORMAT,
        kind=meta.kind,
        structure=meta.structure(),
        description=str(meta),
        ttl=meta.ttl,
        max_parallelism=meta.max_parallelism,
    )


def rows_of(table: Table, subtask: int) -> Iterator[Rows]:
    """Return all rows of a table, in batches. `subtask` is recorded with elements of operator state."""
    match table:
        case tables.ValueTable() | PaneTable():
            yield from _value_rows(table)
        case tables.ListTable() if table.meta.key_type is None:
            yield from _operator_list_rows(table, subtask)
        case tables.ListTable() | GroupedLists():
            yield from _list_rows(table)
        case MapTable() if table.meta.key_type is None:
            yield from _broadcast_rows(table, subtask)
        case MapTable():
            yield from _map_rows(table)
        case TimerTable():
            yield from _timer_rows(table, table.event_time, rows.TIMER_EVENT)
            yield from _timer_rows(table, table.processing_time, rows.TIMER_PROCESSING)
        case _:
            return


class _Keys:
    """Makes the columns that come from addresses: key group, key, namespace."""

    def __init__(self, meta: TableMeta) -> None:
        assert meta.key_type is not None
        self._codec = key_codec(meta)
        self._wrapped = may_be_wrapped(meta.key_type)
        self._max_parallelism = meta.max_parallelism

    def columns(self, addresses: Sequence[Address]) -> tuple[pa.Array, Column, Column | None]:
        namespaces: Column | None = None
        keys: Sequence[Any] = addresses
        if Namespaced in set(map(type, addresses)):
            keys = [key_of(address) for address in addresses]
            namespaces = _namespaces([a.namespace if a.__class__ is Namespaced else None for a in addresses])
        groups = key_groups_of(keys, self._max_parallelism)
        if self._wrapped:
            keys = list(map(original_key, keys))
        return groups, _column(self._codec, keys, frozen=False), namespaces


def _column(codec: Codec, values: Sequence[Any], *, frozen: bool) -> Column:
    encoded = encode_all(codec, values, frozen=frozen)
    return Column(encoded, json_column(codec, values, encoded))


def _namespaces(namespaces: Sequence[Any]) -> Column:
    encode = cache(encode_untyped)  # most windows are those of many keys
    encodings = [None if namespace is None else encode(namespace) for namespace in namespaces]
    json = cache(partial(json_of, _UNTYPED))
    texts = [None if encoding is None else json(encoding) for encoding in encodings]
    return Column(binary_column(encodings), pa.array(texts, pa.large_string()))


def key_codec(meta: TableMeta) -> Codec:
    """Return the codec of a state's keys."""
    assert meta.key_type is not None
    return codec_of(meta.key_type)


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, _BATCH_ROWS)):
        yield batch


def _value_rows(table: tables.ValueTable | PaneTable) -> Iterator[Rows]:
    keys = _Keys(table.meta)
    for batch in _batches(table.rows()):
        addresses, values = zip(*batch, strict=True)
        yield Rows(table.meta.kind, *keys.columns(addresses), None, _column(table.codec, values, frozen=True))


def _list_rows(table: tables.ListTable | GroupedLists) -> Iterator[Rows]:
    keys, encode = _Keys(table.meta), table.codec.encode_frozen
    for batch in _batches(table.rows()):
        addresses, lists = zip(*batch, strict=True)
        encodings = [[encode(element) for element in elements] for elements in lists]
        joined = binary_column([join_list(elements) for elements in encodings])
        json = pa.array([_json_list(table.codec, elements) for elements in encodings], pa.large_string())
        yield Rows(table.meta.kind, *keys.columns(addresses), None, Column(joined, json))


def _json_list(codec: Codec, encodings: list[bytes]) -> str | None:
    if sum(map(len, encodings)) > 4_096:
        return None
    return "[" + ",".join(json_of(codec, encoding) or "null" for encoding in encodings) + "]"


def _operator_list_rows(table: tables.ListTable, subtask: int) -> Iterator[Rows]:
    elements = table.data.get(tables.OPERATOR_ADDRESS, [])
    for start in range(0, len(elements), _BATCH_ROWS):
        batch = elements[start : start + _BATCH_ROWS]
        positions = _position_column(subtask, start, len(batch))
        groups = pa.repeat(pa.scalar(rows.NO_KEY_GROUP, pa.int32()), len(batch))
        yield Rows(table.meta.kind, groups, None, None, positions, _column(table.codec, batch, frozen=True))


def _position_column(subtask: int, start: int, count: int) -> Column:
    encodings = [encode_untyped([subtask, start + index]) for index in range(count)]
    return Column(binary_column(encodings), pa.array([json_of(_UNTYPED, encoding) for encoding in encodings], pa.large_string()))


def _map_rows(table: MapTable) -> Iterator[Rows]:
    keys = _Keys(table.meta)
    table.freeze()
    flat = ((address, key, frozen) for address, entries in table.data.items() for key, frozen in entries.items())
    for batch in _batches(flat):
        addresses, user_keys, values = zip(*batch, strict=True)
        user_key_column = _column(table.key_codec, user_keys, frozen=False)
        yield Rows(table.meta.kind, *keys.columns(addresses), user_key_column, _column(table.codec, values, frozen=True))


def _broadcast_rows(table: MapTable, subtask: int) -> Iterator[Rows]:
    table.freeze()
    entries = table.data.get(tables.OPERATOR_ADDRESS, {})
    for batch in _batches(entries.items()):
        user_keys, values = zip(*batch, strict=True)
        yield Rows(
            table.meta.kind,
            pa.repeat(pa.scalar(rows.NO_KEY_GROUP, pa.int32()), len(batch)),
            None,
            _namespaces([subtask] * len(batch)),
            _column(table.key_codec, user_keys, frozen=False),
            _column(table.codec, values, frozen=True),
        )


def _timer_rows(table: TimerTable, queue: TimerQueue, kind: str) -> Iterator[Rows]:
    keys = _Keys(table.meta)
    for batch in _batches(queue):
        timestamps, addresses = zip(*batch, strict=True)
        yield Rows(kind, *keys.columns(addresses), None, _column(tables.LONG_CODEC, timestamps, frozen=True))
