"""The common base of formats that read files: cutting files into splits, and reading one split."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

from flinkish.common.errors import SourceChangedError, SourceError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.paths import open_bytes, size_of
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

#: Rows to read at once if they stay columns.
COLUMNS_BATCH: Final = 1 << 14


class SplitReader(ABC):
    """Reads one split from the position that it contains."""

    @abstractmethod
    def read(self, limit: int) -> Sequence[Any]:
        """Return the next records, at most about `limit`; an empty list only at the end of the split.

        A record that cannot be read is handled by the error policy, so the list may contain SideOutputRecords. A reader of
        columns may return a RecordBatch of Arrow instead.
        """

    @abstractmethod
    def split(self) -> FileSourceSplit:
        """Return the split with its current position."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the split is read to its end."""

    def close(self) -> None:  # noqa: B027 - optional
        """Release the file."""


class FileFormat(ABC):
    """A format that turns the contents of files into records: immutable and picklable."""

    #: See Source.makes_new_records.
    makes_new_records = False
    #: Whether files are cut into regions by default.
    split_by_default = False

    #: See Source.why_records; if it is None, there are readers of columns.
    why_records: str | None = "the format makes records"

    @property
    def splittable(self) -> bool:
        """Whether several readers can read one file at the same time."""
        return False

    def produced_type(self) -> TypeInformation | None:
        """Return the type of the records if it is known without reading a file."""
        return None

    def cut(self, path: str, size: int, block_size: int) -> list[FileSourceSplit]:
        """Cut a file into splits of about `block_size` bytes."""
        return [_region(path, size, start, min(block_size, size - start)) for start in range(0, max(size, 1), block_size)]

    def whole(self, path: str, size: int) -> FileSourceSplit:
        """Return one split of a whole file."""
        return _region(path, size, 0, None)

    @abstractmethod
    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        """Open a split at its position.

        `by_columns`: what the reader returns has the layout of the produced type where it is columns; only asked for if there is
        no `why_records`.
        """


def _region(path: str, size: int, start: int, length: int | None) -> FileSourceSplit:
    line = 0 if start == 0 else None
    return FileSourceSplit(split_id=f"{path}@{start}", path=path, offset=start, length=length, file_size=size, line=line)


def check_unchanged(split: FileSourceSplit) -> None:
    """Raise SourceChangedError if the local file of a split was written again or replaced since it was found.

    A file that only grew is the same: it is read up to its end. Its number counts in this case only, because it differs between
    machines in some mounted file systems. A file that is gone is left to `open_checked`.
    """
    if split.modified is None:
        return
    try:
        status = os.stat(split.path)
    except OSError:
        return
    if status.st_size > split.file_size:
        change = None if status.st_ino == split.inode else f"replaced by another one, of {status.st_size} bytes"
    elif status.st_size < split.file_size:
        change = f"cut to {status.st_size} bytes, or replaced"
    else:
        change = None if status.st_mtime_ns // 1_000_000 == split.modified else "written again"
    if change is not None:
        raise SourceChangedError(
            f"FileSource: {split.path}, which had {split.file_size} bytes when it was found, was {change} before it had been "
            "read to its end, so that records would be lost or mixed up",
            hint="files must not change once they are in the source's folder: give new content a new name. Put the old file back "
            "(with its time, by cp --preserve) to go on from the last checkpoint.",
        )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn errors of the file system into SourceErrors that name a file."""
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(
            f"FileSource: {path} is gone; it was there when the source looked for files",
            hint="files must stay until the job has read them and a checkpoint after that is complete.",
        ) from error
    except OSError as error:
        raise SourceError(f"FileSource cannot read {path}: {error.strerror or error}") from error


def check_size(split: FileSourceSplit, *, may_grow: bool) -> None:
    """Raise SourceError if the file of a split is missing, or has another size than when it was found."""
    with reading(split.path):
        size = size_of(split.path)
    if size < split.file_size or (size > split.file_size and not may_grow):
        raise SourceError(
            f"FileSource: {split.path} was {split.file_size} bytes long when it was found, and now has {size}",
            hint="files must not change once they are in the source's folder; move them there when they are complete.",
        )


def open_checked(split: FileSourceSplit) -> IO[bytes]:
    """Open the file of a split; raise SourceError if it is missing, or shorter than when it was found."""
    check_size(split, may_grow=True)
    with reading(split.path):
        return open_bytes(split.path)
