"""The splits of a file source, and the state of its enumerator."""

from __future__ import annotations

from dataclasses import dataclass

from flinkish.program.sources import SourceSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSourceSplit(SourceSplit):
    """A region of a file, with the position up to which it was read.

    For formats of lines, the region is in bytes of the decompressed contents (a `length` of None extends to the end), and the
    position is the offset of the next line. For Parquet, the region is in row groups, and the position is the number of rows
    read. For Avro, the region is in bytes, the position is the offset of a block, and `within` counts the records read from it.
    """

    path: str
    offset: int
    length: int | None
    #: Size on disk in bytes when the file was found; if it is smaller later, the file was changed.
    file_size: int
    #: None if nothing was read yet.
    position: int | None = None
    #: Number of lines before the position, if known; for messages.
    line: int | None = None
    within: int = 0
    #: Milliseconds since 1970-01-01 UTC, and number, of a local file when it was found, by which a change is noticed; None for
    #: objects, and in checkpoints of earlier versions.
    modified: int | None = None
    inode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnumeratorState:
    """The unassigned splits, and the files found so far, which are not read again by a job that monitors the paths later."""

    pending: tuple[FileSourceSplit, ...]
    known: tuple[str, ...]
