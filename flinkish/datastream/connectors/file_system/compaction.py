"""When and how FileSink merges small files: PyFlink's names, and further names of Flink's Java API."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.arguments import check, int_of
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError
from flinkish.datastream.connectors.file_system.parts import copy_bytes

if TYPE_CHECKING:
    from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriterFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCompactStrategy:
    """The strategy that decides when the closed files of a bucket are merged. Make it by `builder()`.

    >>> FileCompactStrategy.builder().set_size_threshold(1024).enable_compaction_on_checkpoint(10).build()
    FileCompactStrategy(size_threshold=1024, num_checkpoints_before_compaction=10, num_compact_threads=1)
    """

    get_java_object = AbsentMember(JAVA_OBJECT)

    #: Total bytes from which on files are merged; -1 = their size does not matter.
    size_threshold: int = -1
    #: Number of checkpoints after which files are merged whatever their size; -1 = no limit.
    num_checkpoints_before_compaction: int = -1
    num_compact_threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Return a builder of a strategy."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builder of a FileCompactStrategy."""

        def __init__(self) -> None:
            self._strategy = FileCompactStrategy()

        def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> FileCompactStrategy.Builder:
            """Merge files that have waited for this number of checkpoints, at least 1."""
            number = _at_least(1, num_checkpoints_before_compaction, "num_checkpoints_before_compaction")
            self._strategy = replace(self._strategy, num_checkpoints_before_compaction=number)
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merge files whose total size reaches this number of bytes; -1, the default, ignores the size."""
            self._strategy = replace(self._strategy, size_threshold=_at_least(-1, size_threshold, "size_threshold"))
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Set the number of concurrent merges of each subtask; 1 by default."""
            number = _at_least(1, num_compact_threads, "num_compact_threads")
            self._strategy = replace(self._strategy, num_compact_threads=number)
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy; raise InvalidProgramError if neither a size nor a number of checkpoints was set."""
            strategy = self._strategy
            if strategy.size_threshold < 0 and strategy.num_checkpoints_before_compaction < 0:
                raise InvalidProgramError(
                    "a FileCompactStrategy needs a size threshold, a number of checkpoints, or both",
                    hint="call set_size_threshold(bytes) or enable_compaction_on_checkpoint(1).",
                )
            return strategy


def _at_least(least: int, value: Any, name: str) -> int:
    number = int_of(f"{name} of FileCompactStrategy", value)
    check(number >= least, f"{name} of FileCompactStrategy must be at least {least}; got {number}")
    return number


@dataclass(frozen=True, slots=True)
class ClosedFile:
    """A file to merge; only its first `length` bytes are valid."""

    path: str
    length: int


class KeepApart(Exception):
    """Raised by a compactor for files that cannot be merged, but are complete: each of them is committed as it is."""


class FileCompactor(ABC):
    """Merges several files into one. Subclass it for a format of your own; it must be picklable."""

    get_java_object = AbsentMember(JAVA_OBJECT)

    @abstractmethod
    def compact(self, files: Sequence[ClosedFile], target: str) -> None:
        """Write the contents of files of one bucket, in their order, to a new file at the path `target`."""

    def for_bulk_format(self, writer_factory: BulkPartWriterFactory) -> FileCompactor:
        """Return the compactor for a bulk format; raise InvalidProgramError if this one cannot merge its files."""
        return self

    def for_row_format(self) -> FileCompactor:
        """Return the compactor for files of an Encoder; raise InvalidProgramError if this one cannot merge them."""
        return self

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Return a compactor that concatenates the bytes of files, with a delimiter in between if there is one.

        Differs from Flink: refused for bulk formats whose files cannot be concatenated, where Flink writes damaged files.
        """
        if file_delimiter is not None and not isinstance(file_delimiter, (bytes, bytearray)):
            raise InvalidArgumentError(f"file_delimiter of concat_file_compactor must be bytes; got {file_delimiter!r}")
        return _ConcatFileCompactor(bytes(file_delimiter or b""))

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Return a compactor that keeps a single file; it raises SinkError, which fails the job, if there are several to merge.

        It is for strategies that pass on files one by one, such as a size threshold that each file reaches.
        """
        return _IdenticalFileCompactor()

    @staticmethod
    def record_wise_file_compactor() -> FileCompactor:
        """Return a compactor that merges the records of bulk files; Java's RecordWiseFileCompactor, not in PyFlink."""
        return _RecordWiseFileCompactor()


@dataclass(frozen=True, slots=True)
class _ConcatFileCompactor(FileCompactor):
    delimiter: bytes

    def compact(self, files: Sequence[ClosedFile], target: str) -> None:
        with open(target, "xb", buffering=0) as output:
            for index, file in enumerate(files):
                if index:
                    output.write(self.delimiter)
                with open(file.path, "rb", buffering=0) as source:
                    copy_bytes(source.fileno(), output.fileno(), file.length)

    def for_bulk_format(self, writer_factory: BulkPartWriterFactory) -> FileCompactor:
        if not writer_factory.joinable:
            raise InvalidProgramError(
                f"files that {type(writer_factory).__name__} writes cannot be put behind one another byte by byte",
                hint="use FileCompactor.record_wise_file_compactor().",
            )
        return self


@dataclass(frozen=True, slots=True)
class _IdenticalFileCompactor(FileCompactor):
    def compact(self, files: Sequence[ClosedFile], target: str) -> None:
        raise SinkError(
            f"identical_file_compactor() takes over a single file; there are {len(files)} to be merged, the first is "
            f"{os.path.basename(files[0].path)}",
            hint="use concat_file_compactor() or record_wise_file_compactor().",
        )


@dataclass(frozen=True, slots=True)
class _RecordWiseFileCompactor(FileCompactor):
    writer_factory: BulkPartWriterFactory | None = None

    def compact(self, files: Sequence[ClosedFile], target: str) -> None:
        assert self.writer_factory is not None
        self.writer_factory.merge([file.path for file in files], target)

    def for_bulk_format(self, writer_factory: BulkPartWriterFactory) -> FileCompactor:
        return _RecordWiseFileCompactor(writer_factory)

    def for_row_format(self) -> FileCompactor:
        raise InvalidProgramError(
            "record_wise_file_compactor() is for bulk formats; what an Encoder writes cannot be read again in general",
            hint="use FileCompactor.concat_file_compactor().",
        )
