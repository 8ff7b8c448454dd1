"""The interface between checkpoints and the storage of their files, which every kind of storage implements.

All access to the files of a checkpoint table goes through a `CheckpointFiles` for one root, the folder of the table. Driver and
tasks name a root by a reference; `schemes.py` chooses the storage by the reference's scheme.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import PurePath, PurePosixPath
from types import TracebackType
from typing import IO, Any, Protocol, Self


class StoreReference(PurePosixPath):
    """A root `scheme://...` outside of the file system; a root in the file system is a `pathlib.Path`.

    >>> str(StoreReference("s3://a") / "state"), StoreReference("s3://a/state").name
    ('s3://a/state', 'state')
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    @property
    def scheme(self) -> str:
        """The first part of the reference, without the colon."""
        return self.parts[0].removesuffix(":")


class NewFile(Protocol):
    """A file that is being written; a context manager that closes it."""

    @abstractmethod
    def write(self, data: Any, /) -> int:
        """Write data, and return its size in bytes."""

    @abstractmethod
    def sync(self) -> None:
        """Sync the written data, so that it survives a crash of the machine."""

    @abstractmethod
    def close(self) -> None:
        """Write the rest and close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /) -> None:
        self.close()


class CheckpointFiles(ABC):
    """The files below one root. Paths (`inside`) are plain and relative to it, "" is the root itself.

    Other users with write access to the storage are not trusted: nothing outside of the root is ever read, written or removed,
    whatever the storage contains. All operations raise OSError; FileNotFoundError and FileExistsError where they say so.
    """

    def __init__(self, root: PurePath) -> None:
        self._root = root

    @property
    def root(self) -> PurePath:
        """The root that contains the files."""
        return self._root

    @property
    def delta_options(self) -> Mapping[str, str]:
        """Options that delta-rs needs, besides the root, to reach the table's log; they may hold secrets, so never show them."""
        return {}

    def refuse_links(self, *inside: str) -> None:  # noqa: B027 - a storage without links does nothing
        """Raise CorruptCheckpointError if the root, the folder that contains it, or one of the folders `inside` is a link."""

    @abstractmethod
    def is_folder(self, inside: str = "") -> bool:
        """Return whether the folder exists."""

    @abstractmethod
    def exists(self, inside: str) -> bool:
        """Return whether a file or folder of this name exists."""

    @abstractmethod
    def names(self, inside: str = "") -> list[str]:
        """Return the names of files and folders in a folder."""

    @abstractmethod
    def files_below(self, inside: str) -> Iterator[str]:
        """Yield the paths of all files in a folder and its subfolders."""

    @abstractmethod
    def size(self, inside: str) -> int:
        """Return the size of an ordinary file in bytes."""

    @abstractmethod
    def read(self, inside: str, *, limit: int) -> bytes:
        """Return the content of an ordinary file of at most `limit` bytes."""

    @abstractmethod
    def open(self, inside: str) -> IO[bytes]:
        """Open an ordinary file for reading."""

    @abstractmethod
    def create(self, inside: str) -> NewFile:
        """Make a new file and open it for writing; FileExistsError if its name is taken, even by a concurrent call.

        Its folder must exist: FileNotFoundError.
        """

    @abstractmethod
    def replace(self, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
        """Write a file in one step: readers see the old or the new content.

        `draft` is part of the name of the temporary file, if there is one.
        """

    @abstractmethod
    def remove(self, inside: str) -> None:
        """Remove a file; FileNotFoundError if it does not exist."""

    @abstractmethod
    def remove_empty_folders(self, inside: str) -> None:
        """Remove a folder with its subfolders; OSError if one of them has a file. The root is removed only if it is empty."""

    @abstractmethod
    def remove_all(self) -> None:
        """Remove the root and everything below it, as far as possible."""

    @abstractmethod
    def rename(self, inside: str, to: str) -> None:
        """Rename a folder in one step."""

    @abstractmethod
    def make_root(self, *, sync: bool) -> None:
        """Make the root and its missing parents."""

    @abstractmethod
    def make_folder(self, inside: str) -> None:
        """Make a folder ("" = the root); FileExistsError if its name is taken, FileNotFoundError if its parent is missing."""

    @abstractmethod
    def make_folders(self, inside: str) -> None:
        """Make a folder and its missing parents below the root."""

    def sync(self, inside: str = "") -> None:  # noqa: B027 - a storage whose writes are durable at once does nothing
        """Sync the content of a file, or the names in a folder, so that they survive a crash of the machine."""

    def sync_log(self, synced: int) -> int:
        """Sync the entries of the table's Delta log after version `synced` (-1 = all), and return the newest version."""
        return synced
