"""The second stage of a FileSink that merges files: gets the closed files of all writers, by bucket, before they are committed.

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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from flinkish.common import safe_files
from flinkish.common.disk import sync
from flinkish.common.errors import ForeignCheckpointError, SinkError
from flinkish.common.ids import IdSource
from flinkish.datastream.connectors._row_buffer import bytes_state
from flinkish.datastream.connectors.file_system.compaction import ClosedFile, FileCompactor, FileCompactStrategy, KeepApart
from flinkish.datastream.connectors.file_system.objects import is_object, open_ahead
from flinkish.datastream.connectors.file_system.parts import (
    FileCommittable,
    PartFile,
    bucket_folder,
    check_bucket,
    check_committable,
    copy_part,
    path_inside,
    write_part,
)
from flinkish.datastream.connectors.file_system.writers import FileWriterSettings
from flinkish.program.sinks import SinkWriter, SinkWriterContext, WriteContext

_log = logging.getLogger(__name__)

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

    def __init__(
        self,
        settings: FileWriterSettings,
        context: SinkWriterContext,
        ids: IdSource,
        strategy: FileCompactStrategy,
        compactor: FileCompactor,
    ) -> None:
        self._settings = settings
        self._lineage = context.lineage
        self._staging = settings.staging_for(context)
        self._ids = ids
        self._strategy = strategy
        self._compactor = compactor
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
        """Return the merged file of a group, or the group itself if its files cannot be merged."""
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
