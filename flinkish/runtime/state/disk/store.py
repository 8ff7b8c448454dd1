"""A RocksDB folder that stands exactly at the end of an epoch, and can go back by one.

An epoch is one write batch, which RocksDB applies whole or not at all: its rows, its position, and an undo record, which holds
what the rows were before. Writes are not synced: the end of a process loses none. After the end of a machine the folder may stand
further back, which `recover` notices by the position.

RocksDB and not LMDB: both were measured with the keys of a run fetched together. LMDB reads three times as fast, but writes three
times as slowly, and each changed row costs it a page.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
)

from flinkish.common.errors import EngineError
from flinkish.runtime.state.positions import Position

#: Keys of rows begin with another byte.
_OWN = b"\x00"
_POSITION = _OWN + b"position"
_UNDO = _OWN + b"undo"

#: What a batch changes: new values by key, None for a row that is removed.
Rows = Mapping[bytes, bytes | None]

#: Memory for the blocks that are read, and for rows that are not in a file yet, in bytes.
DEFAULT_MEMORY = 128 << 20
#: Number of rows in a batch of `ingest`.
_BATCH = 10_000


class _Undo(msgspec.Struct, frozen=True, array_like=True):
    """Undoes the last epoch: the position before it (None if it was the first), and the rows that it changed, as they were."""

    position: Position | None
    rows: dict[bytes, bytes | None]


_encode = msgspec.msgpack.Encoder().encode
_decode_position = msgspec.msgpack.Decoder(Position).decode
_decode_undo = msgspec.msgpack.Decoder(_Undo).decode


class Store:
    """See the module. Keys of rows are not empty and do not begin with a zero byte."""

    def __init__(self, folder: Path, db: Rdict) -> None:
        self._folder = folder
        self._db = db

    @classmethod
    def create(cls, folder: Path, memory: int = DEFAULT_MEMORY) -> Store:
        """Make an empty store, instead of what a try that was lost may have left in the folder."""
        shutil.rmtree(folder, ignore_errors=True)
        return cls(folder, _open(folder, memory))

    @classmethod
    def recover(cls, folder: Path, position: Position, memory: int = DEFAULT_MEMORY) -> Store:
        """Open a store at a position, undoing its last epoch if it is one ahead; raises EngineError if it is anywhere else."""
        if not folder.is_dir():
            raise EngineError(f"the folder with the state on disk is gone: {folder}")
        store = cls(folder, _open(folder, memory))
        try:
            store._go_to(position)
        except BaseException:
            store.close()
            raise
        return store

    def _go_to(self, position: Position) -> None:
        stored, undo = self.get(_POSITION), self.get(_UNDO)
        try:
            at = None if stored is None else _decode_position(stored)
            last = None if undo is None else _decode_undo(undo)
        except msgspec.DecodeError as error:
            raise EngineError(f"the state on disk in {self._folder} is damaged: {error}") from error
        if at == position:
            return
        if last is None or last.position != position:
            raise EngineError(f"the state on disk in {self._folder} is at {at}, and cannot go back to {position}")
        self._write({**last.rows, _POSITION: _encode(position), _UNDO: None})

    def get(self, key: bytes) -> bytes | None:
        """Return a row, None if there is none."""
        try:
            row: bytes | None = self._db.get(key)
        except Exception as error:  # rocksdict has no class of its own for errors
            raise self._unreadable(error) from error
        return row

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        """Return rows, None for each that is not there; in the order of the keys they are read fastest."""
        try:
            rows: Any = self._db.get(cast(Any, keys))
        except Exception as error:  # as in get
            raise self._unreadable(error) from error
        return cast(list[bytes | None], rows)

    def rows(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows whose keys begin with a prefix, in order of the keys, as they are at the call.

        The rows remain readable when the store is closed; the folder is released when the iterator is gone, too.
        """
        return self.rows_from(prefix, prefix)

    def rows_from(self, first: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate as `rows`, beginning with the first row whose key is not less than one of them."""
        return self._rows(self._db.items(from_key=first), prefix)

    def _rows(self, items: Iterable[tuple[Any, Any]], prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            for key, value in items:
                if not key.startswith(prefix):
                    return
                yield key, value
        except Exception as error:
            raise self._unreadable(error) from error

    def snapshot(self) -> StoreSnapshot:
        """Return the rows as they are now."""
        return StoreSnapshot(self._db.iter())

    def ingest(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Add rows before the first epoch has ended, in batches: they need not fit into memory. Raises OSError."""
        rows = iter(rows)
        while batch := dict(islice(rows, _BATCH)):
            self._write(batch)

    @property
    def is_new(self) -> bool:
        """Whether no epoch has ended yet."""
        return self.get(_POSITION) is None

    def commit(self, position: Position, rows: Rows, before: Rows) -> None:
        """Write the rows of an epoch, which ends; `before` has those that the caller has read, as they were. Raises OSError."""
        stored = self.get(_POSITION)
        undo = {key: before[key] if key in before else self.get(key) for key in rows}
        last = _Undo(None if stored is None else _decode_position(stored), undo)
        self._write({**rows, _POSITION: _encode(position), _UNDO: _encode(last)})

    def close(self) -> None:
        """Release the folder, also if it is full or gone."""
        # rocksdict tidies up first, which may fail with an Exception; whatever was committed is in the log already.
        with contextlib.suppress(Exception):
            self._db.close()

    def _unreadable(self, error: Exception) -> EngineError:
        return EngineError(f"the state on disk in {self._folder} cannot be read: {error}")

    def _write(self, rows: Rows) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in rows.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        try:
            self._db.write(batch)
        except Exception as error:  # as in get
            raise OSError(f"the state on disk in {self._folder} cannot be written: {error}") from error


class StoreSnapshot:
    """Rows of a store as they were. They remain readable when it is closed, as those of `Store.rows`."""

    def __init__(self, rows: RdictIter) -> None:
        self._rows = rows  # rocksdict's own Snapshot has no other sign for a missing key than the text of an exception

    def get(self, key: bytes) -> bytes | None:
        """See Store."""
        rows = self._rows
        try:
            rows.seek(key)
            if not rows.valid():
                rows.status()
                return None
            return bytes(rows.value()) if rows.key() == key else None
        except Exception as error:  # as in Store.get
            raise EngineError(f"the state on disk cannot be read: {error}") from error


def _open(folder: Path, memory: int) -> Rdict:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(memory // 2))
    # So that reading a key that is not there costs no block.
    table.set_bloom_filter(10, block_based=False)
    # A read searches one block, which takes less of the processor if it is small, and first the rows that are not in a file yet,
    # unless a filter says that the key is not among them. Together that halves the time of a read.
    table.set_block_size(1 << 10)
    options = Options(raw_mode=True)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.1)
    # Of 20 M rows in files that fit into the memory of the machine, one takes 8.5 us of the processor if its block is compressed,
    # 5.8 if not, and 4.1 in mapped files. If one of these is cut off while in use, the process ends, and the next has an error.
    options.set_allow_mmap_reads(True)
    options.set_compression_type(DBCompressionType.none())
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(memory // 4)
    options.set_max_write_buffer_number(2)
    try:
        return Rdict(str(folder), options)
    except Exception as error:  # as in Store.get
        raise EngineError(f"the state on disk in {folder} cannot be opened: {error}") from error
