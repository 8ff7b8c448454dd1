"""Reading and writing files of a format without a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flinkish.common.serialization import BulkWriterFactory
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system import BucketAssigner, BulkFormat, FileSink, FileSource
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from tests.unit.datastream.connectors.fakes import SinkRun, SourceRun
from tests.unit.datastream.connectors.file_system.test_file_sink import visible


def read(path: Path, format_: Any, policy: RecordErrorPolicy | None = None, **run: Any) -> list[Any]:
    """Return the records of files, in epochs as SourceRun makes them."""
    bulk = isinstance(format_, BulkFormat)
    begin: Any = FileSource.for_bulk_file_format if bulk else FileSource.for_record_stream_format
    builder = begin(format_, str(path))
    if policy is not None:
        builder.on_record_error(policy)
    return SourceRun(builder.build(), **run).values()


def write(path: Path, factory: BulkWriterFactory, values: list[Any], input_type: TypeInformation | None = None) -> Path:
    """Return the one file that a sink makes of some records, which come in two epochs with the loss of one in between."""
    assigner = BucketAssigner.base_path_bucket_assigner()
    sink = FileSink.for_bulk_format(str(path), factory).with_bucket_assigner(assigner).build()
    sink.validate(SinkRun(sink, input_type).input_type)
    run = SinkRun(sink, input_type)
    half = len(values) // 2
    run.epoch(values[:half]).lost_epoch(values[half:]).checkpoint(values[half:])
    (file,) = visible(path)
    return file
