"""Files as sources and sinks, with PyFlink's names."""

from flinkish.datastream.connectors.file_system.compaction import FileCompactor as FileCompactor
from flinkish.datastream.connectors.file_system.compaction import FileCompactStrategy as FileCompactStrategy
from flinkish.datastream.connectors.file_system.enumerator import FileEnumeratorProvider as FileEnumeratorProvider
from flinkish.datastream.connectors.file_system.enumerator import FileSplitAssignerProvider as FileSplitAssignerProvider
from flinkish.datastream.connectors.file_system.formats import BulkFormat as BulkFormat
from flinkish.datastream.connectors.file_system.formats import StreamFormat as StreamFormat
from flinkish.datastream.connectors.file_system.policies import BucketAssigner as BucketAssigner
from flinkish.datastream.connectors.file_system.policies import DefaultRollingPolicy as DefaultRollingPolicy
from flinkish.datastream.connectors.file_system.policies import OnCheckpointRollingPolicy as OnCheckpointRollingPolicy
from flinkish.datastream.connectors.file_system.policies import OutputFileConfig as OutputFileConfig
from flinkish.datastream.connectors.file_system.policies import RollingPolicy as RollingPolicy
from flinkish.datastream.connectors.file_system.sink import FileSink as FileSink
from flinkish.datastream.connectors.file_system.sink import StreamingFileSink as StreamingFileSink
from flinkish.datastream.connectors.file_system.source import FileSource as FileSource
from flinkish.datastream.connectors.file_system.source import FileSourceBuilder as FileSourceBuilder
from flinkish.datastream.connectors.file_system.writer_factories import ParquetWriterFactory as ParquetWriterFactory

__all__ = sorted(name for name in globals() if name[0].isupper())
