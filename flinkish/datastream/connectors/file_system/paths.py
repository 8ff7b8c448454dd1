"""Paths as users give them, and opening files that may be compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import urllib.parse
import zlib
from collections.abc import Callable
from typing import IO, Final

from flinkish.common.errors import InvalidArgumentError, UnsupportedError

#: What reading a damaged compressed file raises.
DECOMPRESSION_ERRORS: Final = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


def local_path(path: object, what: str) -> str:
    """Return the absolute path of `/a`, `a` or `file:///a`; relative ones stand below the folder the program was started in.

    Raises UnsupportedError for other schemes.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"{what} must be a path (str); got {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"{what} must be a path (str) that is not empty; got {path!r}")
    scheme, separator, _ = text.partition("://")
    if separator:
        if scheme.lower() != "file":
            raise UnsupportedError(
                f"{what} {text!r}: only files of the local (or a mounted) file system are supported",
                hint="mount the storage, or use a native Spark source.",
            )
        text = urllib.parse.unquote(urllib.parse.urlsplit(text).path)
    elif text.lower().startswith("file:/"):
        text = urllib.parse.unquote(text[len("file:") :])
    return os.path.abspath(text)


def _open_deflate(path: str) -> IO[bytes]:
    with open(path, "rb") as file:
        return io.BytesIO(zlib.decompress(file.read()))


def _open_gzip(path: str) -> IO[bytes]:
    return gzip.open(path, "rb")  # type: ignore[return-value]


def _open_bz2(path: str) -> IO[bytes]:
    return bz2.open(path, "rb")


def _open_xz(path: str) -> IO[bytes]:
    return lzma.open(path, "rb")


_COMPRESSED: Final[dict[str, Callable[[str], IO[bytes]]]] = {
    ".gz": _open_gzip,
    ".gzip": _open_gzip,
    ".bz2": _open_bz2,
    ".xz": _open_xz,
    ".deflate": _open_deflate,
}


def is_compressed(path: str) -> bool:
    """Return whether a file is decompressed when it is read; goes by the ending of its name, as in Flink."""
    return os.path.splitext(path)[1].lower() in _COMPRESSED


def open_bytes(path: str) -> IO[bytes]:
    """Open a file for reading, decompressing it if its name says so; `seek` works, but costs time in a compressed file."""
    opener = _COMPRESSED.get(os.path.splitext(path)[1].lower())
    return open(path, "rb", buffering=0) if opener is None else opener(path)
