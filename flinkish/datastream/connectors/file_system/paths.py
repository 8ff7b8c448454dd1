"""Paths given by users, and access to files that may be compressed."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable
from functools import partial
from typing import IO, Any, Final

import pyarrow as pa

from flinkish.common.errors import InvalidArgumentError, SourceError, UnsupportedError
from flinkish.common.files.schemes import without_user
from flinkish.common.paths import location
from flinkish.datastream.connectors.file_system.objects import is_folder, is_object, object_path, open_ahead

#: Name of the folder that marks a Delta table.
DELTA_LOG: Final = "_delta_log"
#: Number of bytes of a compressed file to read at once.
_CHUNK: Final = 64 * 1024


class DamagedFileError(SourceError):
    """A compressed file is damaged or cut short."""


def _damaged(path: str, reason: object) -> DamagedFileError:
    return DamagedFileError(f"FileSource cannot decompress {path}: {reason}; the file is damaged or cut short")


def file_path(path: object, what: str) -> str:
    """Return the URI of a path in an object store; for other paths, return or raise the same as `local_path`."""
    found = object_path(path, what) if isinstance(path, str) else None
    return local_path(path, what, stores=True) if found is None else found


def local_path(path: object, what: str, *, stores: bool = False) -> str:
    """Return the absolute path of `/a`, `a`, `~/a` or `file:///a`; relative paths are below the program's working folder.

    Raises UnsupportedError for other schemes. `stores`: whether it should say that object stores are supported.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"{what} must be a path (str); got {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"{what} must be a path (str) that is not empty; got {path!r}")
    place = location(text)
    if place.scheme not in ("", "file"):
        raise UnsupportedError(
            f"{what} {without_user(text)!r}: only files of the local (or a mounted) file system"
            f"{', and of s3://, gs:// and abfss://,' if stores else ''} are supported",
            hint="mount the storage, or use a native Spark source.",
        )
    if not place.is_local:
        raise UnsupportedError(
            f"{what} {text!r}: {place.host!r}, which stands before the path, would be another host",
            hint="write file:///, with three slashes.",
        )
    return os.path.abspath(place.file if place.scheme else os.path.expanduser(text))


def delta_table_around(path: str) -> str | None:
    """Return the Delta table that a path is, or is in, else None; also None for the log of a table, which is plain files."""
    exists, forms = (is_folder, (path,)) if is_object(path) else (os.path.isdir, (path, os.path.realpath(path)))
    for form in dict.fromkeys(forms):
        folder, below = form, ""
        # Above a bucket, the rest is no path of an object.
        while os.path.basename(folder) != DELTA_LOG and folder != below and is_object(folder) == is_object(path):
            if exists(f"{folder.rstrip('/')}/{DELTA_LOG}"):
                return folder
            folder, below = os.path.dirname(folder), folder
    return None


class _Inflater:
    """zlib's decompressor with the methods of the decompressors of bz2 and lzma. `wbits`: see zlib.decompressobj."""

    def __init__(self, wbits: int) -> None:
        self._zlib = zlib.decompressobj(wbits)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


class _Forward(io.RawIOBase):
    """The contents of a compressed file; seeking back restarts from the beginning."""

    def __init__(self) -> None:
        self._position = 0
        self._restart()

    def _restart(self) -> None:
        """Restart at the beginning of the file."""
        raise NotImplementedError

    def _next(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, and none only at the end. Raises DamagedFileError."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence != os.SEEK_SET:
            raise io.UnsupportedOperation("the end of a compressed file is not known before it is read")
        if offset < self._position:
            self._position = 0
            self._restart()
        while self._position < offset and self._take(min(_CHUNK, offset - self._position)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _take(self, size: int) -> bytes:
        data = self._next(size)
        self._position += len(data)
        return data


class _Decompressed(_Forward):
    """A file of one or more streams, which an object such as bz2.BZ2Decompressor decompresses.

    Raises DamagedFileError for any damaged stream. Python's readers of bz2 and lzma ignore a damaged stream after the first one,
    with everything after it.
    """

    def __init__(self, path: str, make: Callable[[], Any]) -> None:
        self._path = path
        self._file = open_ahead(path)
        self._make = make
        super().__init__()

    def _restart(self) -> None:
        self._file.seek(0)
        self._decompressor = self._make()
        self._at_end = False

    def _next(self, size: int) -> bytes:
        while not self._at_end:
            decompressor = self._decompressor
            if decompressor.eof:
                # Another stream may follow, after padding with zeros.
                rest = decompressor.unused_data.lstrip(b"\0")
                while not rest and (chunk := self._file.read(_CHUNK)):
                    rest = chunk.lstrip(b"\0")
                if not rest:
                    self._at_end = True
                    break
                self._decompressor = self._make()
                data = self._decompress(rest, size)
            elif decompressor.needs_input:
                chunk = self._file.read(_CHUNK)
                if not chunk:
                    raise _damaged(self._path, "it ends in the middle")
                data = self._decompress(chunk, size)
            else:
                data = self._decompress(b"", size)
            if data:
                return data
        return b""

    def _decompress(self, chunk: bytes, size: int) -> bytes:
        try:
            data: bytes = self._decompressor.decompress(chunk, size)
        except (OSError, lzma.LZMAError, zlib.error) as error:
            raise _damaged(self._path, error) from error
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


class _Zstandard(_Forward):
    """A file of one or more Zstandard frames."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: Any = None
        super().__init__()

    def _restart(self) -> None:
        self._close_stream()
        # Opened by Python, so that Python's errors are raised.
        self._stream = pa.CompressedInputStream(pa.PythonFile(open_ahead(self._path)), "zstd")

    def _next(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except OSError as error:
            raise _damaged(self._path, error) from error
        return data

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def close(self) -> None:
        self._close_stream()
        super().close()


def _open_zstandard(path: str) -> IO[bytes]:
    return io.BufferedReader(_Zstandard(path), _CHUNK)


def _opener(make: Callable[[], Any]) -> Callable[[str], IO[bytes]]:
    return lambda path: io.BufferedReader(_Decompressed(path, make), _CHUNK)


_open_gzip: Final = _opener(partial(_Inflater, 16 + zlib.MAX_WBITS))
_COMPRESSED: Final[dict[str, Callable[[str], IO[bytes]]]] = {
    ".gz": _open_gzip,
    ".gzip": _open_gzip,
    ".bz2": _opener(bz2.BZ2Decompressor),
    ".xz": _opener(lzma.LZMADecompressor),
    ".deflate": _opener(partial(_Inflater, zlib.MAX_WBITS)),
    ".zst": _open_zstandard,
}


def is_compressed(path: str) -> bool:
    """Return whether a file is decompressed when it is read; the suffix of its name decides, as in Flink."""
    return os.path.splitext(path)[1].lower() in _COMPRESSED


def open_bytes(path: str) -> IO[bytes]:
    """Open a file for reading, and decompress it if its name says so; `seek` is slow in a compressed file.

    Raises OSError. Reading a compressed file also raises DamagedFileError.
    """
    opener = _COMPRESSED.get(os.path.splitext(path)[1].lower())
    return open_ahead(path) if opener is None else opener(path)
