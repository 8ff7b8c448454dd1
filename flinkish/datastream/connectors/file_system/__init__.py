"""Files as sources and sinks, with PyFlink's names."""

from flinkish.datastream.connectors.file_system.compaction import FileCompactor, FileCompactStrategy
from flinkish.datastream.connectors.file_system.enumerator import FileEnumeratorProvider, FileSplitAssignerProvider
from flinkish.datastream.connectors.file_system.formats import BulkFormat, StreamFormat
from flinkish.datastream.connectors.file_system.policies import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flinkish.datastream.connectors.file_system.sink import FileSink, StreamingFileSink
from flinkish.datastream.connectors.file_system.source import FileSource, FileSourceBuilder
from flinkish.datastream.connectors.file_system.writer_factories import ParquetWriterFactory

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "ParquetWriterFactory",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
