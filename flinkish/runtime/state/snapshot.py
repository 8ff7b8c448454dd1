"""Writes state as Parquet files of a checkpoint. It is imported only when a checkpoint is taken, because it imports Arrow."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flinkish.common.errors import StateError
from flinkish.common.files.checkpoint_files import NewFile
from flinkish.common.files.schemes import files_at, root_of
from flinkish.common.type_data import data_of
from flinkish.common.typeinfo import Types
from flinkish.runtime.keys import is_stored_as_given, may_be_wrapped, original_key, unifier
from flinkish.runtime.protocol import StateFile
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.backend import SnapshotFiles
from flinkish.runtime.state.codec import Codec, encode_untyped
from flinkish.runtime.state.columns import (
    JSON_LIMIT,
    apart,
    binary_column,
    encode_all,
    join_list,
    json_column,
    json_of,
    key_groups_of,
)
from flinkish.runtime.state.restore import RestoredRows
from flinkish.runtime.state.tables import Address, Namespaced, TableMeta, key_of, namespace_of

#: Maximum of rows, and approximate maximum of bytes, in a Parquet row group and the Arrow batch for it; they limit the memory of
#: a snapshot. Arrow columns of bytes have 32-bit offsets, so that Spark and Delta can read them.
_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 128 << 20
#: A row group with fewer rows costs more than reading those of other states with it.
_FEW_ROWS = 1 << 9
#: Number of rows in a state's first batch; the sizes of later batches are computed from its bytes.
_FIRST_ROWS = 1 << 10
#: Maximum bytes of a value in a row: a Parquet page contains at least one value, and is smaller than 2 GiB.
_LARGEST_VALUE = 1 << 30
_UNTYPED = Codec(Types.PICKLED_BYTE_ARRAY())


#: Columns of a batch of rows of one state, by name, without those that are the same in all rows or empty.
Columns = dict[str, pa.Array]


class _HashingFile(io.RawIOBase):
    """A file that is hashed and counted while it is written."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
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

    def writable(self) -> bool:
        return True

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class SnapshotWriter:
    """Writes one file of a checkpoint; the first rows create it, so that a snapshot without rows leaves no file.

    Use as a context manager; on an error the file is removed. The file is synced to the disk before `finish` returns.
    """

    def __init__(self, files: SnapshotFiles, subtask: int) -> None:
        barrier = files.barrier
        self._checkpoint_id = barrier.checkpoint_id
        self._subtask = subtask
        self._files = files_at(barrier.root)
        self._folder = root_of(barrier.directory).relative_to(self._files.root).as_posix()
        self._path = f"{self._folder}/{files.name}.parquet"
        self._file: NewFile | None = None
        #: Rows that wait for others to form a row group.
        self._few: list[pa.Table] = []
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

    def write(self, uid: str, name: str, kind: str, columns: Columns) -> None:
        """Add rows of one state. Raises StateError for a value that is too large for a row."""
        for part in _bounded(columns):
            self._write_group(uid, name, kind, part)

    def _write_group(self, uid: str, name: str, kind: str, columns: Columns) -> None:
        if self._file is None:
            self._open()
        groups = columns["key_group"]
        same = {"operator_uid": uid, "state_name": name, "state_kind": kind, "checkpoint_id": int(self._checkpoint_id)}

        def column(field: pa.Field) -> pa.Array:
            if field.name in columns:
                return columns[field.name].cast(field.type)
            return pa.repeat(pa.scalar(same.get(field.name), field.type), len(groups))

        table = pa.Table.from_arrays(list(map(column, rows.state_schema())), schema=rows.state_schema())
        if len(table) >= _FEW_ROWS or table.nbytes > _BATCH_BYTES >> 11:
            self._flush()
            self._parquet.write_table(table, row_group_size=_BATCH_ROWS)
        else:
            self._few.append(table)
            if sum(map(len, self._few)) >= _FEW_ROWS:
                self._flush()
        self._rows += len(groups)
        self._uids[uid] = None
        if kind != rows.SCHEMA:
            limits = pc.min_max(groups).as_py()
            self._groups.update((limits["min"], limits["max"]))

    def _flush(self) -> None:
        if self._few:
            self._parquet.write_table(pa.concat_tables(self._few))
            self._few = []

    def declare(self, uid: str, name: str, declaration: rows.Declaration) -> None:
        """Add the schema row of a state."""
        json = pa.array([declaration.to_json()], pa.large_string())
        self.write(
            uid, name, rows.SCHEMA, {**_without_key(1), "value": binary_column([declaration.encode()]), "value_json": json}
        )

    def write_table(self, uid: str, name: str, table: rows.TableRows) -> None:
        """Add the rows of a table, with its schema row."""
        meta = table.meta
        self.declare(
            uid,
            name,
            rows.Declaration(
                format=rows.FORMAT,
                kind=meta.kind,
                structure=meta.structure(),
                description=str(meta),
                ttl=meta.ttl,
                max_parallelism=meta.max_parallelism,
                fields=meta.fields(),
                key_type=None if meta.key_type is None else data_of(meta.key_type),
                types=tuple(map(data_of, meta.types)),
            ),
        )
        for kind, columns in chain(_removed_rows_of(table), _rows_of(table, self._subtask)):
            self.write(uid, name, kind, columns)

    def write_restored(self, uid: str, name: str, restored: RestoredRows) -> None:
        """Copy rows of an earlier checkpoint that were not requested in this attempt, including whether they are trusted."""
        kind = restored.declaration.kind
        if kind == tables.OPERATOR_UNION and self._subtask != 0:
            return  # every subtask has all of them, so only one writes them
        self.declare(uid, name, msgspec.structs.replace(restored.declaration, trusted=restored.trusted))
        for row_kind, table in restored.by_kind.items():
            start = 0
            for part in table.to_batches(max_chunksize=_BATCH_ROWS):
                columns = {each: part[each] for each in ("key_group", "key", "namespace", "user_key", "value")}
                if kind in (tables.OPERATOR_LIST, tables.OPERATOR_UNION):
                    positions = range(start, start + len(part))
                    columns["user_key"] = binary_column([encode_untyped([self._subtask, position]) for position in positions])
                elif kind == tables.OPERATOR_BROADCAST:
                    columns["namespace"] = binary_column([encode_untyped(self._subtask)] * len(part))
                self.write(uid, name, row_kind, columns)
                start += len(part)

    def finish(self) -> tuple[StateFile, ...]:
        """Close the file and return its entry for the manifest; nothing if there were no rows."""
        if self._file is None:
            return ()
        self._flush()
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
                checkpoint_id=self._checkpoint_id,
            ),
        )


def _cut(column: pa.Array, start: int, count: int) -> pa.Array:
    """Return a copy of some values whose offsets begin at 0, because Arrow narrows offsets only if they fit into 32 bits."""
    part = column.slice(start, count)
    return pa.concat_arrays([part, part.slice(0, 0)])


def _size(columns: Columns) -> int:
    return sum(column.nbytes for column in columns.values())


def _bounded(columns: Columns) -> Iterator[Columns]:
    """Cut a batch into parts of at most about _BATCH_BYTES each, or of one row."""
    count = len(columns["key_group"])
    if count == 0 or _size(columns) <= _BATCH_BYTES:
        if count:
            yield columns
        return
    sizes = np.zeros(count, dtype=np.int64)
    for name, column in columns.items():
        if name != "key_group":
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
            if lengths.max() > _LARGEST_VALUE:
                raise StateError(
                    f"a value, or the list of one key, takes {lengths.max():,} bytes; "
                    f"a checkpoint holds at most {_LARGEST_VALUE:,}",
                    hint="keep large things in several values, such as the entries of a map state.",
                )
            sizes += lengths
    ends = np.cumsum(sizes)
    start = 0
    while start < count:
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _BATCH_BYTES, side="right")))
        yield {name: _cut(column, start, end - start) for name, column in columns.items()}
        start = end


# -- the rows of tables ------------------------------------------------------------------------------------------------------


def _rows_of(table: rows.TableRows, subtask: int) -> Iterator[tuple[str, Columns]]:
    """Return all rows of a table, in batches, with their kind. `subtask` is recorded with operator state."""
    meta = table.meta
    for kind, items in table.by_kind.items():
        match kind:
            case tables.VALUE | tables.REDUCING | tables.AGGREGATING:
                make = partial(_value_columns, _Keys(meta), _value_codec(meta))
            case tables.LIST:
                make = partial(_list_columns, _Keys(meta), _value_codec(meta))
            case tables.MAP:
                make = partial(_map_columns, _Keys(meta), Codec(meta.types[0]), _value_codec(meta))
            case tables.OPERATOR_LIST | tables.OPERATOR_UNION:
                items = enumerate(dict(items).get(tables.OPERATOR_ADDRESS, ()))
                make = partial(_element_columns, _value_codec(meta), subtask)
            case tables.OPERATOR_BROADCAST:
                make = partial(_broadcast_columns, Codec(meta.types[0]), _value_codec(meta), subtask)
            case rows.TIMER_EVENT | rows.TIMER_PROCESSING:
                items = ((address, timestamp) for timestamp, address in items)
                make = partial(_value_columns, _Keys(meta), tables.LONG_CODEC)
            case _:
                raise AssertionError(f"state of kind {kind!r} is in no checkpoint")
        yield from ((kind, columns) for columns in _batches(items, make))


def _removed_rows_of(table: rows.TableRows) -> Iterator[tuple[str, Columns]]:
    """Return the rows that say what was removed, which have no value; that of a timer has its timestamp like a map's key."""
    for kind, items in table.removed.items():
        keys = _Keys(table.meta)
        make: Callable[[list[Any]], Columns]
        match kind:
            case tables.MAP:
                make = partial(_removed_columns, keys, Codec(table.meta.types[0]))
            case rows.TIMER_EVENT | rows.TIMER_PROCESSING:
                items = ((address, timestamp) for timestamp, address in items)
                make = partial(_removed_columns, keys, tables.LONG_CODEC)
            case _:
                make = keys.columns
        yield from ((kind, columns) for columns in _batches(items, make))


def _removed_columns(keys: _Keys, codec: Codec, batch: list[Any]) -> Columns:
    addresses, members = apart(batch)
    return {**keys.columns(addresses), **_encoded("user_key", codec, members, frozen=False)}


def _value_codec(meta: TableMeta) -> Codec:
    return Codec(meta.types[-1], ttl=meta.ttl)


def _batches(items: Iterable[Any], make: Callable[[list[Any]], Columns]) -> Iterator[Columns]:
    """Make columns of the items of a state in batches; the size of each depends on the bytes of the one before."""
    items, count = iter(items), _FIRST_ROWS
    while batch := list(islice(items, count)):
        columns = make(batch)
        yield columns
        count = max(1, min(_BATCH_ROWS, len(batch) * _BATCH_BYTES // max(1, _size(columns))))


class _Keys:
    """Builds the columns that depend on addresses: key group, key, namespace."""

    def __init__(self, meta: TableMeta) -> None:
        assert meta.key_type is not None
        self._codec = Codec(meta.key_type)
        self._wrapped = may_be_wrapped(meta.key_type)
        #: Equal keys of such a type have the same encoding, whatever their classes.
        self._unified = unifier(meta.key_type) if is_stored_as_given(meta.key_type) else None
        self._max_parallelism = meta.max_parallelism

    def columns(self, addresses: Sequence[Address]) -> Columns:
        namespaces: Columns = {}
        keys: Sequence[Any] = addresses
        if Namespaced in set(map(type, addresses)):
            keys = list(map(key_of, addresses))
            namespaces = _namespaces(list(map(namespace_of, addresses)))
        groups = key_groups_of(keys, self._max_parallelism)
        if self._wrapped:
            keys = list(map(original_key, keys))
        if self._unified is not None and set(map(type, keys)) != {self._codec.exact}:
            keys = list(map(self._unified, keys))
        return {"key_group": groups, **_encoded("key", self._codec, keys, frozen=False), **namespaces}


def _without_key(count: int) -> Columns:
    return {"key_group": pa.repeat(pa.scalar(rows.NO_KEY_GROUP, pa.int32()), count)}


def _encoded(name: str, codec: Codec, values: Sequence[Any], *, frozen: bool = True) -> Columns:
    encoded = encode_all(codec, values, frozen=frozen)
    return {name: encoded, f"{name}_json": json_column(codec, encoded)}


def _namespaces(namespaces: Sequence[Any]) -> Columns:
    encode = cache(encode_untyped)  # cached, because many keys have the same windows
    encodings = [None if namespace is None else encode(namespace) for namespace in namespaces]
    json = cache(partial(json_of, _UNTYPED))
    texts = [None if encoding is None else json(encoding) for encoding in encodings]
    return {"namespace": binary_column(encodings), "namespace_json": pa.array(texts, pa.large_string())}


def _value_columns(keys: _Keys, codec: Codec, batch: list[Any]) -> Columns:
    addresses, values = apart(batch)
    return {**keys.columns(addresses), **_encoded("value", codec, values)}


def _list_columns(keys: _Keys, codec: Codec, batch: list[Any]) -> Columns:
    addresses, lists = apart(batch)
    encodings = [list(map(codec.encode_frozen, elements)) for elements in lists]
    joined = binary_column([join_list(elements) for elements in encodings])
    json = pa.array([_json_list(codec, elements) for elements in encodings], pa.large_string())
    return {**keys.columns(addresses), "value": joined, "value_json": json}


def _json_list(codec: Codec, encodings: list[bytes]) -> str | None:
    if sum(map(len, encodings)) > JSON_LIMIT:
        return None
    return "[" + ",".join(json_of(codec, encoding) or "null" for encoding in encodings) + "]"


def _map_columns(keys: _Keys, key_codec: Codec, codec: Codec, batch: list[Any]) -> Columns:
    addresses, user_keys, values = apart(batch)
    user_key_columns = _encoded("user_key", key_codec, user_keys, frozen=False)
    return {**keys.columns(addresses), **user_key_columns, **_encoded("value", codec, values)}


def _element_columns(codec: Codec, subtask: int, batch: list[Any]) -> Columns:
    positions, values = apart(batch)
    encodings = [encode_untyped([subtask, position]) for position in positions]
    json = pa.array([json_of(_UNTYPED, encoding) for encoding in encodings], pa.large_string())
    user_keys = {"user_key": binary_column(encodings), "user_key_json": json}
    return {**_without_key(len(batch)), **user_keys, **_encoded("value", codec, values)}


def _broadcast_columns(key_codec: Codec, codec: Codec, subtask: int, batch: list[Any]) -> Columns:
    _, user_keys, values = apart(batch)
    user_key_columns = _encoded("user_key", key_codec, user_keys, frozen=False)
    namespaces = _namespaces([subtask] * len(batch))
    return {**_without_key(len(batch)), **namespaces, **user_key_columns, **_encoded("value", codec, values)}
