"""File operations in folders that other users can write to: below the given root, no link is followed.

Checking a path before its use is not enough there, as a name may become a link a moment later. So folders are opened one by one,
each relative to the one before (O_NOFOLLOW), and files are opened and removed relative to an open folder.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flinkish.common.errors import CorruptCheckpointError
from flinkish.common.ids import random_id

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def open_folder(root: str | Path, inside: str = "") -> Iterator[int]:
    """Open the folder `inside` (relative, plain names) of `root` and yield its descriptor.

    Links on the path to `root` are followed, as the caller chose it; a link below `root` raises OSError.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in _names(inside):
            deeper = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(root: str | Path, inside: str) -> io.FileIO:
    """Open an ordinary file below `root` for reading, unbuffered. Raises OSError for links, devices, pipes and folders."""
    folder, name = os.path.split(inside)
    with open_folder(root, folder) as descriptor:
        # Without O_NONBLOCK, opening a pipe would block until another process writes to it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = io.FileIO(os.open(name, flags, dir_fd=descriptor))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not an ordinary file", inside)
    return file


class NewFile(io.BufferedWriter):
    """A file that is being written."""

    def sync(self) -> None:
        """Sync the written data, so that it survives a crash of the machine."""
        self.flush()
        os.fsync(self.fileno())


def create_file(root: str | Path, inside: str) -> NewFile:
    """Make a new file below `root` and open it for writing. Raises OSError, such as FileExistsError if its name is taken."""
    folder, name = os.path.split(inside)
    with open_folder(root, folder) as descriptor:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return NewFile(io.FileIO(os.open(name, flags, 0o666, dir_fd=descriptor), "wb"))


def read_file(root: str | Path, inside: str, *, limit: int) -> bytes:
    """Return the content of an ordinary file below `root`. Raises OSError, including if it is larger than `limit` bytes."""
    with open_file(root, inside) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise OSError(errno.EFBIG, f"{size} bytes, expected at most {limit}", inside)
        parts = []
        while part := file.read(max(1, size)):
            parts.append(part)
            if sum(map(len, parts)) > limit:
                raise OSError(errno.EFBIG, f"more than {limit} bytes", inside)
        return b"".join(parts)


def remove_file(root: str | Path, inside: str) -> None:
    """Remove a file, or a link itself, below `root`. Raises OSError, such as FileNotFoundError if it does not exist."""
    folder, name = os.path.split(inside)
    with open_folder(root, folder) as descriptor:
        os.unlink(name, dir_fd=descriptor)


def remove_empty_folders(root: str | Path, inside: str) -> None:
    """Remove a folder below `root` with its subfolders; a link itself is removed. Raises OSError if one of them has a file."""
    parent, name = os.path.split(inside)
    with open_folder(root, parent) as descriptor:
        if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=descriptor)
            return
        for _, folders, _, folder in os.fwalk(name, topdown=False, follow_symlinks=False, dir_fd=descriptor):
            for each in folders:
                os.rmdir(each, dir_fd=folder)
        os.rmdir(name, dir_fd=descriptor)


def files_below(root: str | Path, inside: str) -> Iterator[str]:
    """Yield the paths, relative to `root`, of all files in a folder and its subfolders; links count as files.

    Yields nothing if `inside` is a link itself.
    """
    parent, name = os.path.split(inside)
    with open_folder(root, parent) as descriptor:
        for path, folders, files, folder in os.fwalk(name, follow_symlinks=False, dir_fd=descriptor):
            links = [each for each in folders if stat.S_ISLNK(os.stat(each, dir_fd=folder, follow_symlinks=False).st_mode)]
            for each in sorted((*files, *links)):
                yield os.path.normpath(os.path.join(parent, path, each))


def replace_file(root: str | Path, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
    """Write a file below `root` in one step: readers see the old content or the new. Raises OSError.

    It is written as `<name><draft>.<random>.new`, a name at which no other user can have placed a link, and then renamed.
    """
    folder, name = os.path.split(inside)
    temporary = f"{name}{draft}.{random_id()[:16]}.new"
    with open_folder(root, folder) as descriptor:
        try:
            with create_file(root, os.path.join(folder, temporary)) as file:
                file.write(content)
                if sync:
                    file.sync()
            os.rename(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=descriptor)
            raise
        if sync:
            os.fsync(descriptor)


def make_folders(root: str | Path, inside: str) -> None:
    """Make a folder below `root` and its missing parents. Raises OSError."""
    made = ""
    for name in _names(inside):
        with open_folder(root, made) as descriptor, contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=descriptor)
        made = os.path.join(made, name)
    with open_folder(root, made):
        pass


def refuse_links(*folders: Path) -> None:
    """Raise CorruptCheckpointError if one of these folders of the storage is a link: deletions would reach its target."""
    for folder in folders:
        if folder.is_symlink():
            raise CorruptCheckpointError(
                f"{folder} is a link, which is not followed in a folder of checkpoints",
                hint="if you put it there, name what it leads to in the setting instead; else the storage was tampered with.",
            )


def leads_outside(path: str | Path, base: str | Path) -> bool:
    """Return whether a path, which need not exist, is not below `base`: as it is written, or after its links are resolved.

    >>> leads_outside("/data/a/b", "/data"), leads_outside("/data/../etc/b", "/data"), leads_outside("b", "/data")
    (False, True, True)
    """
    text, root = os.fspath(path), os.path.normpath(base)
    if "\0" in text or os.path.normpath(text) != text or not _is_below(text, root):
        return True
    return not _is_below(os.path.realpath(text), os.path.realpath(root))


def _is_below(path: str, base: str) -> bool:
    return path.startswith(base.rstrip("/") + "/")


def _names(inside: str) -> list[str]:
    names = [name for name in inside.split("/") if name]
    if inside.startswith("/") or {".", ".."} & set(names):
        raise OSError(errno.EINVAL, "not a plain relative path", inside)
    return names
