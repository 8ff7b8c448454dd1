"""FileSink: writes part files that become visible when the checkpoint that covers them is complete."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final

from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError
from flinkish.common.ids import random_id
from flinkish.common.pickling import check_serializable
from flinkish.common.serialization import BulkWriterFactory, Encoder
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.base import Committer, Sink, SinkWriter, SinkWriterContext
from flinkish.datastream.connectors.file_system.buckets import BucketAssigner
from flinkish.datastream.connectors.file_system.compaction import FileCompactor, FileCompactStrategy, compaction_unsupported
from flinkish.datastream.connectors.file_system.parts import FileCommittable, FileCommitter, OutputFileConfig
from flinkish.datastream.connectors.file_system.paths import local_path
from flinkish.datastream.connectors.file_system.rolling import OnCheckpointRollingPolicy, RollingPolicy
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriterFactory
from flinkish.datastream.connectors.file_system.writers import BulkFileWriter, FileWriterSettings, RowFileWriter

#: Flink's default, in milliseconds.
_BUCKET_CHECK_INTERVAL: Final = 60 * 1000


class FileSink(Sink[Any, FileCommittable]):
    """Writes records to part files below a path, exactly once.

    A part is written under a hidden name (`.part-<id>-<n>.inprogress.<nonce>`) and renamed to `part-<id>-<n>` when the checkpoint
    that holds it is complete; at the end of a bounded job also without checkpoints. A job that never ends must have checkpointing
    on, or nothing becomes visible. After a failure hidden files of the lost attempt may stay behind; they do no harm.

    >>> from flinkish.common.serialization import Encoder
    >>> sink = FileSink.for_row_format("/tmp/output", Encoder.simple_string_encoder()).build()
    """

    def __init__(
        self, settings: FileWriterSettings, encoder: Encoder | None = None, writer_factory: BulkPartWriterFactory | None = None
    ) -> None:
        self._settings = settings
        self._encoder = encoder
        self._writer_factory = writer_factory

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Begin a sink that writes one record after another."""
        if not isinstance(encoder, Encoder):
            raise InvalidArgumentError(
                f"for_row_format takes an Encoder; got {encoder!r}", hint="Encoder.simple_string_encoder()."
            )
        return FileSink.RowFormatBuilder(_base(base_path, RollingPolicy.default_rolling_policy()), encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Begin a sink that writes files of many records together, one at each checkpoint (more if there are many records)."""
        return FileSink.BulkFormatBuilder(
            _base(base_path, RollingPolicy.on_checkpoint_rolling_policy()), _checked_factory(writer_factory)
        )

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, FileCommittable]:
        if self._writer_factory is not None:
            return BulkFileWriter(self._settings, context, random_id, self._writer_factory.create(context.input_type))
        assert self._encoder is not None
        return RowFileWriter(self._settings, context, random_id, self._encoder.encode_function(context.input_type))

    def create_committer(self, configuration: Configuration) -> Committer[FileCommittable]:
        return FileCommitter()

    @property
    def committable_type(self) -> Any:
        return FileCommittable

    def validate(self, input_type: TypeInformation) -> None:
        """Raise a named error if the path is a file, or the format cannot hold the records."""
        path = self._settings.base_path
        if os.path.exists(path) and not os.path.isdir(path):
            raise SinkError(f"FileSink: {path} is a file; a folder is needed")
        check_serializable(self._settings.assigner, "the bucket assigner of FileSink")
        check_serializable(self._settings.rolling_policy, "the rolling policy of FileSink")
        if self._writer_factory is not None:
            self._writer_factory.create(input_type)

    class RowFormatBuilder:
        """Sets up a FileSink of a row format."""

        def __init__(self, settings: FileWriterSettings, encoder: Encoder) -> None:
            self._settings = settings
            self._encoder = encoder

        def with_bucket_check_interval(self, interval: int) -> FileSink.RowFormatBuilder:
            """Set how often the age of files is checked, in milliseconds."""
            self._settings = _with_interval(self._settings, interval)
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSink.RowFormatBuilder:
            """Set what decides on a record's folder; the default is one for each hour of processing time."""
            self._settings = _with_assigner(self._settings, bucket_assigner)
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSink.RowFormatBuilder:
            """Set what the files' names begin and end with."""
            self._settings = _with_config(self._settings, output_file_config)
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink.RowFormatBuilder:
            """Set when a file is closed."""
            self._settings = _with_policy(self._settings, rolling_policy, RollingPolicy)
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> FileSink.RowFormatBuilder:
            """Raise UnsupportedError."""
            compaction_unsupported()

        def disable_compact(self) -> FileSink.RowFormatBuilder:
            """Leave small files as they are, which is always so."""
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(self._settings, encoder=self._encoder)

    class BulkFormatBuilder:
        """Sets up a FileSink of a bulk format."""

        def __init__(self, settings: FileWriterSettings, writer_factory: BulkPartWriterFactory) -> None:
            self._settings = settings
            self._writer_factory = writer_factory

        def with_bucket_check_interval(self, interval: int) -> FileSink.BulkFormatBuilder:
            """Accepted as in Flink; files of bulk formats do not grow old."""
            self._settings = _with_interval(self._settings, interval)
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSink.BulkFormatBuilder:
            """Set what decides on a record's folder; the default is one for each hour of processing time."""
            self._settings = _with_assigner(self._settings, bucket_assigner)
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSink.BulkFormatBuilder:
            """Set what the files' names begin and end with."""
            self._settings = _with_config(self._settings, output_file_config)
            return self

        def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> FileSink.BulkFormatBuilder:
            """Set when a file is closed: bulk formats must close it at each checkpoint."""
            self._settings = _with_policy(self._settings, rolling_policy, OnCheckpointRollingPolicy)
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> FileSink.BulkFormatBuilder:
            """Raise UnsupportedError."""
            compaction_unsupported()

        def disable_compact(self) -> FileSink.BulkFormatBuilder:
            """Leave small files as they are, which is always so."""
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(self._settings, writer_factory=self._writer_factory)


class StreamingFileSink(FileSink):
    """The old name of FileSink.

    Differs from Flink: at the end of a bounded job its files are finished, as those of FileSink are.
    """

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Begin a sink that writes one record after another."""
        return FileSink.for_row_format(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Begin a sink that writes files of many records together."""
        return FileSink.for_bulk_format(base_path, writer_factory)


def _base(base_path: Any, rolling_policy: RollingPolicy) -> FileWriterSettings:
    return FileWriterSettings(
        base_path=local_path(base_path, "base_path of FileSink"),
        assigner=BucketAssigner.date_time_bucket_assigner(),
        rolling_policy=rolling_policy,
        output_file_config=OutputFileConfig(),
        bucket_check_interval=_BUCKET_CHECK_INTERVAL,
    )


def _checked_factory(writer_factory: Any) -> BulkPartWriterFactory:
    if not isinstance(writer_factory, BulkPartWriterFactory):
        raise InvalidArgumentError(
            f"for_bulk_format takes a writer factory of a bulk format; got {writer_factory!r}", hint="ParquetWriterFactory()."
        )
    return writer_factory


def _with_interval(settings: FileWriterSettings, interval: Any) -> FileWriterSettings:
    if not isinstance(interval, int) or isinstance(interval, bool):
        raise InvalidArgumentError(f"with_bucket_check_interval takes milliseconds as int; got {interval!r}")
    if interval <= 0:
        raise InvalidProgramError(f"the bucket check interval must be more than 0 milliseconds; got {interval}")
    return replace(settings, bucket_check_interval=interval)


def _with_assigner(settings: FileWriterSettings, assigner: Any) -> FileWriterSettings:
    if not isinstance(assigner, BucketAssigner):
        raise InvalidArgumentError(
            f"with_bucket_assigner takes a BucketAssigner; got {assigner!r}", hint="BucketAssigner.base_path_bucket_assigner()."
        )
    return replace(settings, assigner=assigner)


def _with_config(settings: FileWriterSettings, config: Any) -> FileWriterSettings:
    if not isinstance(config, OutputFileConfig):
        raise InvalidArgumentError(f"with_output_file_config takes an OutputFileConfig; got {config!r}")
    return replace(settings, output_file_config=config)


def _with_policy(settings: FileWriterSettings, policy: Any, kind: Any) -> FileWriterSettings:
    if not isinstance(policy, kind):
        factory = "default_rolling_policy()" if kind is RollingPolicy else "on_checkpoint_rolling_policy()"
        raise InvalidArgumentError(
            f"with_rolling_policy takes a {kind.__name__} here; got {policy!r}", hint=f"RollingPolicy.{factory}."
        )
    return replace(settings, rolling_policy=policy)
