"""Paths given by users, and access to files, which may be compressed, and to objects in stores.

A path in an object store is a URI such as `s3://bucket/a/b`. Paths on disk are absolute and normalized, so they never contain
`://`.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import IO, Any, Final

import pyarrow as pa

from flinkish.common.errors import InvalidArgumentError, SourceError, UnsupportedError
from flinkish.common.files.checkpoint_files import StoreReference
from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.schemes import DURABLE_SCHEMES, root_of, without_user
from flinkish.common.files.store_settings import AZURE_SCHEMES, azure_place
from flinkish.common.paths import location

#: Name of the folder that marks a Delta table.
DELTA_LOG: Final = "_delta_log"


# Paths.


def file_path(path: object, what: str) -> str:
    """Return the URI of a path in an object store; for other paths, return or raise the same as `local_path`."""
    found = object_path(path, what) if isinstance(path, str) else None
    return local_path(path, what) if found is None else found


def local_path(path: object, what: str) -> str:
    """Return the absolute path of `/a`, `a`, `~/a` or `file:///a`; relative paths are below the program's working folder.

    Raises UnsupportedError for other schemes.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"{what} must be a path (str); got {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"{what} must be a path (str) that is not empty; got {path!r}")
    place = location(text)
    if place.scheme not in ("", "file"):
        raise UnsupportedError(
            f"{what} {without_user(text)!r}: only files of the local (or a mounted) file system, and of s3://, gs:// and "
            "abfss://, are supported",
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
    for form in dict.fromkeys([path] if is_object(path) else [path, os.path.realpath(path)]):
        folder, below = form, ""
        # Above a bucket, the rest is no path of an object.
        while os.path.basename(folder) != DELTA_LOG and folder != below and is_object(folder) == is_object(path):
            if _is_folder(f"{folder.rstrip('/')}/{DELTA_LOG}"):
                return folder
            folder, below = os.path.dirname(folder), folder
    return None


# Objects.


def is_object(path: str) -> bool:
    return "://" in path


def object_path(text: str, what: str) -> str | None:
    """Return the URI of a path in an object store, with the scheme that is used inside; None for other paths.

    Raises InvalidArgumentError, which shows no credentials, for a URI without a bucket or with names that no object can have.

    >>> object_path("s3a://bucket/a b/#1/", "path"), object_path("/data", "path")
    ('s3://bucket/a b/#1', None)
    """
    place = location(text)
    if place.scheme not in DURABLE_SCHEMES:
        return None
    azure = place.scheme in AZURE_SCHEMES
    inside = place.path.strip("/")
    usable = not ({"", ".", ".."} & set(inside.split("/")) if inside else ()) and inside.isprintable()
    if not usable or (azure_place(place.host) is None if azure else not place.host or "@" in place.host):
        bucket = "<container>@<account>.dfs.core.windows.net" if azure else "bucket"
        raise InvalidArgumentError(
            f"{what} {without_user(text)!r}: expected {place.scheme}://{bucket}/path, without '//', '.' and '..' in the path",
            hint="credentials are set by keys such as s3.access-key.",
        )
    return str(root_of(f"{place.scheme}://{place.host}/{inside}"))


def store_of(path: str) -> tuple[ObjectFiles, str]:
    """Return the bucket of a URI as a root, and the key in it, without access to the store."""
    scheme, _, rest = path.partition("://")
    authority, _, key = rest.partition("/")
    return ObjectFiles(StoreReference(f"{scheme}://{authority}")), key


def open_object(path: str, *, buffered: bool = True) -> IO[bytes]:
    """Open an object for reading, ahead in requests of some megabytes, or with a request for each read. Raises OSError."""
    files, key = store_of(path)
    return files.open(key, buffered=buffered)


def open_ahead(path: str) -> IO[bytes]:
    """Open a file or an object for reading from one position on. Raises OSError."""
    return open_object(path) if is_object(path) else open(path, "rb")


def size_of(path: str) -> int:
    """Return the size of a file in bytes. Raises OSError."""
    if is_object(path):
        files, key = store_of(path)
        return files.size(key)
    return os.stat(path).st_size


def objects_below(path: str, *, empty: bool = False) -> dict[str, int]:
    """Return the objects below a URI, or the one object that it names, with their sizes in bytes, in the order of their paths.

    Without `empty`, objects without content are left out: they have no records, and many tools make them to stand for folders.
    Raises OSError; FileNotFoundError if nothing is there.
    """
    files, key = store_of(path)
    bucket = path[: len(path) - len(key)].rstrip("/")
    try:
        found = files.sizes_below(key)
    except FileNotFoundError:
        if not key:
            raise
        return {path: files.size(key)}
    order = sorted(found, key=lambda each: each.split("/"))
    return {f"{bucket}/{each}": found[each] for each in order if (empty or found[each] > 0) and each != key}


def _is_folder(path: str) -> bool:
    if is_object(path):
        files, key = store_of(path)
        return files.is_folder(key)
    return os.path.isdir(path)


def copy_object(path: str, to: str) -> None:
    """Copy an object within a bucket; the copy appears in one step. Raises OSError; FileNotFoundError if it does not exist."""
    files, key = store_of(path)
    files.copy(key, store_of(to)[1])


def remove_objects(paths: Iterable[str]) -> None:
    """Remove objects of one bucket that exist or not. Raises OSError."""
    keys = [store_of(path) for path in paths]
    if keys:
        keys[0][0].remove_together([key for _, key in keys])


# Compressed files.

#: Number of bytes of a compressed file to read at once.
_CHUNK: Final = 64 * 1024


class DamagedFileError(SourceError):
    """A compressed file is damaged or cut short."""


def _damaged(path: str, reason: object) -> DamagedFileError:
    return DamagedFileError(f"FileSource cannot decompress {path}: {reason}; the file is damaged or cut short")


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


class _Streams:
    """The streams of a file, one after another, which objects such as bz2.BZ2Decompressor decompress.

    Raises DamagedFileError for any damaged stream. Python's readers of bz2 and lzma ignore a damaged stream after the first one,
    with everything after it.
    """

    def __init__(self, make: Callable[[], Any], path: str) -> None:
        self._path = path
        self._file = open_ahead(path)
        self._make = make
        self._decompressor = make()

    def read(self, size: int) -> bytes:
        while True:
            if self._decompressor.eof:
                # Another stream may follow, after padding with zeros.
                chunk = self._decompressor.unused_data.lstrip(b"\0")
                while not chunk and (more := self._file.read(_CHUNK)):
                    chunk = more.lstrip(b"\0")
                if not chunk:
                    return b""
                self._decompressor = self._make()
            else:
                needed = self._decompressor.needs_input
                chunk = self._file.read(_CHUNK) if needed else b""
                if needed and not chunk:
                    raise _damaged(self._path, "it ends in the middle")
            if data := self._decompress(chunk, size):
                return data

    def _decompress(self, chunk: bytes, size: int) -> bytes:
        try:
            data: bytes = self._decompressor.decompress(chunk, size)
        except (OSError, lzma.LZMAError, zlib.error) as error:
            raise _damaged(self._path, error) from error
        return data

    def close(self) -> None:
        self._file.close()


class _Zstandard:
    """One or more Zstandard frames."""

    def __init__(self, path: str) -> None:
        self._path = path
        # Opened by Python, so that Python's errors are raised.
        self._stream = pa.CompressedInputStream(pa.PythonFile(open_ahead(path)), "zstd")
        self.close = self._stream.close

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except OSError as error:
            raise _damaged(self._path, error) from error
        return data


class _Decompressed(io.RawIOBase):
    """The contents of a compressed file; seeking back restarts from the beginning."""

    def __init__(self, start: Callable[[str], _Streams | _Zstandard], path: str) -> None:
        self._path = path
        self._start = start
        self._stream = start(path)
        self._position = 0

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
            self._stream.close()
            self._stream = self._start(self._path)
            self._position = 0
        while self._position < offset and self._take(min(_CHUNK, offset - self._position)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._position += len(data)
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


#: The functions that start to decompress a file, by the suffix of its name.
_COMPRESSED: Final[dict[str, Callable[[str], _Streams | _Zstandard]]] = {
    **dict.fromkeys((".gz", ".gzip"), partial(_Streams, partial(_Inflater, 16 + zlib.MAX_WBITS))),
    ".bz2": partial(_Streams, bz2.BZ2Decompressor),
    ".xz": partial(_Streams, lzma.LZMADecompressor),
    ".deflate": partial(_Streams, partial(_Inflater, zlib.MAX_WBITS)),
    ".zst": _Zstandard,
}


def is_compressed(path: str) -> bool:
    """Return whether a file is decompressed when it is read; the suffix of its name decides, as in Flink."""
    return os.path.splitext(path)[1].lower() in _COMPRESSED


def open_bytes(path: str) -> IO[bytes]:
    """Open a file for reading, and decompress it if its name says so; `seek` is slow in a compressed file.

    Raises OSError. Reading a compressed file also raises DamagedFileError.
    """
    start = _COMPRESSED.get(os.path.splitext(path)[1].lower())
    return open_ahead(path) if start is None else io.BufferedReader(_Decompressed(start, path), _CHUNK)
