"""Checkpoint files in the memory of this process: for tests, and for jobs whose checkpoints need not outlive the process.

Only jobs on the local engine can use it, as their tasks run in the same process. Files are kept until they are removed.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import TracebackType
from typing import IO, Any

SCHEME = "memory"


class _Disk:
    """All files and folders of the process, by their full paths."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: dict[PurePath, bytes] = {}
        self.folders: set[PurePath] = set()

    def below(self, folder: PurePath) -> list[PurePath]:
        """Return the files and folders in a folder and its subfolders."""
        return [path for path in (*self.files, *self.folders) if folder in path.parents]


_DISK = _Disk()


class _MemoryNewFile:
    """See NewFile. Readers see the written data once it is synced or closed."""

    def __init__(self, path: PurePath) -> None:
        self._path = path
        self._buffer = io.BytesIO()

    def write(self, data: Any, /) -> int:
        return self._buffer.write(data)

    def sync(self) -> None:
        with _DISK.lock:
            if self._path in _DISK.files:  # the file was not removed in the meantime
                _DISK.files[self._path] = self._buffer.getvalue()

    def close(self) -> None:
        self.sync()

    def __enter__(self) -> _MemoryNewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /) -> None:
        self.close()


class MemoryFiles:
    """See CheckpointFiles. There are no links, and files are lost only when the process ends."""

    def __init__(self, root: PurePath) -> None:
        self._root = root

    @property
    def root(self) -> PurePath:
        """The root, with which the paths of all files begin."""
        return self._root

    def _path(self, inside: str) -> PurePath:
        names = inside.split("/") if inside else []
        if {"", ".", ".."} & set(names):
            raise OSError(errno.EINVAL, "not a plain relative path", inside)
        return self._root.joinpath(*names)

    @property
    def delta_options(self) -> Mapping[str, str]:
        """No options: delta-rs cannot read this storage."""
        return {}

    def refuse_links(self, *inside: str) -> None:
        """Do nothing: there are no links."""

    def is_folder(self, inside: str = "") -> bool:
        return self._path(inside) in _DISK.folders

    def exists(self, inside: str) -> bool:
        path = self._path(inside)
        return path in _DISK.files or path in _DISK.folders

    def names(self, inside: str = "") -> list[str]:
        folder = self._path(inside)
        with _DISK.lock:
            self._need_folder(folder, inside)
            return sorted(path.name for path in _DISK.below(folder) if path.parent == folder)

    def files_below(self, inside: str) -> Iterator[str]:
        folder = self._path(inside)
        with _DISK.lock:
            self._need_folder(folder, inside)
            found = sorted(path for path in _DISK.files if folder in path.parents)
        return (path.relative_to(self._root).as_posix() for path in found)

    @staticmethod
    def _need_folder(folder: PurePath, inside: str) -> None:
        if folder not in _DISK.folders:
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
        content = _DISK.files.get(self._path(inside))
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside)
        return content

    def create(self, inside: str) -> _MemoryNewFile:
        path = self._path(inside)
        with _DISK.lock:
            self._need_free(path, inside)
            _DISK.files[path] = b""
        return _MemoryNewFile(path)

    def _need_free(self, path: PurePath, inside: str) -> None:
        self._need_folder(path.parent, inside)
        if path in _DISK.files or path in _DISK.folders:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), inside)

    def put_new(self, inside: str, content: bytes) -> None:
        """Make a file with its content in one step; FileExistsError if its name is taken."""
        path = self._path(inside)
        with _DISK.lock:
            self._need_free(path, inside)
            _DISK.files[path] = content

    def replace(self, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
        path = self._path(inside)
        with _DISK.lock:
            self._need_folder(path.parent, inside)
            _DISK.files[path] = content

    def remove(self, inside: str) -> None:
        if _DISK.files.pop(self._path(inside), None) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside)

    def remove_empty_folders(self, inside: str) -> None:
        folder = self._path(inside)
        with _DISK.lock:
            self._need_folder(folder, inside)
            within = _DISK.below(folder)
            if any(path in _DISK.files for path in within) or (within and not inside):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), inside)
            _DISK.folders.difference_update(within, [folder])

    def remove_all(self) -> None:
        with _DISK.lock:
            for path in (*_DISK.below(self._root), self._root):
                _DISK.files.pop(path, None)
                _DISK.folders.discard(path)

    def rename(self, inside: str, to: str) -> None:
        old, new = self._path(inside), self._path(to)
        with _DISK.lock:
            self._need_folder(old, inside)
            self._need_free(new, to)
            for path in (*_DISK.below(old), old):
                moved = new / path.relative_to(old)
                if path in _DISK.folders:
                    _DISK.folders.remove(path)
                    _DISK.folders.add(moved)
                else:
                    _DISK.files[moved] = _DISK.files.pop(path)

    def make_root(self, *, sync: bool) -> None:
        with _DISK.lock:
            _DISK.folders.update((self._root, *self._root.parents))

    def make_folder(self, inside: str) -> None:
        path = self._path(inside)
        with _DISK.lock:
            self._need_free(path, inside)
            _DISK.folders.add(path)

    def make_folders(self, inside: str) -> None:
        path = self._path(inside)
        with _DISK.lock:
            self._need_folder(self._root, inside)
            _DISK.folders.update(each for each in (path, *path.parents) if self._root in each.parents)

    def sync(self, inside: str = "") -> None:
        """Do nothing: memory is never synced."""

    def sync_log(self, synced: int) -> int:
        """Do nothing: memory is never synced."""
        return synced
