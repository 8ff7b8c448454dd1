"""FileSource: reads the files below some paths, once or continuously."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flinkish.common.arguments import check, instance_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.errors import ForeignCheckpointError
from flinkish.common.time import Duration, milliseconds_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._sequences import BatchedReader
from flinkish.datastream.connectors.file_system.enumerator import (
    DEFAULT_BLOCK_SIZE,
    FileEnumerator,
    FileEnumeratorProvider,
    FileSplitAssignerProvider,
    refuse_delta_table,
    visible_files,
    visible_objects,
    would_find,
)
from flinkish.datastream.connectors.file_system.file_format import FileFormat, SplitReader, check_unchanged
from flinkish.datastream.connectors.file_system.formats import BulkFormat, StreamFormat
from flinkish.datastream.connectors.file_system.paths import file_path, is_compressed, is_object
from flinkish.datastream.connectors.file_system.splits import FileEnumeratorState, FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors
from flinkish.program.sources import (
    Boundedness,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)


class FileSource(Source[Any, FileSourceSplit, FileEnumeratorState]):
    """Reads the files that exist when the job starts; or runs forever, and reads new files, too.

    >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/tmp").build()
    >>> source.boundedness.value
    'BOUNDED'

    Files must be complete when they appear. They must not change or be removed until they were read and a later checkpoint is
    complete. A file that is replaced or written again while it is read ends the job (SourceChangedError); but one that is written
    in place and becomes longer is taken to have got more lines.
    Records of a file are read in their order; files are started in the order of their paths.
    In an object store (`s3://`, `gs://`, `abfss://`) the files are the objects below the path, except those without content. An
    object that is replaced while it is read fails the job.
    Differs from Flink: other paths than those of object stores are of the local file system, or of one that all machines mount.
    """

    split_type = FileSourceSplit
    enumerator_checkpoint_type = FileEnumeratorState

    def __init__(self, settings: FileSourceSettings) -> None:
        self._settings = settings
        self.makes_new_records = settings.format.makes_new_records
        self.why_records = settings.format.why_records

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder for files that are read record by record: text lines, CSV, JSON lines."""
        return FileSourceBuilder(_settings(stream_format, StreamFormat, "for_record_stream_format", paths))

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder for files that are read in bulk: Parquet and Avro."""
        return FileSourceBuilder(_settings(bulk_format, BulkFormat, "for_bulk_file_format", paths))

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._settings.discovery_interval is None else Boundedness.CONTINUOUS_UNBOUNDED

    def restore_enumerator(
        self, context: SplitEnumeratorContext[FileSourceSplit], checkpoint: FileEnumeratorState | None = None
    ) -> SplitEnumerator[FileSourceSplit, FileEnumeratorState]:
        settings = self._settings
        return FileEnumerator(context, settings.paths, settings.cut, settings.discovery_interval, checkpoint)

    create_enumerator = restore_enumerator

    def check_restored(self, splits: Sequence[FileSourceSplit], checkpoint: FileEnumeratorState | None, *, trusted: bool) -> None:
        """Raise ForeignCheckpointError for a split of a file that this source would not find."""
        pending = () if checkpoint is None else checkpoint.pending
        for path in {split.path for split in (*splits, *pending)}:
            if not any(would_find(root, path, follow_links=trusted) for root in self._settings.paths):
                raise ForeignCheckpointError(
                    f"a split in the checkpoint is of the file {path!r}, which is not below {', '.join(self._settings.paths)}",
                    hint="give the source the former path as well, or another uid, so that it starts from the beginning. "
                    "If the path was never one of the source, the checkpoint was tampered with.",
                )

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, FileSourceSplit]:
        errors = RecordErrors(self._settings.record_errors, context)
        return _FileSourceReader(self._settings.format, errors)

    def produced_type(self) -> TypeInformation | None:
        return self._settings.format.produced_type()

    def validate(self) -> None:
        """Raise SourceError if a path does not exist, or is in a Delta table."""
        for path in self._settings.paths:
            refuse_delta_table(path)
            if is_object(path):
                visible_objects(path, or_none=self._settings.discovery_interval is not None)
            else:
                next(visible_files(path), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSourceSettings:
    """The settings collected by the builder."""

    format: FileFormat
    paths: tuple[str, ...]
    #: Milliseconds between two searches for new files; None = search once.
    discovery_interval: int | None = None
    enumerator: FileEnumeratorProvider | None = None
    record_errors: RecordErrorPolicy

    def cut(self, path: str, size: int) -> list[FileSourceSplit]:
        """Cut a file into splits, if its format and its compression allow it."""
        if self.enumerator is not None:
            block_size = self.enumerator.block_size
        else:
            block_size = DEFAULT_BLOCK_SIZE if self.format.split_by_default else None
        if block_size is None or not self.format.splittable or size <= block_size or is_compressed(path):
            return [self.format.whole(path, size)]
        return self.format.cut(path, size, block_size)


def _settings(format_: Any, kind: Any, method: str, paths: tuple[str, ...]) -> FileSourceSettings:
    instance_of(f"FileSource.{method}()", format_, kind, hint="for example StreamFormat.text_line_format().")
    check(bool(paths), f"FileSource.{method} needs at least one path")
    return FileSourceSettings(
        format=format_,
        paths=tuple(file_path(path, "the path of FileSource") for path in paths),
        record_errors=RecordErrorPolicy.fail(),
    )


class FileSourceBuilder(SettingsBuilder[FileSourceSettings]):
    """Builder of a FileSource."""

    def monitor_continuously(self, discovery_interval: Duration | timedelta) -> FileSourceBuilder:
        """Run forever, and search for new files after each interval.

        Raises InvalidArgumentError unless it is a Duration or timedelta, and InvalidProgramError if it is below 1 ms.
        """
        what, rule, hint = "monitor_continuously", "takes a Duration", "Duration.of_seconds(10)."
        interval = milliseconds_of(discovery_interval, what, kinds=(Duration,), rule=rule, hint=hint)
        check(interval > 0, f"discovery_interval must be at least a millisecond; got {discovery_interval!r}")
        return self._set(discovery_interval=interval)

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist when the job starts, then end; this is the default."""
        return self._set(discovery_interval=None)

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Choose whether files are cut into regions.

        By default Parquet files are cut, and other files are not, so that their records stay in order.
        """
        return self._set(enumerator=instance_of("set_file_enumerator()", file_enumerator, FileEnumeratorProvider))

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepted as in Flink; without effect, as there is only one way to assign splits."""
        instance_of("set_split_assigner()", split_assigner, FileSplitAssignerProvider)
        return self

    def on_record_error(self, policy: RecordErrorPolicy) -> FileSourceBuilder:
        """Set how records that cannot be read are handled; by default the job fails. Not in Flink."""
        hint = "RecordErrorPolicy.skip()."
        return self._set(record_errors=instance_of("on_record_error()", policy, RecordErrorPolicy, hint=hint))

    def build(self) -> FileSource:
        """Return the source."""
        return FileSource(self._settings)


class _FileSourceReader(BatchedReader[Any, FileSourceSplit]):
    def __init__(self, format_: FileFormat, errors: RecordErrors) -> None:
        super().__init__()
        self._format = format_
        self._errors = errors

    def _open(self, split: FileSourceSplit, *, by_columns: bool) -> SplitReader:
        check_unchanged(split)
        return self._format.open(split, self._errors, by_columns=by_columns)

    def _finish(self, split: FileSourceSplit, output: ReaderOutput[Any]) -> None:
        check_unchanged(split)
        super()._finish(split, output)
