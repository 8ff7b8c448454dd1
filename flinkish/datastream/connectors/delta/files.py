"""The files of a Delta table, which is a folder or a place in an object store."""

from __future__ import annotations

import io
import os
import posixpath
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common import safe_files
from flinkish.common.disk import sync
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.files.checkpoint_files import CheckpointFiles
from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.schemes import (
    DURABLE_SCHEMES,
    OBJECT_NAMES,
    files_at,
    is_reference,
    object_root,
    root_of,
    without_user,
)
from flinkish.common.paths import location
from flinkish.datastream.connectors.file_system.paths import delta_table_around, local_path

LOG: Final = "_delta_log"


def table_location(path: object, what: str) -> str:
    """Return the absolute path of a table's folder, or its URI in an object store; `what` names the argument in errors.

    Raises InvalidArgumentError for text that is not a path, and UnsupportedError for other schemes.
    """
    if isinstance(path, str):
        try:
            root = object_root(path)
        except ValueError as error:
            raise InvalidArgumentError(f"{what} {error}", hint=OBJECT_NAMES) from None
        if root is not None:
            return str(root)
        if location(path).scheme not in ("", "file"):
            raise UnsupportedError(
                f"{what} {without_user(path)!r}: a Delta table is a folder of the local (or a mounted) file system, or is in an "
                f"object store ({', '.join(f'{scheme}://' for scheme in DURABLE_SCHEMES)})",
                hint="mount the storage, or let Spark read and write it: env.from_data_frame(...), DataFrameSink.",
            )
    return local_path(path, what)


def is_plain(inside: str) -> bool:
    """Return whether a path is relative, and has no parts such as `..`.

    >>> is_plain("day=1/part-0.parquet"), is_plain("../part-0.parquet"), is_plain("/data/part-0.parquet")
    (True, False, False)
    """
    return posixpath.normpath(inside) == inside and inside.partition("/")[0] not in ("", ".", "..") and "\0" not in inside


def files_of(table: str) -> TableFiles:
    """Return the files of a table, without access to the storage; `table` is a result of `table_location`."""
    return StoreFiles(table) if is_reference(table) else TableFiles(table)


class TableFiles:
    """The files of a table in a folder, by their paths relative to it (`inside`). All operations raise OSError.

    Links are followed when files are read, but not when they are written or removed.
    """

    #: Whether the table is in an object store: each call is a request, and a list may lack the newest files.
    is_remote = False

    def __init__(self, table: str) -> None:
        #: The folder of the table, or its URI.
        self.table = table
        self._files: CheckpointFiles = files_at(table)

    def path(self, inside: str) -> str:
        """Return the full path of a file, for messages."""
        return f"{self.table}/{inside}"

    def leads_outside(self, inside: str) -> bool:
        """Return whether a path, which need not exist, leads to a place outside of the table."""
        return os.path.isabs(inside) or safe_files.leads_outside(self.path(inside), self.table)

    def outer_table(self) -> str | None:
        """Return another Delta table, in whose folder this one is; None if there is none."""
        return delta_table_around(os.path.dirname(self.table))

    def names(self, inside: str) -> list[str]:
        """Return the names of the files in a folder; none if there is no folder."""
        with suppress(FileNotFoundError):
            return self._files.names(inside)
        return []

    def exists(self, inside: str) -> bool:
        return os.path.exists(self.path(inside))

    def size(self, inside: str) -> int:
        return os.stat(self.path(inside)).st_size

    def read(self, inside: str) -> tuple[bytes, int]:
        """Return the content of a file, and the milliseconds since the epoch at which it was written."""
        with open(self.path(inside), "rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mtime_ns // 1_000_000

    def read_range(self, inside: str, start: int, length: int) -> bytes:
        with open(self.path(inside), "rb") as file:
            file.seek(start)
            return file.read(length)

    def source(self, inside: str) -> tuple[Any, int]:
        """Return the object by which pyarrow reads a file, and the size of the file in bytes."""
        return self.path(inside), self.size(inside)

    def write_parquet(self, inside: str, rows: pa.Table, compression: str) -> tuple[int, int]:
        """Write a new file; return its size in bytes, and the milliseconds since the epoch at which it was written."""
        self._files.make_root(sync=True)
        self._files.make_folders(os.path.dirname(inside))
        with self._files.create(inside) as file:
            pq.write_table(rows, file, compression=compression, write_page_checksum=True)
            file.sync()
        status = os.stat(self.path(inside))
        return status.st_size, status.st_mtime_ns // 1_000_000

    def sync_folders(self, inside: Iterable[str]) -> None:
        """Make the names in folders survive a crash of the machine; files themselves do when they are written."""
        for folder in inside:
            sync(self.path(folder))

    def remove(self, inside: str) -> None:
        """Remove a file, unless it is gone already."""
        with suppress(FileNotFoundError):
            self._files.remove(inside)

    def files_below(self, inside: str) -> list[str]:
        """Return the paths of all files in a folder and its subfolders; none if there is no folder."""
        with suppress(FileNotFoundError):
            return list(self._files.files_below(inside))
        return []


class StoreFiles(TableFiles):
    """The files of a table in an object store. A write that has returned is durable."""

    is_remote = True
    _files: ObjectFiles

    def leads_outside(self, inside: str) -> bool:
        return not is_plain(inside)

    def outer_table(self) -> str | None:
        folder = root_of(self.table).parent
        return delta_table_around(str(folder)) if len(folder.parts) > 1 else None

    def exists(self, inside: str) -> bool:
        with suppress(FileNotFoundError):
            return self.size(inside) >= 0
        return False

    def size(self, inside: str) -> int:
        return self._files.size(inside)

    def read(self, inside: str) -> tuple[bytes, int]:
        return self._files.read_with_time(inside)

    def read_range(self, inside: str, start: int, length: int) -> bytes:
        return self._files.read_range(inside, start, start + length)

    def source(self, inside: str) -> tuple[Any, int]:
        # pyarrow knows which ranges it needs, and reads each once.
        reader = self._files.open(inside, buffered=False)
        size = reader.seek(0, io.SEEK_END)
        reader.seek(0)
        return reader, size

    def write_parquet(self, inside: str, rows: pa.Table, compression: str) -> tuple[int, int]:
        content = io.BytesIO()
        pq.write_table(rows, content, compression=compression, write_page_checksum=True)
        self._files.put(inside, content.getvalue())
        return self._files.describe(inside)

    def sync_folders(self, inside: Iterable[str]) -> None:
        pass
