"""The writers of FileSink: each bucket has a part file in progress, and pending parts."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from flinkish.common.disk import sync_up_to
from flinkish.common.errors import SinkError
from flinkish.common.ids import IdSource
from flinkish.datastream.connectors._row_buffer import RowBuffer, bytes_state
from flinkish.datastream.connectors.file_system.buckets import (
    BasePathBucketAssigner,
    BucketAssigner,
    BucketContext,
    check_bucket_id,
)
from flinkish.datastream.connectors.file_system.objects import is_object
from flinkish.datastream.connectors.file_system.parts import (
    FileCommittable,
    OutputFileConfig,
    PartFile,
    bucket_folder,
    check_bucket,
    check_committable,
    copy_part,
    make_bucket_folder,
    staging_folder,
    write_part,
)
from flinkish.datastream.connectors.file_system.rolling import PartFileInfo, RollingPolicy
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriter
from flinkish.program.sinks import SinkWriter, SinkWriterContext, WriteContext

#: Number of bytes to buffer before they are written to the file in one piece.
_WRITE_SIZE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriterSettings:
    """The settings of all writers of a FileSink."""

    base_path: str
    assigner: BucketAssigner
    rolling_policy: RollingPolicy
    output_file_config: OutputFileConfig
    #: Milliseconds between checks for files that are too old.
    bucket_check_interval: int

    def staging_for(self, context: SinkWriterContext) -> str | None:
        """Return the folder of parts in progress if the path is in an object store."""
        return staging_folder(self.base_path, context.lineage, context.sink_uid) if is_object(self.base_path) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressFile:
    """A file; its first `length` bytes are valid. Times are processing time in milliseconds."""

    part: PartFile
    length: int
    creation_time: int
    last_update_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """The state of a bucket, in a writer's list state."""

    bucket_id: str
    #: Part of the names of its files; each attempt makes a new one, so it never reuses the name of an earlier attempt.
    uid: str
    attempt_id: str
    #: Lineage in which its files were written; files of another lineage are copied, and not removed.
    lineage: str
    counter: int
    in_progress: InProgressFile | None = None
    pending: tuple[FileCommittable, ...] = ()
    #: Files in progress that were copied; the next checkpoint removes them.
    obsolete: tuple[str, ...] = ()


class _Bucket:
    """One bucket of a writer: names its files, and lists the closed ones. The writer itself buffers the records."""

    def __init__(
        self,
        state: BucketState,
        settings: FileWriterSettings,
        ids: IdSource,
        adopted_by: str | None = None,
        staging: str | None = None,
    ) -> None:
        """Restore a bucket. `adopted_by` is our lineage if the files belong to another one, so that they must be copied."""
        self._settings = settings
        self._staging = staging
        self._ids = ids
        self._state = state
        self._folder = bucket_folder(settings.base_path, state.bucket_id)
        self._has_new_names = False
        if adopted_by is not None:
            self._state = replace(state, lineage=adopted_by, pending=(), obsolete=())
            for closed in state.pending:
                if closed.part is not None:
                    part = self._new_part()
                    copy_part(settings.base_path, closed.part, closed.length, part)
                    self._add_pending(part, closed.length)

    def write_out(self) -> None:
        """Write buffered data to the file, at the end of an epoch."""

    def prepare(self, end_of_input: bool) -> None:
        """Close the file if the rolling policy closes it at a checkpoint."""

    def check_time(self, now: int) -> None:
        """Close the file if it is too old."""

    def close(self) -> None:
        """Release files."""

    def state(self) -> BucketState:
        return self._state

    def write_file(self, write: Callable[[str], None]) -> None:
        """Have a function write a part to the path that it gets; the part becomes pending."""
        part = self._new_part()
        try:
            length = write_part(part, write)
        except OSError as error:
            raise SinkError(f"FileSink cannot write {part.in_progress}: {error.strerror or error}") from error
        self._add_pending(part, length)

    def sync_names(self) -> None:
        """Sync the names of new files before a checkpoint lists them, so that they survive a crash of the machine."""
        if self._has_new_names and self._staging is None:
            sync_up_to(self._folder, self._settings.base_path)
            self._has_new_names = False

    def take_committables(self) -> Sequence[FileCommittable]:
        """Return the pending parts, and forget them."""
        state = self._state
        committables = list(state.pending)
        if state.obsolete:
            committables.append(FileCommittable(bucket_id=state.bucket_id, part=None, obsolete=state.obsolete))
        if committables:
            self._state = replace(state, pending=(), obsolete=())
        return committables

    def _new_part(self) -> PartFile:
        state = self._state
        config = self._settings.output_file_config
        part = PartFile.named(self._folder, config, state.uid, state.counter, self._ids(), self._staging)
        self._state = replace(state, counter=state.counter + 1)
        make_bucket_folder(self._settings.base_path, self._folder)
        self._has_new_names = True
        return part

    def add_closed(self, other: BucketState) -> None:
        """Take over the closed files of another writer's bucket."""
        state = self._state
        self._state = replace(state, pending=other.pending + state.pending, obsolete=other.obsolete + state.obsolete)

    def _add_pending(self, part: PartFile, length: int) -> None:
        closed = FileCommittable(bucket_id=self._state.bucket_id, part=part, length=length)
        self._state = replace(self._state, pending=(*self._state.pending, closed))


class _RowBucket(_Bucket):
    """Appends each record to a file."""

    def __init__(
        self,
        state: BucketState,
        settings: FileWriterSettings,
        ids: IdSource,
        adopted_by: str | None,
        encode: Callable[[Any], bytes],
    ) -> None:
        super().__init__(state, settings, ids, adopted_by)
        self._encode = encode
        self._policy = settings.rolling_policy
        # Plain bytes and a file descriptor: a file object would flush when a writer is dropped in mid-epoch, which must not
        # write.
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._descriptor: int | None = None
        self._part: PartFile | None = None
        self._info: PartFileInfo | None = None
        if state.in_progress is not None:
            self._continue(state.in_progress, own=adopted_by is None)

    def _continue(self, old: InProgressFile, *, own: bool) -> None:
        """Continue with a copy of a file that another writer object began, as that object may still be running."""
        part = PartFile.at(old.part.final, self._ids()) if own else self._new_part()
        copy_part(self._settings.base_path, old.part, old.length, part)
        self._state = replace(self._state, in_progress=replace(old, part=part))
        if own:
            self._state = replace(self._state, obsolete=(*self._state.obsolete, old.part.in_progress))
        self._part = part
        self._has_new_names = True
        self._descriptor = os.open(part.in_progress, os.O_WRONLY | os.O_NOFOLLOW)
        self._info = PartFileInfo(self._state.bucket_id, old.creation_time, old.last_update_time, old.length)

    def write(self, value: Any, now: int) -> None:
        info = self._info
        if info is not None and self._policy.should_roll_on_event(info, value):
            self._roll()
            info = None
        if info is None:
            self._part = self._new_part()
            info = self._info = PartFileInfo(self._state.bucket_id, now, now, 0)
        data = self._encode(value)
        self._buffer.append(data)
        info.size += len(data)
        info.last_update_time = now
        self._buffered += len(data)
        if self._buffered >= _WRITE_SIZE:
            self._flush()

    def _flush(self) -> None:
        part, info = self._part, self._info
        if part is None or info is None:
            return
        try:
            if self._descriptor is None:
                self._descriptor = os.open(part.in_progress, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            data = memoryview(b"".join(self._buffer))
            offset = info.size - len(data)
            while data:
                written = os.pwrite(self._descriptor, data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            raise SinkError(f"FileSink cannot write {part.in_progress}: {error.strerror or error}") from error
        self._buffer.clear()
        self._buffered = 0

    def write_out(self) -> None:
        self._flush()
        in_progress = None
        if self._part is not None and self._info is not None:
            in_progress = InProgressFile(
                part=self._part,
                length=self._info.size,
                creation_time=self._info.creation_time,
                last_update_time=self._info.last_update_time,
            )
        if in_progress != self._state.in_progress:
            self._state = replace(self._state, in_progress=in_progress)

    def prepare(self, end_of_input: bool) -> None:
        if self._info is None:
            return
        if end_of_input or self._policy.should_roll_on_checkpoint(self._info):
            self._roll()
        else:
            self._flush()
            if self._descriptor is not None:
                os.fsync(self._descriptor)
        self.write_out()

    def check_time(self, now: int) -> None:
        if self._info is not None and self._policy.should_roll_on_processing_time(self._info, now):
            self._roll()

    def _roll(self) -> None:
        """Close the file, which becomes pending."""
        self._flush()
        assert self._part is not None
        assert self._info is not None
        assert self._descriptor is not None
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._add_pending(self._part, self._info.size)
        self._descriptor = self._part = self._info = None

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_BucketT = TypeVar("_BucketT", bound=_Bucket)


class FileWriter(SinkWriter[Any, FileCommittable], Generic[_BucketT]):
    """Base of the writers: finds the bucket of each record, and stores the states of the buckets."""

    def __init__(self, settings: FileWriterSettings, context: SinkWriterContext, ids: IdSource) -> None:
        self._settings = settings
        self._context = context
        self._staging = settings.staging_for(context)
        self._ids = ids
        self._assigner = settings.assigner
        self._single = isinstance(settings.assigner, BasePathBucketAssigner)
        self._bucket_context = BucketContext()
        self._now = context.processing_time()
        self._last_check = self._now
        self._list_state = context.get_list_state(bytes_state("flinkish.file-sink.buckets"))
        self._buckets: dict[str, _BucketT] = {}
        self._saved: list[BucketState] = []
        decoder = msgspec.msgpack.Decoder(BucketState)
        for item in self._list_state.get():
            self._restore(decoder.decode(item))
        self._epoch_open = False

    @abstractmethod
    def _make_bucket(self, state: BucketState, adopted_by: str | None = None) -> _BucketT: ...

    def _new_bucket(self, bucket_id: str) -> _BucketT:
        attempt, lineage = self._context.attempt_id, self._context.lineage
        state = BucketState(bucket_id=bucket_id, uid=self._ids(), attempt_id=attempt, lineage=lineage, counter=0)
        bucket = self._buckets[bucket_id] = self._make_bucket(state)
        return bucket

    def _check_restored(self, state: BucketState) -> None:
        """Raise ForeignCheckpointError for a state with files of other sinks, before any file is touched."""
        check_bucket(self._settings.base_path, state.bucket_id)
        old = state.in_progress
        begun = () if old is None else (FileCommittable(part=old.part, length=old.length),)
        for each in (*begun, *state.pending, FileCommittable(part=None, obsolete=state.obsolete)):
            check_committable(self._settings.base_path, each)

    def _restore(self, state: BucketState) -> None:
        self._check_restored(state)
        adopted_by = None if state.lineage == self._context.lineage else self._context.lineage
        if state.attempt_id != self._context.attempt_id:
            state = replace(state, uid=self._ids(), attempt_id=self._context.attempt_id, counter=0)
        other = self._buckets.get(state.bucket_id)
        bucket = self._make_bucket(state, adopted_by)
        if other is not None:
            # With a larger parallelism, two writers had files of the bucket: close one of the two.
            other.prepare(True)
            other.close()
            bucket.add_closed(other.state())
        self._buckets[state.bucket_id] = bucket

    def _bucket(self, value: Any, context: WriteContext) -> _BucketT:
        """Return the bucket of a record."""
        if not self._epoch_open:
            self._now = self._context.processing_time()
            self._epoch_open = True
        if self._single:
            bucket_id = ""
        else:
            about = self._bucket_context
            about.element_timestamp = context.timestamp
            about.watermark = context.watermark
            about.processing_time = self._now
            bucket_id = check_bucket_id(self._assigner.get_bucket_id(value, about), self._assigner)
        return self._buckets.get(bucket_id) or self._new_bucket(bucket_id)

    def end_epoch(self) -> None:
        now = self._context.processing_time()
        if now - self._last_check >= self._settings.bucket_check_interval:
            self._last_check = now
            for bucket in self._buckets.values():
                bucket.check_time(now)
        for bucket in self._buckets.values():
            bucket.write_out()
        self._epoch_open = False
        self._save()

    def flush(self, end_of_input: bool) -> None:
        for bucket in self._buckets.values():
            bucket.prepare(end_of_input)
            bucket.sync_names()
        self._save()

    def prepare_commit(self) -> Sequence[FileCommittable]:
        committables = [committable for bucket in self._buckets.values() for committable in bucket.take_committables()]
        # Buckets without files are forgotten, as there may be a new one each hour for years.
        idle = [bucket_id for bucket_id, bucket in self._buckets.items() if bucket.state().in_progress is None]
        for bucket_id in idle:
            self._buckets.pop(bucket_id).close()
        self._save()
        return committables

    def _save(self) -> None:
        states = [bucket.state() for bucket in self._buckets.values()]
        if states != self._saved:
            self._list_state.update([msgspec.msgpack.encode(state) for state in states])
            self._saved = states

    def close(self) -> None:
        for bucket in self._buckets.values():
            bucket.close()


class RowFileWriter(FileWriter[_RowBucket]):
    """Writes records of a row format."""

    def __init__(
        self, settings: FileWriterSettings, context: SinkWriterContext, ids: IdSource, encode: Callable[[Any], bytes]
    ) -> None:
        self._encode = encode
        super().__init__(settings, context, ids)

    def _make_bucket(self, state: BucketState, adopted_by: str | None = None) -> _RowBucket:
        return _RowBucket(state, self._settings, self._ids, adopted_by, self._encode)

    def write(self, value: Any, context: WriteContext) -> None:
        self._bucket(value, context).write(value, self._now)


class _BufferedFileWriter(FileWriter[_Bucket]):
    """Base of the writers that keep the records of all buckets in state, and write whole files."""

    def _make_bucket(self, state: BucketState, adopted_by: str | None = None) -> _Bucket:
        return _Bucket(state, self._settings, self._ids, adopted_by, self._staging)

    def _write_file(self, bucket_id: str, write: Callable[[str], None]) -> None:
        (self._buckets.get(bucket_id) or self._new_bucket(bucket_id)).write_file(write)


class BulkFileWriter(_BufferedFileWriter):
    """Keeps rows in state until a checkpoint, or until there are enough for a file, and writes whole files."""

    def __init__(self, settings: FileWriterSettings, context: SinkWriterContext, ids: IdSource, writer: BulkPartWriter) -> None:
        super().__init__(settings, context, ids)
        self._writer = writer
        self._check = writer.check
        self._buffer: RowBuffer[str] = RowBuffer(context, "flinkish.file-sink.rows", str, writer.encode)

    def write(self, value: Any, context: WriteContext) -> None:
        bucket = self._bucket(value, context)
        self._buffer.group(bucket.state().bucket_id).append(self._check(value))

    def end_epoch(self) -> None:
        self._buffer.seal()
        if self._buffer.is_full:
            self._write_files()
        super().end_epoch()

    def flush(self, end_of_input: bool) -> None:
        self._write_files()
        super().flush(end_of_input)

    def _write_files(self) -> None:
        for bucket_id, chunks in self._buffer.take().items():
            self._write_file(bucket_id, partial(self._writer.write_file, chunks))


#: A part in the buffer of an ObjectRowWriter: its bucket, the processing time in milliseconds at which it was begun, and a number
#: that tells parts of the same time apart.
_WaitingPart = tuple[str, int, int]


class ObjectRowWriter(_BufferedFileWriter):
    """Writes records of a row format as objects, which cannot be appended to.

    The bytes of a part are kept in state until the rolling policy closes it, also across checkpoints, or until all parts together
    fill the buffer; then the part is put as a whole, at the next checkpoint at the latest.
    """

    def __init__(
        self, settings: FileWriterSettings, context: SinkWriterContext, ids: IdSource, encode: Callable[[Any], bytes]
    ) -> None:
        super().__init__(settings, context, ids)
        self._encode = encode
        self._policy = settings.rolling_policy
        self._buffer: RowBuffer[_WaitingPart] = RowBuffer(
            context, "flinkish.file-sink.bytes", _WaitingPart, b"".join, most_rows=sys.maxsize
        )
        #: The last part of each bucket, to which records are added.
        self._open: dict[str, tuple[_WaitingPart, PartFileInfo]] = {}
        self._number = 0
        for part, size in sorted(self._buffer.sizes().items()):
            bucket_id, begun, number = part
            self._number = max(self._number, number + 1)
            self._open[bucket_id] = (part, PartFileInfo(bucket_id, begun, self._now, size))

    def write(self, value: Any, context: WriteContext) -> None:
        bucket_id = self._bucket(value, context).state().bucket_id
        found = self._open.get(bucket_id)
        if found is None or self._policy.should_roll_on_event(found[1], value):
            part = (bucket_id, self._now, self._number)
            self._number += 1
            found = self._open[bucket_id] = (part, PartFileInfo(bucket_id, self._now, self._now, 0))
        data = self._encode(value)
        self._buffer.group(found[0]).append(data)
        found[1].size += len(data)
        found[1].last_update_time = self._now

    def end_epoch(self) -> None:
        self._buffer.seal()
        now = self._context.processing_time()
        if now - self._last_check >= self._settings.bucket_check_interval:
            self._close_if(lambda info: self._policy.should_roll_on_processing_time(info, now))
        if self._buffer.is_full:
            self._open.clear()
            self._put_closed()
        super().end_epoch()

    def flush(self, end_of_input: bool) -> None:
        self._close_if(lambda info: end_of_input or self._policy.should_roll_on_checkpoint(info))
        self._put_closed()
        super().flush(end_of_input)

    def _close_if(self, rolls: Callable[[PartFileInfo], bool]) -> None:
        self._open = {bucket_id: found for bucket_id, found in self._open.items() if not rolls(found[1])}

    def _put_closed(self) -> None:
        for part, chunks in self._buffer.take(keep={part for part, _ in self._open.values()}).items():
            self._write_file(part[0], partial(_write_bytes, chunks))


def _write_bytes(chunks: Sequence[bytes], path: str) -> None:
    with open(path, "xb") as file:
        file.writelines(chunks)
