"""Writes state as Parquet files of a checkpoint. It is imported only when a checkpoint is taken, because it imports Arrow."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flinkish.common.errors import StateError
from flinkish.common.files.checkpoint_files import NewFile
from flinkish.common.files.schemes import files_at, root_of
from flinkish.common.ids import IdSource
from flinkish.common.typeinfo import Types
from flinkish.runtime.keys import may_be_wrapped, original_key
from flinkish.runtime.protocol import Barrier, StateFile
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.backend import GroupedLists, ListTable, MapTable, PaneTable, Table, TimerQueue, TimerTable, ValueTable
from flinkish.runtime.state.codec import Codec, codec_of, encode_untyped
from flinkish.runtime.state.columns import (
    binary_column,
    encode_all,
    join_list,
    json_column,
    json_of,
    key_groups_of,
)
from flinkish.runtime.state.restore import RestoredRows
from flinkish.runtime.state.tables import Address, Namespaced, TableMeta, key_of

#: Maximum of rows, and approximate maximum of bytes, in a Parquet row group and the Arrow batch for it; they limit the memory of
#: a snapshot. Arrow columns of bytes have 32-bit offsets, so that Spark and Delta can read them.
_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 128 << 20
#: Number of rows in a state's first batch; the sizes of later batches are computed from its bytes.
_FIRST_ROWS = 1 << 10
#: Maximum bytes of a value in a row: a Parquet page contains at least one value, and is smaller than 2 GiB.
_LARGEST_VALUE = 1 << 30
_UNTYPED = codec_of(Types.PICKLED_BYTE_ARRAY())


class Column(NamedTuple):
    """Encodings, and their readable forms if there are any."""

    encoded: pa.Array
    json: pa.Array | None = None

    def slice(self, start: int, count: int) -> Column:
        """Return some of the rows."""
        return Column(_cut(self.encoded, start, count), None if self.json is None else _cut(self.json, start, count))


@dataclass(slots=True)
class Rows:
    """Rows of one state, without the columns that are the same in all of them."""

    kind: str
    key_groups: pa.Array
    keys: Column | None
    namespaces: Column | None
    user_keys: Column | None
    values: Column

    def columns(self) -> list[pa.Array]:
        """Return the columns of different lengths."""
        columns = (self.keys, self.namespaces, self.user_keys, self.values)
        return [array for column in columns if column is not None for array in column if array is not None]

    def slice(self, start: int, count: int) -> Rows:
        """Return some of the rows."""
        parts = (self.keys, self.namespaces, self.user_keys, self.values)
        keys, namespaces, user_keys, values = (None if column is None else column.slice(start, count) for column in parts)
        assert values is not None
        return Rows(self.kind, self.key_groups.slice(start, count), keys, namespaces, user_keys, values)


class _HashingFile:
    """A file that is hashed and counted while it is written."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        self.closed = False
        #: Whether further writes are ignored: Arrow writes the end of a file even after an error.
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
        pass

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
    """Writes one file of a checkpoint; the first rows create it, so that a snapshot without rows leaves no file.

    Use as a context manager; on an error the file is removed. The file is synced to the disk before `finish` returns.
    """

    def __init__(self, barrier: Barrier, vertex: int, subtask: int, ids: IdSource) -> None:
        self._barrier = barrier
        self._subtask = subtask
        self._files = files_at(barrier.root)
        self._folder = root_of(barrier.directory).relative_to(self._files.root).as_posix()
        self._path = f"{self._folder}/state-{barrier.checkpoint_id}-{vertex}-{subtask}-{ids()}.parquet"
        self._file: NewFile | None = None
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
            with contextlib.suppress(FileNotFoundError):
                self._files.remove(self._path)

    def _open(self) -> None:
        # Do not create parent folders: another driver may have taken over the job, ended it and deleted the table.
        if not self._files.is_folder(self._folder):
            self._files.make_folders(self._folder)
        self._file = self._files.create(self._path)
        self._sink = _HashingFile(self._file)
        # Only these columns have a dictionary: keys and values are mostly different in each row.
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
        """Add rows of one state. Raises StateError for a value that is too large for a row."""
        for part in _bounded(batch):
            self._write_group(uid, name, part)

    def _write_group(self, uid: str, name: str, batch: Rows) -> None:
        count = len(batch.key_groups)
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

    def write_table(self, uid: str, name: str, table: Table) -> None:
        """Add the rows of a table, with its schema row."""
        self.declare(uid, name, declaration_of(table.meta))
        for batch in rows_of(table, self._subtask):
            self.write(uid, name, batch)

    def write_restored(self, uid: str, name: str, restored: RestoredRows) -> None:
        """Copy rows of an earlier checkpoint that were not requested in this attempt, including whether they are trusted."""
        kind = restored.declaration.kind
        if kind == tables.OPERATOR_UNION and self._subtask != 0:
            return  # every subtask has all of them, so only one writes them
        self.declare(uid, name, msgspec.structs.replace(restored.declaration, trusted=restored.trusted))
        for row_kind, table in restored.by_kind.items():
            start = 0
            for part in table.to_batches(max_chunksize=_BATCH_ROWS):
                columns = dict(zip(part.schema.names, part.columns, strict=True))
                groups = columns.pop("key_group")
                if kind in (tables.OPERATOR_LIST, tables.OPERATOR_UNION):
                    positions = range(start, start + len(part))
                    columns["user_key"] = binary_column([encode_untyped([self._subtask, position]) for position in positions])
                elif kind == tables.OPERATOR_BROADCAST:
                    columns["namespace"] = binary_column([encode_untyped(self._subtask)] * len(part))
                passed_on = (Column(columns[each]) for each in ("key", "namespace", "user_key", "value"))
                self.write(uid, name, Rows(row_kind, groups, *passed_on))
                start += len(part)

    def finish(self) -> tuple[StateFile, ...]:
        """Close the file and return its entry for the manifest; nothing if there were no rows."""
        if self._file is None:
            return ()
        self._parquet.close()
        self._file.sync()
        self._file.close()
        self._files.sync(self._folder)
        return (
            StateFile(
                path=self._path,
                size=self._sink.size,
                sha256=self._sink.sha256,
                rows=self._rows,
                operator_uids=tuple(self._uids),
                key_groups=(min(self._groups), max(self._groups)) if self._groups else (rows.NO_KEY_GROUP, rows.NO_KEY_GROUP),
            ),
        )


def _cut(column: pa.Array, start: int, count: int) -> pa.Array:
    """Return a copy of some values whose offsets begin at 0, because Arrow narrows offsets only if they fit into 32 bits."""
    part = column.slice(start, count)
    return pa.concat_arrays([part, part.slice(0, 0)])


def _bounded(batch: Rows) -> Iterator[Rows]:
    """Cut a batch into parts of at most about _BATCH_BYTES each, or of one row."""
    count = len(batch.key_groups)
    columns = batch.columns()
    if count == 0 or sum(column.nbytes for column in columns) <= _BATCH_BYTES:
        if count:
            yield batch
        return
    sizes = np.zeros(count, dtype=np.int64)
    for column in columns:
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        if lengths.max() > _LARGEST_VALUE:
            raise StateError(
                f"a value, or the list of one key, takes {lengths.max():,} bytes; a checkpoint holds at most {_LARGEST_VALUE:,}",
                hint="keep large things in several values, such as the entries of a map state.",
            )
        sizes += lengths
    ends = np.cumsum(sizes)
    start = 0
    while start < count:
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _BATCH_BYTES, side="right")))
        yield batch.slice(start, end - start)
        start = end


def _both(column: Column | None, count: int) -> tuple[pa.Array, pa.Array]:
    encoded, json = (None, None) if column is None else column
    return (
        pa.nulls(count, pa.binary()) if encoded is None else encoded.cast(pa.binary()),
        pa.nulls(count, pa.string()) if json is None else json.cast(pa.string()),
    )


def _repeat(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def declaration_of(meta: TableMeta) -> rows.Declaration:
    """Return the declaration of a state for a checkpoint."""
    return rows.Declaration(
        format=rows.FORMAT,
        kind=meta.kind,
        structure=meta.structure(),
        description=str(meta),
        ttl=meta.ttl,
        max_parallelism=meta.max_parallelism,
        fields=meta.fields(),
    )


def rows_of(table: Table, subtask: int) -> Iterator[Rows]:
    """Return all rows of a table, in batches. `subtask` is recorded with elements of operator state."""
    match table.meta.kind:
        case tables.VALUE | tables.REDUCING | tables.AGGREGATING:
            yield from _value_rows(cast(ValueTable | PaneTable, table))
        case tables.OPERATOR_LIST | tables.OPERATOR_UNION:
            yield from _operator_list_rows(cast(ListTable, table), subtask)
        case tables.LIST:
            yield from _list_rows(cast(ListTable | GroupedLists, table))
        case tables.OPERATOR_BROADCAST:
            yield from _broadcast_rows(cast(MapTable, table), subtask)
        case tables.MAP:
            yield from _map_rows(cast(MapTable, table))
        case tables.TIMERS:
            timers = cast(TimerTable, table)
            yield from _timer_rows(timers.meta, timers.event_time, rows.TIMER_EVENT)
            yield from _timer_rows(timers.meta, timers.processing_time, rows.TIMER_PROCESSING)
        case _:
            raise AssertionError(f"state of kind {table.meta.kind!r} is in no checkpoint")


class _Keys:
    """Builds the columns that depend on addresses: key group, key, namespace."""

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
    encode = cache(encode_untyped)  # cached, because many keys have the same windows
    encodings = [None if namespace is None else encode(namespace) for namespace in namespaces]
    json = cache(partial(json_of, _UNTYPED))
    texts = [None if encoding is None else json(encoding) for encoding in encodings]
    return Column(binary_column(encodings), pa.array(texts, pa.large_string()))


def key_codec(meta: TableMeta) -> Codec:
    """Return the codec of a state's keys."""
    assert meta.key_type is not None
    return codec_of(meta.key_type)


class _Batches:
    """Cuts the items of a state into batches; the size of each depends on the bytes of the one before."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._rows = _FIRST_ROWS

    def __iter__(self) -> Iterator[list[Any]]:
        while batch := list(islice(self._items, self._rows)):
            yield batch

    def made(self, batch: Rows) -> Rows:
        """Adapt the size of the next batch to the bytes of this one, and return it."""
        size = max(1, sum(column.nbytes for column in batch.columns()))
        self._rows = max(1, min(_BATCH_ROWS, len(batch.key_groups) * _BATCH_BYTES // size))
        return batch


def _value_rows(table: ValueTable | PaneTable) -> Iterator[Rows]:
    keys, batches = _Keys(table.meta), _Batches(table.rows())
    for batch in batches:
        addresses, values = zip(*batch, strict=True)
        column = _column(table.codec, values, frozen=True)
        yield batches.made(Rows(table.meta.kind, *keys.columns(addresses), None, column))


def _list_rows(table: ListTable | GroupedLists) -> Iterator[Rows]:
    keys, encode, batches = _Keys(table.meta), table.codec.encode_frozen, _Batches(table.rows())
    for batch in batches:
        addresses, lists = zip(*batch, strict=True)
        encodings = [[encode(element) for element in elements] for elements in lists]
        joined = binary_column([join_list(elements) for elements in encodings])
        json = pa.array([_json_list(table.codec, elements) for elements in encodings], pa.large_string())
        yield batches.made(Rows(table.meta.kind, *keys.columns(addresses), None, Column(joined, json)))


def _json_list(codec: Codec, encodings: list[bytes]) -> str | None:
    if sum(map(len, encodings)) > 4_096:
        return None
    return "[" + ",".join(json_of(codec, encoding) or "null" for encoding in encodings) + "]"


def _operator_list_rows(table: ListTable, subtask: int) -> Iterator[Rows]:
    batches, start = _Batches(dict(table.rows()).get(tables.OPERATOR_ADDRESS, [])), 0
    for batch in batches:
        positions = _position_column(subtask, start, len(batch))
        groups = pa.repeat(pa.scalar(rows.NO_KEY_GROUP, pa.int32()), len(batch))
        column = _column(table.codec, batch, frozen=True)
        yield batches.made(Rows(table.meta.kind, groups, None, None, positions, column))
        start += len(batch)


def _position_column(subtask: int, start: int, count: int) -> Column:
    encodings = [encode_untyped([subtask, start + index]) for index in range(count)]
    return Column(binary_column(encodings), pa.array([json_of(_UNTYPED, encoding) for encoding in encodings], pa.large_string()))


def _map_rows(table: MapTable) -> Iterator[Rows]:
    keys, batches = _Keys(table.meta), _Batches(table.rows())
    for batch in batches:
        addresses, user_keys, values = zip(*batch, strict=True)
        user_key_column = _column(table.key_codec, user_keys, frozen=False)
        column = _column(table.codec, values, frozen=True)
        yield batches.made(Rows(table.meta.kind, *keys.columns(addresses), user_key_column, column))


def _broadcast_rows(table: MapTable, subtask: int) -> Iterator[Rows]:
    batches = _Batches(table.rows())
    for batch in batches:
        _, user_keys, values = zip(*batch, strict=True)
        made = Rows(
            table.meta.kind,
            pa.repeat(pa.scalar(rows.NO_KEY_GROUP, pa.int32()), len(batch)),
            None,
            _namespaces([subtask] * len(batch)),
            _column(table.key_codec, user_keys, frozen=False),
            _column(table.codec, values, frozen=True),
        )
        yield batches.made(made)


def _timer_rows(meta: TableMeta, queue: TimerQueue, kind: str) -> Iterator[Rows]:
    keys, batches = _Keys(meta), _Batches(queue)
    for batch in batches:
        timestamps, addresses = zip(*batch, strict=True)
        yield batches.made(Rows(kind, *keys.columns(addresses), None, _column(tables.LONG_CODEC, timestamps, frozen=True)))
