"""Splits of a file source, and the enumerator's state."""

from __future__ import annotations

from dataclasses import dataclass

from flinkish.program.sources import SourceSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSourceSplit(SourceSplit):
    """A region of a file, with the position up to which it was read.

    Formats of lines: the region is in bytes (of the decompressed contents; `length` None up to the end), the position is the
    offset of the next line. Parquet: the region is in row groups, the position is a number of rows within the region. Avro: the
    region is in bytes, the position is the offset of a block, of which `within` records were read.
    """

    path: str
    offset: int
    length: int | None
    #: Bytes on disk when the file was found; a smaller one later means that it was changed.
    file_size: int
    #: None while nothing was read.
    position: int | None = None
    #: Lines before the position, if that is known: for messages.
    line: int | None = None
    within: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnumeratorState:
    """Splits that no reader has yet, and the files that were found so far (when monitoring)."""

    pending: tuple[FileSourceSplit, ...]
    known: tuple[str, ...]
