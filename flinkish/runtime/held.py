"""Records that an operator of a batch cannot take yet: pickled in memory, and in files once they are many.

What is held stands in the state of the subtask: the pickled runs themselves, the names of files, and how many pieces were
released. So a lost process goes on where its state ends, and a try that was lost leaves nothing but files that nobody names.
Files are removed with the attempt.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from flinkish.common import pickling
from flinkish.common.errors import EngineError
from flinkish.runtime.elements import Records
from flinkish.runtime.key_groups import sort_key
from flinkish.runtime.operators.function import keyed
from flinkish.runtime.protocol import MIN_WATERMARK

#: What a record takes as an object beside its own size; measured with tuples of a short text and a number: 230 bytes.
_OBJECT_BYTES = 250
#: Records of a piece, which is released at once, and of a block of a file, which is read at once.
_PIECE = 1_000
#: As many files are open when they are merged; more are merged into one before.
_MOST_FILES = 64
#: Beside the runs, by number, the table holds: names of files, where the first one is read, how many pieces were released.
_FILES, _OFFSET, _RELEASED = "files", "offset", "released"

#: Timestamp, input, value.
Waiting = tuple[int | None, int, Any]
#: What a file of sorted records is made of: (order of the key, timestamp, input), key, value.
_Entry = tuple[tuple[Any, int, int], Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillSettings:
    """Where records go that do not fit into `memory` bytes; None: nowhere, all stay in memory."""

    folder: Path | None
    memory: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A few records of one key, sorted by time, then input, then arrival: the first of the key, its last, both or neither."""

    key: Any
    waiting: list[Waiting]
    first: bool
    last: bool


class HeldRecords:
    """Takes runs of records in; subclasses give them back."""

    def __init__(self, table: MutableMapping[Any, Any], settings: SpillSettings) -> None:
        self._table = table
        self._settings = settings
        numbers = [key for key in table if isinstance(key, int)]
        #: The runs in memory have the numbers from the first up to the next.
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
        """Hold a run of records."""
        run = pickling.dumps((input_index, records))
        size = len(run) + _OBJECT_BYTES * len(records.values)
        self._table[self._next] = size, run
        self._next += 1
        self._size += size
        if self._size > self._settings.memory and self._settings.folder is not None:
            self._spill(self._settings.folder)

    def _set_files(self, files: tuple[str, ...]) -> None:
        if files:
            self._table[_FILES] = files
        else:
            del self._table[_FILES]

    def _runs(self) -> Iterator[tuple[int, Records]]:
        """Yield the runs in memory."""
        for number in range(self._first, self._next):
            yield pickling.loads(self._table[number][1])

    def _blocks(self) -> Iterator[Any]:
        """Return what a file of the runs in memory is made of."""
        raise NotImplementedError

    def _spill(self, folder: Path) -> None:
        self._set_files((*self.files, _write(folder, self._blocks())))
        for number in range(self._first, self._next):
            del self._table[number]
        self._first, self._size = self._next, 0


class QueuedRecords(HeldRecords):
    """Gives runs back in the order in which they came; more may come meanwhile."""

    _blocks = HeldRecords._runs

    def take(self) -> tuple[int, Records]:
        """Return the first run and forget it; there must be one."""
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
    """Gives keyed records back key by key, once all have come: an external merge sort."""

    def pieces(self) -> Iterator[Piece]:
        """Return the records in pieces, but for those that were released."""
        pieces = _pieces(self._merged()) if self.files else _pieces_in_memory(self._runs())
        return itertools.islice(pieces, self.released, None)

    @property
    def released(self) -> int:
        """How many pieces were released."""
        count: int = self._table.get(_RELEASED, 0)
        return count

    @released.setter
    def released(self, count: int) -> None:
        self._table[_RELEASED] = count

    def clear(self) -> None:
        """Forget everything: all was released."""
        self._table.clear()

    def _blocks(self) -> Iterator[Any]:
        return _in_blocks(_entries(self._runs()))

    def _merged(self) -> Iterator[_Entry]:
        # Of equal ones those of the older file come first, and last those still in memory: in the order in which they came.
        sources = [itertools.chain.from_iterable(_read(name)) for name in self.files]
        return heapq.merge(*sources, _entries(self._runs()), key=itemgetter(0))

    def _spill(self, folder: Path) -> None:
        super()._spill(folder)
        if len(self.files) >= _MOST_FILES:
            self._set_files((_write(folder, _in_blocks(self._merged())),))


def _by_key(runs: Iterable[tuple[int, Records]]) -> Iterator[tuple[Any, Any, list[Waiting]]]:
    """Yield order, key and sorted records of each key, in order."""
    by_key: dict[Any, list[Waiting]] = {}
    for input_index, records in runs:
        for value, timestamp, key in keyed(records):
            waiting = by_key.get(key)
            if waiting is None:
                by_key[key] = [(timestamp, input_index, value)]
            else:
                waiting.append((timestamp, input_index, value))
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


# -- files -------------------------------------------------------------------------------------------------------------------


def _write(folder: Path, blocks: Iterable[Any]) -> str:
    """Write blocks into a new file and return its name, which no other try has."""
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
    """Yield the blocks of a file."""
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
