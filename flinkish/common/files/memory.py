"""Checkpoint files in the memory of this process: for tests, and for jobs whose checkpoints need not outlive the process.

Only jobs on the local engine can use it, as their tasks run in the same process. Files are kept until they are removed.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO, Any

from flinkish.common.files.checkpoint_files import CheckpointFiles, NewFile

SCHEME = "memory"


_LOCK = threading.RLock()
#: All files of the process by their full paths, with their content; None stands for a folder.
_ENTRIES: dict[PurePath, bytes | None] = {}


def _below(folder: PurePath) -> list[PurePath]:
    return [path for path in _ENTRIES if folder in path.parents]


class _MemoryNewFile(NewFile):
    """See NewFile. Readers see the written data once it is synced or closed."""

    def __init__(self, path: PurePath) -> None:
        self._path = path
        self._buffer = io.BytesIO()

    def write(self, data: Any, /) -> int:
        return self._buffer.write(data)

    def sync(self) -> None:
        with _LOCK:
            if self._path in _ENTRIES:  # the file was not removed in the meantime
                _ENTRIES[self._path] = self._buffer.getvalue()

    def close(self) -> None:
        self.sync()


class MemoryFiles(CheckpointFiles):
    """See CheckpointFiles. There are no links, and files are lost only when the process ends."""

    def _path(self, inside: str) -> PurePath:
        names = inside.split("/") if inside else []
        if {"", ".", ".."} & set(names):
            raise OSError(errno.EINVAL, "not a plain relative path", inside)
        return self._root.joinpath(*names)

    def is_folder(self, inside: str = "") -> bool:
        return _ENTRIES.get(self._path(inside), b"") is None

    def exists(self, inside: str) -> bool:
        return self._path(inside) in _ENTRIES

    def names(self, inside: str = "") -> list[str]:
        folder = self._path(inside)
        with _LOCK:
            self._need_folder(folder, inside)
            return sorted(path.name for path in _below(folder) if path.parent == folder)

    def files_below(self, inside: str) -> Iterator[str]:
        folder = self._path(inside)
        with _LOCK:
            self._need_folder(folder, inside)
            found = sorted(path for path in _below(folder) if _ENTRIES[path] is not None)
        return (path.relative_to(self._root).as_posix() for path in found)

    @staticmethod
    def _need_folder(folder: PurePath, inside: str) -> None:
        if _ENTRIES.get(folder, b"") is not None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside or str(folder))

    def size(self, inside: str) -> int:
        return len(self._content(inside))

    def read(self, inside: str, *, limit: int) -> bytes:
        content = self._content(inside)
        if len(content) > limit:
            raise OSError(errno.EFBIG, f"{len(content)} bytes, expected at most {limit}", inside)
        return content

    def open(self, inside: str) -> IO[bytes]:
        return io.BytesIO(self._content(inside))

    def _content(self, inside: str) -> bytes:
        content = _ENTRIES.get(self._path(inside))
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside)
        return content

    def create(self, inside: str) -> _MemoryNewFile:
        self.put_new(inside, b"")
        return _MemoryNewFile(self._path(inside))

    def put_new(self, inside: str, content: bytes | None) -> None:
        """Make a file with its content, or a folder, in one step; FileExistsError if its name is taken."""
        path = self._path(inside)
        with _LOCK:
            self._need_free(path, inside)
            _ENTRIES[path] = content

    def _need_free(self, path: PurePath, inside: str) -> None:
        self._need_folder(path.parent, inside)
        if path in _ENTRIES:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), inside)

    def replace(self, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
        path = self._path(inside)
        with _LOCK:
            self._need_folder(path.parent, inside)
            _ENTRIES[path] = content

    def remove(self, inside: str) -> None:
        with _LOCK:
            self._content(inside)
            del _ENTRIES[self._path(inside)]

    def remove_empty_folders(self, inside: str) -> None:
        folder = self._path(inside)
        with _LOCK:
            self._need_folder(folder, inside)
            within = _below(folder)
            if any(_ENTRIES[path] is not None for path in within) or (within and not inside):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), inside)
            for path in (*within, folder):
                del _ENTRIES[path]

    def remove_all(self) -> None:
        with _LOCK:
            for path in (*_below(self._root), self._root):
                _ENTRIES.pop(path, None)

    def rename(self, inside: str, to: str) -> None:
        old, new = self._path(inside), self._path(to)
        with _LOCK:
            self._need_folder(old, inside)
            self._need_free(new, to)
            for path in (*_below(old), old):
                _ENTRIES[new / path.relative_to(old)] = _ENTRIES.pop(path)

    def make_root(self, *, sync: bool) -> None:
        with _LOCK:
            for path in (self._root, *self._root.parents):
                _ENTRIES.setdefault(path, None)

    def make_folder(self, inside: str) -> None:
        self.put_new(inside, None)

    def make_folders(self, inside: str) -> None:
        path = self._path(inside)
        with _LOCK:
            self._need_folder(self._root, inside)
            for each in (path, *path.parents):
                if self._root in each.parents:
                    _ENTRIES.setdefault(each, None)
