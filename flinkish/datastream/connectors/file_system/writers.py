"""The writers of FileSink: each bucket has a part file in progress, and pending parts."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from flinkish.common.columns import Columns
from flinkish.common.disk import sync_up_to
from flinkish.common.ids import IdSource
from flinkish.common.limits import LONG_MIN
from flinkish.common.serialization import Encoder
from flinkish.datastream.connectors._row_buffer import RowBuffer, bytes_state
from flinkish.datastream.connectors.file_system.compaction import FileCompactor, FileCompactStrategy
from flinkish.datastream.connectors.file_system.parts import (
    FileCommittable,
    PartFile,
    bucket_folder,
    check_bucket,
    check_committable,
    copy_part,
    make_bucket_folder,
    staging_folder,
    write_part,
    writing,
)
from flinkish.datastream.connectors.file_system.paths import is_object
from flinkish.datastream.connectors.file_system.policies import (
    BasePathBucketAssigner,
    BucketAssigner,
    BucketContext,
    DateTimeBucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    PartFileInfo,
    RollingPolicy,
    check_bucket_id,
)
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriterFactory
from flinkish.program.sinks import SinkWriter, SinkWriterContext, WriteContext

#: The context of records whose bucket assigner looks at none of them; see `FileSinkSettings.takes_columns`.
_OF_NO_RECORD: Final = WriteContext(timestamp=None, watermark=LONG_MIN)
#: Number of bytes to buffer before they are written to the file in one piece.
_WRITE_SIZE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSinkSettings:
    """The settings that the builders of FileSink collect; either an encoder or a writer factory is set."""

    base_path: str
    assigner: BucketAssigner
    rolling_policy: RollingPolicy
    output_file_config: OutputFileConfig = field(default_factory=OutputFileConfig)
    #: Milliseconds between checks for files that are too old; Flink's default.
    bucket_check_interval: int = 60 * 1000
    encoder: Encoder | None = None
    writer_factory: BulkPartWriterFactory | None = None
    #: None = closed files are not merged.
    compaction: tuple[FileCompactStrategy, FileCompactor] | None = None

    @property
    def takes_columns(self) -> bool:
        """Whether the format takes columns, and neither the bucket assigner nor the rolling policy looks at a record."""
        if type(self.assigner) not in (BasePathBucketAssigner, DateTimeBucketAssigner):
            return False
        if self.encoder is not None:
            own_policy = type(self.rolling_policy) not in (DefaultRollingPolicy, OnCheckpointRollingPolicy)
            return self.encoder.why_records is None and not own_policy
        return self.writer_factory is not None and self.writer_factory.takes_columns

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
    """One bucket of a writer: names its files, and lists the closed ones. The writer itself keeps the records."""

    def __init__(
        self, state: BucketState, settings: FileSinkSettings, ids: IdSource, staging: str | None, adopted_by: str | None = None
    ) -> None:
        """Restore a bucket. `adopted_by` is our lineage if the files belong to another one, so that they must be copied."""
        self._settings = settings
        self._staging = staging
        self._ids = ids
        self.state = state
        self._folder = bucket_folder(settings.base_path, state.bucket_id)
        self._has_new_names = False
        if adopted_by is not None:
            self.state = replace(state, lineage=adopted_by, pending=(), obsolete=())
            for closed in state.pending:
                if closed.part is not None:
                    part = self.new_part()
                    copy_part(settings.base_path, closed.part, closed.length, part)
                    self.add_pending(part, closed.length)

    def new_part(self) -> PartFile:
        state = self.state
        config = self._settings.output_file_config
        part = PartFile.named(self._folder, config, state.uid, state.counter, self._ids(), self._staging)
        self.state = replace(state, counter=state.counter + 1)
        make_bucket_folder(self._settings.base_path, self._folder)
        self._has_new_names = True
        return part

    def copy_of(self, old: InProgressFile, *, own: bool) -> PartFile:
        """Return a copy of a file that another writer object began, as that object may still be running."""
        part = PartFile.at(old.part.final, self._ids()) if own else self.new_part()
        copy_part(self._settings.base_path, old.part, old.length, part)
        if own:
            self.state = replace(self.state, obsolete=(*self.state.obsolete, old.part.in_progress))
        self._has_new_names = True
        return part

    def write_file(self, write: Callable[[str], None]) -> None:
        """Have a function write a part to the path that it gets; the part becomes pending."""
        part = self.new_part()
        with writing(f"write {part.in_progress}"):
            self.add_pending(part, write_part(part, write))

    def add_pending(self, part: PartFile, length: int) -> None:
        closed = FileCommittable(bucket_id=self.state.bucket_id, part=part, length=length)
        self.state = replace(self.state, pending=(*self.state.pending, closed))

    def add_closed(self, other: BucketState) -> None:
        """Take over the closed files of another writer's bucket."""
        state = self.state
        self.state = replace(state, pending=other.pending + state.pending, obsolete=other.obsolete + state.obsolete)

    def sync_names(self) -> None:
        """Sync the names of new files before a checkpoint lists them, so that they survive a crash of the machine."""
        if self._has_new_names and self._staging is None:
            sync_up_to(self._folder, self._settings.base_path)
            self._has_new_names = False

    def take_committables(self) -> Sequence[FileCommittable]:
        """Return the pending parts, and forget them."""
        state = self.state
        committables = list(state.pending)
        if state.obsolete:
            committables.append(FileCommittable(bucket_id=state.bucket_id, part=None, obsolete=state.obsolete))
        if committables:
            self.state = replace(state, pending=(), obsolete=())
        return committables


class FileWriter(SinkWriter[Any, FileCommittable]):
    """Base of the writers: finds the bucket of each record, and stores the states of the buckets."""

    def __init__(self, settings: FileSinkSettings, context: SinkWriterContext, ids: IdSource) -> None:
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
        self._buckets: dict[str, _Bucket] = {}
        self._saved: list[BucketState] = []
        decoder = msgspec.msgpack.Decoder(BucketState)
        for item in self._list_state.get():
            self._restore(decoder.decode(item))
        self._epoch_open = False

    def _new_bucket(self, bucket_id: str) -> _Bucket:
        attempt, lineage = self._context.attempt_id, self._context.lineage
        state = BucketState(bucket_id=bucket_id, uid=self._ids(), attempt_id=attempt, lineage=lineage, counter=0)
        bucket = self._buckets[bucket_id] = _Bucket(state, self._settings, self._ids, self._staging)
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
        lineage, attempt = self._context.lineage, self._context.attempt_id
        own = state.lineage == lineage
        if state.attempt_id != attempt:
            state = replace(state, uid=self._ids(), attempt_id=attempt, counter=0)
        bucket = _Bucket(state, self._settings, self._ids, self._staging, None if own else lineage)
        if state.bucket_id in self._buckets:
            # With a larger parallelism, two writers had files of the bucket: close one of the two.
            self._close_part(state.bucket_id)
            bucket.add_closed(self._buckets[state.bucket_id].state)
        self._buckets[state.bucket_id] = bucket
        if state.in_progress is not None:
            self._go_on(bucket, state.in_progress, own=own)

    def _go_on(self, bucket: _Bucket, old: InProgressFile, *, own: bool) -> None:
        """Go on with the file that a bucket had in progress at the checkpoint."""

    def _close_part(self, bucket_id: str) -> None:
        """Close the part to which records of a bucket are added."""

    def _check_time(self, now: int) -> None:
        """Close the parts that are too old."""

    def _write_out(self) -> None:
        """Write all closed parts, and make all written bytes durable."""

    def _bucket(self, value: Any, context: WriteContext) -> _Bucket:
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

    def _write_file(self, bucket_id: str, write: Callable[[str], None]) -> None:
        (self._buckets.get(bucket_id) or self._new_bucket(bucket_id)).write_file(write)

    def end_epoch(self) -> None:
        now = self._context.processing_time()
        if now - self._last_check >= self._settings.bucket_check_interval:
            self._last_check = now
            self._check_time(now)
        self._epoch_open = False
        self._save()

    def flush(self, end_of_input: bool) -> None:
        self._write_out()
        for bucket in self._buckets.values():
            bucket.sync_names()
        self._save()

    def prepare_commit(self) -> Sequence[FileCommittable]:
        committables = [committable for bucket in self._buckets.values() for committable in bucket.take_committables()]
        # Buckets without files are forgotten, as there may be a new one each hour for years.
        self._buckets = {each: bucket for each, bucket in self._buckets.items() if bucket.state.in_progress is not None}
        self._save()
        return committables

    def _save(self) -> None:
        states = [bucket.state for bucket in self._buckets.values()]
        if states != self._saved:
            self._list_state.update([msgspec.msgpack.encode(state) for state in states])
            self._saved = states


class BulkFileWriter(FileWriter):
    """Keeps rows in state until a checkpoint, or until there are enough for a file, and writes whole files."""

    def __init__(self, settings: FileSinkSettings, context: SinkWriterContext, ids: IdSource) -> None:
        super().__init__(settings, context, ids)
        assert settings.writer_factory is not None
        self._writer = settings.writer_factory.create(context.input_type)
        self._check = self._writer.check
        self._buffer: RowBuffer[str] = RowBuffer(context, "flinkish.file-sink.rows", str, self._writer.encode)

    def write(self, value: Any, context: WriteContext) -> None:
        bucket = self._bucket(value, context)
        self._buffer.group(bucket.state.bucket_id).append(self._check(value))

    def write_columns(self, columns: Columns) -> bool:
        chunk = self._writer.encode_columns(columns)
        if chunk is None:
            return False
        bucket = self._bucket(None, _OF_NO_RECORD)
        self._buffer.add_chunk(bucket.state.bucket_id, len(columns), chunk)
        return True

    def end_epoch(self) -> None:
        self._buffer.seal()
        if self._buffer.is_full:
            self._write_out()
        super().end_epoch()

    def _write_out(self) -> None:
        for bucket_id, chunks in self._buffer.take().items():
            self._write_file(bucket_id, partial(self._writer.write_file, chunks))


_PartT = TypeVar("_PartT", bound="_OpenFile | _WaitingPart")


class _RowWriter(FileWriter, Generic[_PartT]):
    """Base of the writers of a row format: each bucket has at most one open part, and the rolling policy closes it."""

    def __init__(self, settings: FileSinkSettings, context: SinkWriterContext, ids: IdSource) -> None:
        assert settings.encoder is not None
        self._encode = settings.encoder.encode_function(context.input_type)
        self._encode_columns = settings.encoder.encode_columns
        self._policy = settings.rolling_policy
        self._open: dict[str, _PartT] = {}
        super().__init__(settings, context, ids)

    @abstractmethod
    def _begin(self, bucket: _Bucket, info: PartFileInfo) -> _PartT:
        """Begin a part."""

    @abstractmethod
    def _append(self, part: _PartT, data: bytes) -> None:
        """Append records to a part."""

    def write(self, value: Any, context: WriteContext) -> None:
        bucket = self._bucket(value, context)
        bucket_id = bucket.state.bucket_id
        part = self._open.get(bucket_id)
        if part is not None and self._policy.should_roll_on_event(part.info, value):
            self._close_part(bucket_id)
            part = None
        self._add(bucket, part, self._encode(value))

    def write_columns(self, columns: Columns) -> bool:
        data = self._encode_columns(columns)
        if data is None:
            return False
        bucket = self._bucket(None, _OF_NO_RECORD)
        part = self._open.get(bucket.state.bucket_id)
        size = len(data) if part is None else part.info.size + len(data)
        if self._policy.should_roll_on_event(PartFileInfo(bucket.state.bucket_id, self._now, self._now, size), None):
            return False  # the file may be closed before one of these records
        self._add(bucket, part, data)
        return True

    def _add(self, bucket: _Bucket, part: _PartT | None, data: bytes) -> None:
        """Append encoded records to the open part of a bucket; begin one if there is none."""
        if part is None:
            bucket_id = bucket.state.bucket_id
            part = self._open[bucket_id] = self._begin(bucket, PartFileInfo(bucket_id, self._now, self._now, 0))
        part.info.size += len(data)
        part.info.last_update_time = self._now
        self._append(part, data)

    def _check_time(self, now: int) -> None:
        self._close_if(lambda info: self._policy.should_roll_on_processing_time(info, now))

    def flush(self, end_of_input: bool) -> None:
        self._close_if(lambda info: end_of_input or self._policy.should_roll_on_checkpoint(info))
        super().flush(end_of_input)

    def _close_if(self, rolls: Callable[[PartFileInfo], bool]) -> None:
        for bucket_id in [bucket_id for bucket_id, part in self._open.items() if rolls(part.info)]:
            self._close_part(bucket_id)


class _OpenFile:
    """A file to which records are appended; it is made when the first bytes are written."""

    def __init__(self, part: PartFile, info: PartFileInfo, descriptor: int | None = None) -> None:
        self.part = part
        self.info = info
        # Plain bytes and a file descriptor: a file object would flush when a writer is dropped in mid-epoch, which must not
        # write.
        self._descriptor = descriptor
        self.buffer: list[bytes] = []
        #: Number of bytes in the file; `info.size` counts those in the buffer, too.
        self.written = info.size

    def write_out(self) -> int:
        """Write buffered data, and return the file descriptor."""
        with writing(f"write {self.part.in_progress}"):
            if self._descriptor is None:
                self._descriptor = os.open(self.part.in_progress, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            data = memoryview(b"".join(self.buffer))
            while data:
                data = data[os.pwrite(self._descriptor, data, self.info.size - len(data)) :]
        self.buffer.clear()
        self.written = self.info.size
        return self._descriptor

    def state(self) -> InProgressFile:
        info = self.info
        return InProgressFile(
            part=self.part, length=info.size, creation_time=info.creation_time, last_update_time=info.last_update_time
        )

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class RowFileWriter(_RowWriter[_OpenFile]):
    """Appends records of a row format to files."""

    def _begin(self, bucket: _Bucket, info: PartFileInfo) -> _OpenFile:
        return _OpenFile(bucket.new_part(), info)

    def _append(self, part: _OpenFile, data: bytes) -> None:
        part.buffer.append(data)
        if part.info.size - part.written >= _WRITE_SIZE:
            part.write_out()

    def _go_on(self, bucket: _Bucket, old: InProgressFile, *, own: bool) -> None:
        part = bucket.copy_of(old, own=own)
        info = PartFileInfo(bucket.state.bucket_id, old.creation_time, old.last_update_time, old.length)
        self._open[bucket.state.bucket_id] = _OpenFile(part, info, os.open(part.in_progress, os.O_WRONLY | os.O_NOFOLLOW))

    def _close_part(self, bucket_id: str) -> None:
        file = self._open.pop(bucket_id, None)
        if file is not None:
            os.fsync(file.write_out())
            file.close()
            self._buckets[bucket_id].add_pending(file.part, file.info.size)

    def _write_out(self) -> None:
        for file in self._open.values():
            os.fsync(file.write_out())

    def _save(self) -> None:
        for bucket_id, bucket in self._buckets.items():
            file = self._open.get(bucket_id)
            if file is not None:
                file.write_out()
            in_progress = None if file is None else file.state()
            if in_progress != bucket.state.in_progress:
                bucket.state = replace(bucket.state, in_progress=in_progress)
        super()._save()

    def close(self) -> None:
        for file in self._open.values():
            file.close()


#: The key of a part in the buffer of an ObjectRowWriter: its bucket, the processing time in milliseconds at which it was begun,
#: and a number that tells parts of the same time apart.
_PartKey = tuple[str, int, int]


@dataclass(slots=True)
class _WaitingPart:
    key: _PartKey
    info: PartFileInfo


class ObjectRowWriter(_RowWriter[_WaitingPart]):
    """Writes records of a row format as objects, which cannot be appended to.

    The bytes of a part are kept in state until the rolling policy closes it, also across checkpoints, or until all parts together
    fill the buffer; then the part is put as a whole, at the next checkpoint at the latest.
    """

    def __init__(self, settings: FileSinkSettings, context: SinkWriterContext, ids: IdSource) -> None:
        super().__init__(settings, context, ids)
        self._buffer: RowBuffer[_PartKey] = RowBuffer(
            context, "flinkish.file-sink.bytes", _PartKey, b"".join, most_rows=sys.maxsize
        )
        self._number = 0
        for key, size in sorted(self._buffer.sizes().items()):
            bucket_id, begun, number = key
            self._number = max(self._number, number + 1)
            self._open[bucket_id] = _WaitingPart(key, PartFileInfo(bucket_id, begun, self._now, size))

    def _begin(self, bucket: _Bucket, info: PartFileInfo) -> _WaitingPart:
        self._number += 1
        return _WaitingPart((info.bucket_id, self._now, self._number - 1), info)

    def _append(self, part: _WaitingPart, data: bytes) -> None:
        self._buffer.group(part.key).append(data)

    def _close_part(self, bucket_id: str) -> None:
        self._open.pop(bucket_id, None)  # its bytes are still in the buffer, from which `_write_out` takes them

    def end_epoch(self) -> None:
        self._buffer.seal()
        if self._buffer.is_full:
            self._open.clear()
            self._write_out()
        super().end_epoch()

    def _write_out(self) -> None:
        for key, chunks in self._buffer.take(keep={part.key for part in self._open.values()}).items():
            self._write_file(key[0], partial(_write_bytes, chunks))


def _write_bytes(chunks: Sequence[bytes], path: str) -> None:
    with open(path, "xb") as file:
        file.writelines(chunks)
