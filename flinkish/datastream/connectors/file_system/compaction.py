"""When and how FileSink merges small files: PyFlink's names, further names of Flink's Java API, and the stage that merges.

The second stage of a FileSink that merges files gets the closed files of all writers, by bucket, before they are committed:

    writers --(closed files, hash by bucket)--> compactors --(committables)--> committer

A writer emits its closed files as records, before the barrier. So a checkpoint contains each closed file once: in the state of
the compactor where it waits, or, merged or not, among the committables. Merged files are hidden and get new names, like all parts
in progress. The original files are removed when the checkpoint that contains the merged file is complete.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flinkish.common import safe_files
from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.arguments import bytes_of, check, int_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.disk import sync
from flinkish.common.errors import ForeignCheckpointError, InvalidProgramError, SinkError
from flinkish.common.ids import IdSource
from flinkish.datastream.connectors._row_buffer import bytes_state
from flinkish.datastream.connectors.file_system.parts import (
    FileCommittable,
    PartFile,
    bucket_folder,
    check_bucket,
    check_committable,
    copy_bytes,
    copy_part,
    path_inside,
    write_part,
)
from flinkish.datastream.connectors.file_system.paths import is_object, open_ahead
from flinkish.program.sinks import SinkWriter, SinkWriterContext, WriteContext

if TYPE_CHECKING:
    from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriterFactory
    from flinkish.datastream.connectors.file_system.writers import FileSinkSettings

__all__ = ["FileCompactStrategy", "FileCompactor"]

_log = logging.getLogger(__name__)


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

    class Builder(SettingsBuilder["FileCompactStrategy"]):
        """Builder of a FileCompactStrategy."""

        def __init__(self) -> None:
            super().__init__(FileCompactStrategy())

        def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> FileCompactStrategy.Builder:
            """Merge files that have waited for this number of checkpoints, at least 1."""
            return self._number("num_checkpoints_before_compaction", num_checkpoints_before_compaction, 1)

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merge files whose total size reaches this number of bytes; -1, the default, ignores the size."""
            return self._number("size_threshold", size_threshold, -1)

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Set the number of concurrent merges of each subtask; 1 by default."""
            return self._number("num_compact_threads", num_compact_threads, 1)

        def _number(self, name: str, value: int, least: int) -> FileCompactStrategy.Builder:
            return self._set(**{name: int_of(f"{name} of FileCompactStrategy", value, minimum=least)})

        def build(self) -> FileCompactStrategy:
            """Return the strategy; raise InvalidProgramError if neither a size nor a number of checkpoints was set."""
            strategy = self._settings
            check(
                strategy.size_threshold >= 0 or strategy.num_checkpoints_before_compaction >= 0,
                "a FileCompactStrategy needs a size threshold, a number of checkpoints, or both",
                hint="call set_size_threshold(bytes) or enable_compaction_on_checkpoint(1).",
            )
            return strategy


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
        delimiter = b"" if file_delimiter is None else file_delimiter
        return _ConcatFileCompactor(bytes_of("file_delimiter of concat_file_compactor", delimiter))

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
            "record_wise_file_compactor() is for bulk formats; the files of an Encoder cannot be read again in general",
            hint="use FileCompactor.concat_file_compactor().",
        )


#: Prefix of the names of merged files; Flink's.
COMPACTED_PREFIX: Final = "compacted-"

#: A strategy that passes on each file unmerged, at the next barrier.
PASS_ON: Final = FileCompactStrategy(size_threshold=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFiles:
    """The closed files of a bucket that wait for a merge, and the number of checkpoints that the first one has waited."""

    bucket_id: str
    #: Lineage in which the files were written; files of another lineage are copied, and not removed.
    lineage: str
    files: tuple[FileCommittable, ...]
    checkpoints: int


def groups_to_merge(
    files: Sequence[FileCommittable], checkpoints: int, strategy: FileCompactStrategy, end_of_input: bool
) -> tuple[list[tuple[FileCommittable, ...]], list[FileCommittable]]:
    """Return the groups of files to merge into one file each, in their order, and the files that keep waiting.

    `checkpoints`: the number of checkpoints that the first file has waited.
    """
    groups: list[tuple[FileCommittable, ...]] = []
    group: list[FileCommittable] = []
    size = 0
    for file in files:
        group.append(file)
        size += file.length
        if 0 <= strategy.size_threshold <= size:
            groups.append(tuple(group))
            group, size = [], 0
    if group and (end_of_input or 0 < strategy.num_checkpoints_before_compaction <= checkpoints):
        groups.append(tuple(group))
        group = []
    return groups, group


@dataclass(slots=True)
class _Bucket:
    files: list[FileCommittable] = field(default_factory=list)
    checkpoints: int = 0


class CompactingWriter(SinkWriter[FileCommittable, FileCommittable]):
    """Collects closed files, and merges them at a barrier if the strategy says so."""

    def __init__(self, settings: FileSinkSettings, context: SinkWriterContext, ids: IdSource) -> None:
        assert settings.compaction is not None
        self._strategy, self._compactor = settings.compaction
        self._settings = settings
        self._lineage = context.lineage
        self._staging = settings.staging_for(context)
        self._ids = ids
        self._state = context.get_list_state(bytes_state("flinkish.file-sink.waiting"))
        self._buckets: dict[str, _Bucket] = {}
        #: Files ready for the commit; only filled while a barrier passes.
        self._ready: list[FileCommittable] = []
        decoder = msgspec.msgpack.Decoder(WaitingFiles)
        for item in self._state.get():
            self._restore(decoder.decode(item))
        self._changed = False

    def _restore(self, waiting: WaitingFiles) -> None:
        check_bucket(self._settings.base_path, waiting.bucket_id)
        for file in waiting.files:
            check_committable(self._settings.base_path, file)
        # With a larger parallelism, two subtasks may have had files of the bucket.
        bucket = self._buckets.setdefault(waiting.bucket_id, _Bucket())
        own = waiting.lineage == self._lineage
        bucket.files.extend(waiting.files if own else self._copies(waiting))
        bucket.checkpoints = max(bucket.checkpoints, waiting.checkpoints)

    def _copies(self, waiting: WaitingFiles) -> Iterator[FileCommittable]:
        """Copy the files of another lineage under new names of our own, and yield the copies."""
        base_path = self._settings.base_path
        folder = bucket_folder(base_path, waiting.bucket_id)
        uid = self._ids()
        for counter, file in enumerate(waiting.files):
            if file.part is not None:
                part = PartFile.named(folder, self._settings.output_file_config, uid, counter, self._ids(), self._staging)
                copy_part(base_path, file.part, file.length, part)
                yield FileCommittable(bucket_id=waiting.bucket_id, part=part, length=file.length)

    def write(self, value: Any, context: WriteContext) -> None:
        self._buckets.setdefault(value.bucket_id, _Bucket()).files.append(value)
        self._changed = True

    def end_epoch(self) -> None:
        self._save()

    def flush(self, end_of_input: bool) -> None:
        groups: list[tuple[FileCommittable, ...]] = []
        for bucket_id, bucket in list(self._buckets.items()):
            # Nothing to merge, only hidden files to remove.
            self._ready.extend(file for file in bucket.files if file.part is None)
            bucket.checkpoints += 1
            files = [file for file in bucket.files if file.part is not None]
            found, bucket.files = groups_to_merge(files, bucket.checkpoints, self._strategy, end_of_input)
            groups += found
            if found:
                bucket.checkpoints = 0
            if not bucket.files:
                del self._buckets[bucket_id]
            self._changed = True
        self._ready += self._merge_all(groups)
        self._save()

    def _merge_all(self, groups: list[tuple[FileCommittable, ...]]) -> list[FileCommittable]:
        threads = min(self._strategy.num_compact_threads, len(groups))
        if threads <= 1:
            return [file for group in groups for file in self._merge(group)]
        with ThreadPoolExecutor(threads, "flinkish-compaction") as pool:
            return [file for merged in pool.map(self._merge, groups) for file in merged]

    def _merge(self, group: tuple[FileCommittable, ...]) -> Sequence[FileCommittable]:
        if len(group) == 1:
            return group
        sources = [ClosedFile(file.part.in_progress, file.length) for file in group if file.part is not None]
        assert group[0].part is not None
        folder, name = os.path.split(group[0].part.final)
        merged = PartFile.at(os.path.join(folder, COMPACTED_PREFIX + name), self._ids(), self._staging)
        try:
            length = self._write_merged(sources, merged)
        except KeepApart as reason:
            _log.warning("FileSink does not merge %d files for %s: %s", len(group), merged.final, reason)
            return group
        except FileNotFoundError as error:
            raise ForeignCheckpointError(
                f"FileSink cannot merge files for {merged.final}: {error.filename} is gone",
                hint="it was merged if a later checkpoint than the restored one was completed; restore the latest.",
            ) from error
        except (OSError, ValueError) as error:
            raise SinkError(
                f"FileSink cannot merge files for {merged.final}: {getattr(error, 'strerror', None) or error}",
                hint="disable_compact() of the builder lets the job go on without merging.",
            ) from error
        obsolete = [path for file in group for path in file.obsolete] + [source.path for source in sources]
        return [FileCommittable(bucket_id=group[0].bucket_id, part=merged, length=length, obsolete=tuple(obsolete))]

    def _write_merged(self, sources: list[ClosedFile], merged: PartFile) -> int:
        if not is_object(merged.final):
            for source in sources:  # does not follow a link in its place
                safe_files.open_file(self._settings.base_path, path_inside(self._settings.base_path, source.path)).close()
            length = write_part(merged, lambda path: self._compactor.compact(sources, path))
            sync(os.path.dirname(merged.final))
            return length
        with tempfile.TemporaryDirectory(prefix="flinkish-merge-") as folder:
            copies = [ClosedFile(os.path.join(folder, str(number)), each.length) for number, each in enumerate(sources)]
            for source, copy in zip(sources, copies, strict=True):
                with open_ahead(source.path) as content, open(copy.path, "xb") as file:
                    shutil.copyfileobj(content, file)
            return write_part(merged, lambda path: self._compactor.compact(copies, path))

    def prepare_commit(self) -> Sequence[FileCommittable]:
        ready, self._ready = self._ready, []
        return ready

    def _save(self) -> None:
        if self._changed:
            self._changed = False
            states = [
                WaitingFiles(bucket_id=each, lineage=self._lineage, files=tuple(bucket.files), checkpoints=bucket.checkpoints)
                for each, bucket in self._buckets.items()
            ]
            self._state.update([msgspec.msgpack.encode(state) for state in states])
