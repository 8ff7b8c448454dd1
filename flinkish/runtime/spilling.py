"""Holds records that a batch operator cannot process yet: pickled in memory and, if they are many, in files.

The state of the subtask contains the pickled runs, the names of files, and the number of released pieces. So a process that
replaces a lost one continues where the state ends, and a lost try leaves only files that no state names. Files are removed with
the attempt.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, MutableMapping
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

from flinkish.common import pickling
from flinkish.common.errors import EngineError
from flinkish.runtime.elements import Records
from flinkish.runtime.keys import sort_key
from flinkish.runtime.operators.function import keyed
from flinkish.runtime.protocol import MIN_WATERMARK

#: Memory of a record as an object in addition to its own size; measured with tuples of a short text and a number: 230 bytes.
_OBJECT_BYTES = 250
#: Number of records in a piece, which is released as a whole, and in a block of a file, which is read as a whole.
_PIECE = 1_000
#: Maximum number of files that are open for a merge; if there are more, they are first merged into one.
_MOST_FILES = 64
#: Keys of the table in addition to the numbers of runs: names of files, position in the first one, number of released pieces.
_FILES, _OFFSET, _RELEASED = "files", "offset", "released"

#: Timestamp, input, value.
Waiting = tuple[int | None, int, Any]
#: An entry in a file of sorted records: (order of the key, timestamp, input), key, value.
_Entry = tuple[tuple[Any, int, int], Any, Any]


class Piece(NamedTuple):
    """Some records of one key, sorted by time, input and arrival; `first` and `last` mark the key's first and last piece."""

    key: Any
    waiting: list[Waiting]
    first: bool
    last: bool


class HeldRecords:
    """Stores runs of records; subclasses return them.

    `folder` is for records that do not fit into `memory` bytes; None = all records stay in memory.
    """

    def __init__(self, table: MutableMapping[Any, Any], folder: Path | None, memory: int) -> None:
        self._table = table
        self._folder = folder
        self._memory = memory
        numbers = [key for key in table if isinstance(key, int)]
        #: The runs in memory have the numbers from `_first` to `_next` - 1.
        self._first, self._next = min(numbers, default=0), max(numbers, default=-1) + 1
        self._size = sum(table[number][0] for number in numbers)

    def __bool__(self) -> bool:
        return bool(self._table)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, oldest first."""
        files: tuple[str, ...] = self._table.get(_FILES, ())
        return files

    def add(self, input_index: int, records: Records) -> None:
        run = pickling.dumps((input_index, records))
        size = len(run) + _OBJECT_BYTES * len(records.values)
        self._table[self._next] = size, run
        self._next += 1
        self._size += size
        if self._size > self._memory and self._folder is not None:
            self._spill(self._folder)

    def _set_files(self, files: tuple[str, ...]) -> None:
        if files:
            self._table[_FILES] = files
        else:
            del self._table[_FILES]

    def _runs(self) -> Iterator[tuple[int, Records]]:
        for number in range(self._first, self._next):
            yield pickling.loads(self._table[number][1])

    def _blocks(self) -> Iterator[Any]:
        """Yield the blocks for a file of the runs in memory."""
        raise NotImplementedError

    def _spill(self, folder: Path) -> None:
        self._set_files((*self.files, _write(folder, self._blocks())))
        for number in range(self._first, self._next):
            del self._table[number]
        self._first, self._size = self._next, 0


class QueuedRecords(HeldRecords):
    """Returns runs in the order in which they were added; more may be added in the meantime."""

    _blocks = HeldRecords._runs

    def take(self) -> tuple[int, Records]:
        """Remove and return the first run; there must be one."""
        if self.files:
            return self._take_from(self.files)
        size, run = self._table.pop(self._first)
        self._first += 1
        self._size -= size
        first: tuple[int, Records] = pickling.loads(run)
        return first

    def _take_from(self, files: tuple[str, ...]) -> tuple[int, Records]:
        with _disk_errors(files[0]), open(files[0], "rb") as file:
            file.seek(self._table.get(_OFFSET, 0))
            data = _read_block(file)
            assert data is not None
            if file.peek(1):
                self._table[_OFFSET] = file.tell()
            else:
                self._table.pop(_OFFSET, None)
                self._set_files(files[1:])
        run: tuple[int, Records] = pickling.loads(data)
        return run


class SortedRecords(HeldRecords):
    """Returns keyed records key by key, after all have been added, by an external merge sort."""

    def pieces(self) -> Iterator[Piece]:
        """Return the records in pieces, except those that have been released."""
        pieces = _pieces(self._merged()) if self.files else _pieces_in_memory(self._runs())
        return itertools.islice(pieces, self.released, None)

    @property
    def released(self) -> int:
        count: int = self._table.get(_RELEASED, 0)
        return count

    @released.setter
    def released(self, count: int) -> None:
        self._table[_RELEASED] = count

    def clear(self) -> None:
        """Remove everything, because all pieces have been released."""
        self._table.clear()

    def _blocks(self) -> Iterator[Any]:
        return _in_blocks(_entries(self._runs()))

    def _merged(self) -> Iterator[_Entry]:
        # Equal entries keep the order in which they were added: those of older files first, and those in memory last.
        sources = [itertools.chain.from_iterable(_read(name)) for name in self.files]
        return heapq.merge(*sources, _entries(self._runs()), key=itemgetter(0))

    def _spill(self, folder: Path) -> None:
        super()._spill(folder)
        if len(self.files) >= _MOST_FILES:
            self._set_files((_write(folder, _in_blocks(self._merged())),))


def _by_key(runs: Iterable[tuple[int, Records]]) -> Iterator[tuple[Any, Any, list[Waiting]]]:
    """Yield order, key and sorted records of each key, in order."""
    by_key: defaultdict[Any, list[Waiting]] = defaultdict(list)
    for input_index, records in runs:
        for value, timestamp, key in keyed(records):
            by_key[key].append((timestamp, input_index, value))
    for order, key in sorted(((sort_key(key), key) for key in by_key), key=itemgetter(0)):
        waiting = by_key.pop(key)
        waiting.sort(key=_time_and_input)
        yield order, key, waiting


def _time_and_input(waiting: Waiting) -> tuple[int, int]:
    timestamp, input_index, _ = waiting
    return (MIN_WATERMARK if timestamp is None else timestamp), input_index


def _pieces_in_memory(runs: Iterable[tuple[int, Records]]) -> Iterator[Piece]:
    for _, key, waiting in _by_key(runs):
        if len(waiting) <= _PIECE:
            yield Piece(key, waiting, True, True)
        else:
            for start in range(0, len(waiting), _PIECE):
                yield Piece(key, waiting[start : start + _PIECE], start == 0, start + _PIECE >= len(waiting))


def _entries(runs: Iterable[tuple[int, Records]]) -> Iterator[_Entry]:
    for order, key, waiting in _by_key(runs):
        for timestamp, input_index, value in waiting:
            yield (order, MIN_WATERMARK if timestamp is None else timestamp, input_index), key, value


def _pieces(entries: Iterable[_Entry]) -> Iterator[Piece]:
    current: Any = None
    key: Any = None
    first = True
    waiting: list[Waiting] = []
    for (order, timestamp, input_index), entry_key, value in entries:
        if order != current:
            if waiting:
                yield Piece(key, waiting, first, True)
            current, key, waiting, first = order, entry_key, [], True
        elif len(waiting) >= _PIECE:
            yield Piece(key, waiting, first, False)
            waiting, first = [], False
        waiting.append((None if timestamp == MIN_WATERMARK else timestamp, input_index, value))
    if waiting:
        yield Piece(key, waiting, first, True)


def _in_blocks(entries: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    entries = iter(entries)
    while block := list(itertools.islice(entries, _PIECE)):
        yield block


def _write(folder: Path, blocks: Iterable[Any]) -> str:
    """Write blocks into a new file and return its name, which is different for each try."""
    with _disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(suffix=".run", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            for block in blocks:
                data = pickling.dumps(block)
                file.write(len(data).to_bytes(8, "little"))
                file.write(data)
    return name


def _read(name: str) -> Iterator[Any]:
    with _disk_errors(name), open(name, "rb") as file:
        while (data := _read_block(file)) is not None:
            yield pickling.loads(data)


def _read_block(file: IO[bytes]) -> bytes | None:
    length = file.read(8)
    return file.read(int.from_bytes(length, "little")) if length else None


@contextlib.contextmanager
def _disk_errors(where: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EngineError(
            f"records of a batch that do not fit into memory (execution.sorted-inputs.memory) cannot be kept in {where}: "
            f"{error.strerror or error}",
            hint="set io.tmp.dirs to a folder with room for the input, which all machines reach.",
        ) from error
