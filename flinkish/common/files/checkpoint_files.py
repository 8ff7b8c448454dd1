"""The seam between checkpoints and where their files are: what a form of storage fulfils.

All work on files of a checkpoint table goes through a `CheckpointFiles`, which stands for one root: the folder of the table.
Driver and tasks name a root by a reference; `schemes.py` decides by it which form opens it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath, PurePosixPath
from types import TracebackType
from typing import IO, Any, Protocol


class StoreReference(PurePosixPath):
    """A root that is no folder of this machine: `scheme://...`. A root that is one is a `pathlib.Path`.

    >>> str(StoreReference("memory://a") / "state"), StoreReference("memory://a/state").name
    ('memory://a/state', 'state')
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    @property
    def scheme(self) -> str:
        """Its first part, without the colon."""
        return self.parts[0].removesuffix(":")


class NewFile(Protocol):
    """A file that is being written. A context manager: it is closed at the end."""

    def write(self, data: Any, /) -> int: ...

    def sync(self) -> None:
        """Make what was written outlast a crash of the machine."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> NewFile: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class CheckpointFiles(Protocol):
    """The files below one root. Paths (`inside`) are plain and relative to it, "" is the root itself.

    Whoever can write to the storage is not trusted: nothing outside of the root is ever read, written or removed, whatever stands
    in it. All operations raise OSError, FileNotFoundError and FileExistsError where they say so.
    """

    @property
    def root(self) -> PurePath:
        """What the files are below of."""
        ...

    @property
    def delta_options(self) -> Mapping[str, str]:
        """What delta-rs must be told besides the root to reach the table's log, such as credentials: never shown to anybody."""
        ...

    def refuse_links(self, *inside: str) -> None:
        """Raise CorruptCheckpointError if the root, what it is in, or one of some folders is not what its name says."""
        ...

    def is_folder(self, inside: str = "") -> bool:
        """Return whether there is such a folder."""
        ...

    def exists(self, inside: str) -> bool:
        """Return whether there is a file or folder of that name."""
        ...

    def names(self, inside: str = "") -> list[str]:
        """Return the names of files and folders in a folder."""
        ...

    def files_below(self, inside: str) -> Iterator[str]:
        """Yield the paths of all files in a folder and the folders in it."""
        ...

    def size(self, inside: str) -> int:
        """Return the bytes of an ordinary file."""
        ...

    def read(self, inside: str, *, limit: int) -> bytes:
        """Return the content of an ordinary file of at most `limit` bytes."""
        ...

    def open(self, inside: str) -> IO[bytes]:
        """Open an ordinary file for reading."""
        ...

    def create(self, inside: str) -> NewFile:
        """Make a new file and open it for writing; FileExistsError if its name is taken, also by a try at the same time.

        Its folder must be there: FileNotFoundError.
        """
        ...

    def replace(self, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
        """Write a file in one step: readers see the old content or the new. `draft` goes into the name of a draft, if any."""
        ...

    def remove(self, inside: str) -> None:
        """Remove a file; FileNotFoundError if it is gone."""
        ...

    def remove_empty_folders(self, inside: str) -> None:
        """Remove a folder and those in it; OSError if one has a file. The root itself only if it is empty."""
        ...

    def remove_all(self) -> None:
        """Remove the root and all that is below it, as far as that is possible."""
        ...

    def rename(self, inside: str, to: str) -> None:
        """Give a folder another name, in one step."""
        ...

    def make_root(self, *, sync: bool) -> None:
        """Make the root and what it is in, as far as they are missing."""
        ...

    def make_folder(self, inside: str) -> None:
        """Make a folder, "" for the root itself; FileExistsError if its name is taken, FileNotFoundError without its parent."""
        ...

    def make_folders(self, inside: str) -> None:
        """Make a folder and those that lead to it from the root, as far as they are missing."""
        ...

    def sync(self, inside: str = "") -> None:
        """Make the content of a file, or the names in a folder, outlast a crash of the machine."""
        ...

    def sync_log(self, synced: int) -> int:
        """Make the entries of the table's Delta log after version `synced` outlast one; -1: all. Return the newest version."""
        ...
