"""The change log of a heap: the bytes that it gives the engine to keep, and the files that they refer to.

Layout of the bytes: length of the header, header (MessagePack), then the inline entries. The header names the files of older
entries, and the files that the last epoch dropped. An entry is the lengths of its head and of its payload, the second in 64 bits
as it may hold all state; the head (MessagePack); and the payload as it is, which is never copied.

An entry is *full* (all state at its position; replaces all before it) or holds what one epoch changed. The inline part is
carried from JVM to Python and back in every epoch (1 MB costs about 20 ms), so past a limit it is written to a segment file and
only referred to. Once the log is as large as the last full entry, it is folded: the next entry is full, or, if the log
is large, a process of its own writes one to a file that replaces all files so far in a later epoch (fold.py). So replaying costs
a few times the size of the state at most, and all that is ever written is at most three times what was changed.

The nonces of positions make every try of an epoch unique, so files of a try that lost are never overwritten or read. Files that
an epoch drops are deleted by the next one, when its bytes are known to be in force.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO
from zlib import crc32

import msgspec

from flinkish.common.errors import EngineError
from flinkish.runtime.state.heap.fold import Fold
from flinkish.runtime.state.positions import Place, Position

#: Maximum bytes of inline entries, least and largest; if there are more, they are written to a file. Between the two it is a
#: share of the files: a small state costs an epoch little, and a large one has a few dozen files for each doubling of its size.
LEAST_INLINE, INLINE_LIMIT = 16 << 10, 1 << 20
_SHARE = 32
#: Maximum number of inline entries, because replaying each has a small cost; if there are more, they are written to a file.
INLINE_ENTRIES = 1_024
#: Minimum bytes of a log that a process of its own folds: a fork takes as long as pickling some megabytes.
LEAST_FORKED = 8 << 20
#: How many times the last full entry a log may grow to while it is folded; then the slot ends that, and writes all state itself.
_MOST_GROWTH = 4

_LENGTH = struct.Struct("<I")
#: The lengths of an entry's head and payload.
_LENGTHS = struct.Struct("<IQ")
#: Number of bytes that are checked at a time.
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """The changes of one epoch, or all state at its end."""

    epoch: int
    nonce: str
    full: bool
    payload: bytes

    @property
    def size(self) -> int:
        """The approximate number of bytes that it takes in the log."""
        return len(self.payload) + _LENGTHS.size

    def parts(self) -> tuple[bytes, bytes]:
        """Return what is written: lengths and head, then the payload."""
        head = _encode((self.epoch, self.nonce, self.full))
        return _LENGTHS.pack(len(head), len(self.payload)) + head, self.payload


class FileReference(msgspec.Struct, frozen=True, array_like=True):
    """A file of entries in the scratch folder."""

    name: str
    size: int
    checksum: int


class _Header(msgspec.Struct, frozen=True, array_like=True):
    full_size: int
    files: list[FileReference]
    dropped: list[str]


_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_Header).decode
_decode_file = msgspec.msgpack.Decoder(FileReference).decode
_decode_head = msgspec.msgpack.Decoder(tuple[int, str, bool]).decode


class ChangeLog:
    """Reads and extends the log of one slot's level. It is empty at first; `load` continues from bytes of another object."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._files: list[FileReference] = []
        #: Entries as they are written: lengths and head, payload.
        self._inline: list[tuple[bytes, bytes]] = []
        self._inline_size = 0
        self._full_size = 0
        #: Files that the last epoch dropped; it is not known yet whether the bytes without them are in force.
        self._dropped: list[str] = []
        #: What folds the log, the name of its file, and the files that this will replace.
        self._fold: Fold | None = None
        self._fold_name = ""
        self._folded: list[FileReference] = []
        #: Whether that has failed: the slot writes the next full entry itself, so that the reason is named.
        self._failed = False

    def load(self, kept: bytes) -> None:
        """Continue from the end of some bytes of `to_bytes`; raises EngineError if they are cut off."""
        start = _LENGTH.size + _LENGTH.unpack_from(kept)[0]
        header = _decode_header(kept[_LENGTH.size : start])
        self._files, self._dropped, self._full_size = header.files, header.dropped, header.full_size
        self._inline_size = len(kept) - start
        self._inline = [entry.parts() for entry in _read_entries(io.BytesIO(kept[start:]), self._inline_size)]

    def entries(self) -> Iterator[Entry]:
        """Return all entries; raises EngineError if a file is missing or damaged."""
        for file in self._files:
            yield from self._read(file)
        for head, payload in self._inline:
            yield Entry(*_decode_head(head[_LENGTHS.size :]), payload)

    def _read(self, file: FileReference) -> Iterator[Entry]:
        path = self._place.folder / file.name
        try:
            with path.open("rb") as opened:
                size = checksum = 0
                while chunk := opened.read(_CHUNK):
                    size, checksum = size + len(chunk), crc32(chunk, checksum)
                if size != file.size or checksum != file.checksum:
                    raise EngineError(f"{path} is damaged: expected {file.size} bytes; got {size}")
                opened.seek(0)
                yield from _read_entries(opened, size)
        except OSError as error:
            owner = self._place.owner
            raise EngineError(
                f"a file of the state of slot {owner.slot}, level {owner.level} cannot be read: {error}",
                hint="the scratch folder must be reachable from all executors and must not be cleaned while the job runs.",
            ) from error

    def wants_full(self, size: int) -> bool:
        """Tell whether an entry with all state should replace one of `size` bytes, because the log has become too large."""
        if self._fold is not None or (self._inline_size + size <= self._limit and len(self._inline) < INLINE_ENTRIES):
            return False
        return self._size + size >= 2 * self._full_size

    def may_fork(self, size: int) -> bool:
        """Tell whether a process of its own should write that entry."""
        return self._place.own_process and not self._failed and self._size + size >= LEAST_FORKED

    @property
    def _size(self) -> int:
        return self._inline_size + self._files_size

    @property
    def _files_size(self) -> int:
        return sum(file.size for file in self._files)

    @property
    def _limit(self) -> int:
        return min(INLINE_LIMIT, max(LEAST_INLINE, self._files_size // _SHARE))

    def before_commit(self) -> None:
        """Delete the files that the last epoch dropped, as this epoch has begun with the bytes without them; end a fold."""
        for name in self._dropped:
            with contextlib.suppress(FileNotFoundError):
                (self._place.folder / name).unlink()
        self._dropped = []
        if self._fold is not None and self._fold.is_done():
            self._end_fold(self._fold.result())
        elif self._fold is not None and self._size >= _MOST_GROWTH * self._full_size:
            self._fold.cancel()
            self._end_fold(None)

    def _end_fold(self, result: bytes | None) -> None:
        """Replace the files that were folded, or drop what a process that failed has written."""
        self._fold = None
        if result is None:
            self._failed = True
            self._dropped = [self._fold_name]
            return
        file = _decode_file(result)
        self._dropped = [folded.name for folded in self._folded]
        self._files = [file, *self._files[len(self._folded) :]]
        self._full_size = file.size

    def fold(self, position: Position, payload: Callable[[], bytes]) -> None:
        """Fork a process that writes all state as it is now, after the last entry; `payload` pickles it."""
        assert not self._inline, "an entry that makes the log too large is in a file"
        self._folded = list(self._files)
        self._fold_name = self._name(position, "full")
        self._fold = Fold(lambda: _encode(self._write(self._fold_name, [Entry(*position, True, payload()).parts()])))

    def close(self) -> None:
        if self._fold is not None:
            self._fold.cancel()
            self._fold = None
            self._dropped.append(self._fold_name)

    def append(self, entry: Entry) -> None:
        """Add an entry; writes a file if the inline part has become too long."""
        if entry.full:
            self.close()
            self._failed = False
            self._dropped += [file.name for file in self._files]
            self._files = []
            self._inline, self._inline_size = [], 0
            self._full_size = entry.size
        self._inline.append(entry.parts())
        self._inline_size += entry.size
        if self._inline_size > self._limit or len(self._inline) > INLINE_ENTRIES:
            self._write_inline((entry.epoch, entry.nonce))

    def _write_inline(self, position: Position) -> None:
        self._files = [*self._files, self._write(self._name(position, "log"), self._inline)]
        self._inline, self._inline_size = [], 0

    def _name(self, position: Position, kind: str) -> str:
        epoch, nonce = position
        return f"{self._place.owner.level}-{self._place.owner.slot}-{epoch}-{nonce}.{kind}"

    def _write(self, name: str, entries: Iterable[tuple[bytes, bytes]]) -> FileReference:
        self._place.folder.mkdir(parents=True, exist_ok=True)
        size = checksum = 0
        with (self._place.folder / name).open("xb") as file:
            for parts in entries:
                for part in parts:
                    file.write(part)
                    checksum = crc32(part, checksum)
                    size += len(part)
        return FileReference(name, size, checksum)

    def to_bytes(self) -> bytes:
        """Return the log as bytes for another object."""
        header = _encode(_Header(self._full_size, self._files, self._dropped))
        parts = [_LENGTH.pack(len(header)), header]
        for entry in self._inline:
            parts += entry
        return b"".join(parts)


def _read_entries(file: IO[bytes], size: int) -> Iterator[Entry]:
    """Return the entries in the next `size` bytes."""
    while size:
        size -= _LENGTHS.size
        if size < 0:
            raise EngineError("the change log is cut off")
        head, payload = _LENGTHS.unpack(file.read(_LENGTHS.size))
        size -= head + payload
        if size < 0:
            raise EngineError("the change log is cut off")
        yield Entry(*_decode_head(file.read(head)), file.read(payload))
