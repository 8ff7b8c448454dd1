"""FileSink: writes part files that become visible when the checkpoint that covers them is complete."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar, Self

from flinkish.common.absent import Absence, AbsentMember
from flinkish.common.arguments import instance_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.configuration import Configuration
from flinkish.common.errors import SinkError
from flinkish.common.ids import random_uuid
from flinkish.common.pickling import check_serializable
from flinkish.common.serialization import BulkWriterFactory, Encoder
from flinkish.common.time import AmountOfTime, milliseconds_of
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors.file_system.compaction import PASS_ON, CompactingWriter, FileCompactor, FileCompactStrategy
from flinkish.datastream.connectors.file_system.parts import FileCommittable, FileCommitter, refuse_delta_table
from flinkish.datastream.connectors.file_system.paths import file_path, is_object
from flinkish.datastream.connectors.file_system.policies import (
    BucketAssigner,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriterFactory
from flinkish.datastream.connectors.file_system.writers import BulkFileWriter, FileSinkSettings, ObjectRowWriter, RowFileWriter
from flinkish.program.sinks import Committer, Sink, SinkWriter, SinkWriterContext


class FileSink(Sink[Any, FileCommittable]):
    """Writes records to part files below a path, exactly once.

    A part is written under a hidden name (`.part-<id>-<n>.inprogress.<nonce>`), and renamed to `part-<id>-<n>` when the
    checkpoint that contains it is complete; at the end of a bounded job even without checkpoints. An unbounded job must enable
    checkpoints, or no files ever become visible. After a failure, hidden files of the failed attempt may remain; they do no harm.

    In an object store (`s3://`, `gs://`, `abfss://`) hidden parts are objects below `.inprogress/`, and the commit copies them:
    in the store itself, in Azure through the driver. A part of a row format is kept in state until it is closed; if the parts
    of a subtask have 64 MB together, they are closed before the rolling policy does it. Hidden objects of a failed attempt are
    removed when the job goes on from a checkpoint and at the end of a bounded job, but not with `enable_compact`.

    With `enable_compact` the sink has two operators: the writers, and the compactors, which merge the closed files of each bucket
    before they become visible as `compacted-part-<id>-<n>`. The uid of the sink is the writers' uid; the compactors' uid is the
    same with `-compactor` appended. The name and description of the sink are those of the compactors.

    >>> from flinkish.common.serialization import Encoder
    >>> sink = FileSink.for_row_format("/tmp/output", Encoder.simple_string_encoder()).build()
    """

    committable_type = FileCommittable

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Return a builder for a row format, which writes one record after another."""
        instance_of("for_row_format()", encoder, Encoder, hint="Encoder.simple_string_encoder().")
        settings = _settings(base_path, RollingPolicy.default_rolling_policy())
        return FileSink.RowFormatBuilder(replace(settings, encoder=encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Return a builder for formats that store many records together: one file per checkpoint, or more for many records."""
        hint = "a writer factory of a bulk format is, for example, ParquetWriterFactory()."
        factory = instance_of("for_bulk_format()", writer_factory, BulkPartWriterFactory, hint=hint)
        settings = _settings(base_path, RollingPolicy.on_checkpoint_rolling_policy())
        return FileSink.BulkFormatBuilder(replace(settings, writer_factory=factory))

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        # Files to merge are no records.
        by_columns = self._settings.takes_columns and self._settings.compaction is None
        return None if by_columns else "the format, the bucket assigner or the rolling policy looks at each record"

    def get_transformer(self) -> Any:
        """Return the transformer that adds the writers before this sink if it merges files, else None."""
        if self._settings.compaction is None:
            return None
        return _WriterStage(FileSink(replace(self._settings, compaction=None)))

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, FileCommittable]:
        settings = self._settings
        if settings.compaction is not None:
            return CompactingWriter(settings, context, random_uuid)
        if settings.writer_factory is not None:
            return BulkFileWriter(settings, context, random_uuid)
        kind = ObjectRowWriter if is_object(settings.base_path) else RowFileWriter
        return kind(settings, context, random_uuid)

    def create_committer(self, configuration: Configuration) -> Committer[FileCommittable]:
        # Where files are merged, some wait for it in states, which the committer does not see.
        return FileCommitter(self._settings.base_path, cleans=self._settings.compaction is None)

    def validate(self, input_type: TypeInformation) -> None:
        """Raise an error if the path is a file, or the format cannot store the records."""
        settings = self._settings
        if settings.compaction is not None:
            return  # this stage gets files, not records; the sink of the first stage checks the records
        path = settings.base_path
        if not is_object(path) and os.path.exists(path) and not os.path.isdir(path):
            raise SinkError(f"FileSink: {path} is a file; a folder is needed")
        refuse_delta_table(path)
        check_serializable(settings.assigner, "the bucket assigner of FileSink")
        check_serializable(settings.rolling_policy, "the rolling policy of FileSink")
        if settings.writer_factory is not None:
            settings.writer_factory.create(input_type)

    class BaseBuilder(SettingsBuilder[FileSinkSettings]):
        """Base of the builders."""

        _policies: ClassVar[type[RollingPolicy]] = RollingPolicy
        _policy_example: ClassVar[str] = "RollingPolicy.default_rolling_policy()."

        def with_bucket_check_interval(self, interval: int | AmountOfTime) -> Self:
            """Set how often the age of files is checked (int: ms); files of bulk formats are not closed by age."""
            millis = milliseconds_of(interval, "the bucket check interval", or_number=True, minimum=1)
            return self._set(bucket_check_interval=millis)

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Set the bucket assigner, which chooses a record's folder; by default there is one per hour of processing time."""
            example = "BucketAssigner.base_path_bucket_assigner()."
            return self._set(assigner=instance_of("with_bucket_assigner()", bucket_assigner, BucketAssigner, hint=example))

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set the prefix and suffix of file names."""
            instance_of("with_output_file_config()", output_file_config, OutputFileConfig)
            return self._set(output_file_config=output_file_config)

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set when a file is closed; a bulk format needs an OnCheckpointRollingPolicy."""
            instance_of("with_rolling_policy()", rolling_policy, self._policies, hint=self._policy_example)
            return self._set(rolling_policy=rolling_policy)

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Merge the closed files of each bucket, from all subtasks, before they become visible.

            Raises InvalidProgramError if the compactor cannot merge files of the sink's format.
            Differs from Flink: files are merged at the checkpoint itself, not after it; a single file keeps its name.
            """
            example = "FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()."
            instance_of("enable_compact()", strategy, FileCompactStrategy, hint=example)
            instance_of("enable_compact()", compactor, FileCompactor, hint="FileCompactor.concat_file_compactor().")
            factory = self._settings.writer_factory
            chosen = compactor.for_row_format() if factory is None else compactor.for_bulk_format(factory)
            check_serializable(chosen, "the file compactor of FileSink")
            return self._set(compaction=(strategy, chosen))

        def disable_compact(self) -> Self:
            """Do not merge closed files; this is the default.

            Call this to restore a job from a checkpoint that was made with `enable_compact`: the second operator remains, and
            passes on the files that wait in its state.
            """
            return self._set(compaction=(PASS_ON, FileCompactor.concat_file_compactor()))

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(self._settings)

    class RowFormatBuilder(BaseBuilder):
        """Builder of a FileSink for a row format."""

    class BulkFormatBuilder(BaseBuilder):
        """Builder of a FileSink for a bulk format."""

        _policies = OnCheckpointRollingPolicy
        _policy_example = "RollingPolicy.on_checkpoint_rolling_policy()."


_BUILDER = Absence(
    "internal", "the builders are those of FileSink", "use FileSink, and its for_row_format() and for_bulk_format()"
)


class StreamingFileSink(FileSink):
    """The old name of FileSink.

    Differs from Flink: at the end of a bounded job its files are finished, as with FileSink.
    """

    DefaultRowFormatBuilder = AbsentMember(_BUILDER)
    DefaultBulkFormatBuilder = AbsentMember(_BUILDER)


@dataclass(frozen=True, slots=True)
class _WriterStage:
    """Adds the writers before a sink that merges their files."""

    sink: FileSink

    def apply(self, ds: Any) -> Any:
        """Return the stream of closed files, keyed by bucket, for a DataStream of records."""
        return ds._written_by(self.sink).key_by(attrgetter("bucket_id"), Types.STRING())


def _settings(base_path: Any, rolling_policy: RollingPolicy) -> FileSinkSettings:
    return FileSinkSettings(
        base_path=file_path(base_path, "base_path of FileSink"),
        assigner=BucketAssigner.date_time_bucket_assigner(),
        rolling_policy=rolling_policy,
    )
