"""Sources and sinks, with PyFlink's names.

Not in PyFlink are BatchGeneratorSource, DataFrameSink, DeltaSource, DeltaSink, DataGeneratorSource and SocketSource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkish.common.absent import add_getattr
from flinkish.datastream.connectors.base import DeliveryGuarantee as DeliveryGuarantee
from flinkish.datastream.connectors.base import Sink as Sink
from flinkish.datastream.connectors.base import Source as Source

if TYPE_CHECKING:
    from flinkish.datastream.connectors.batch_generator import BatchGeneratorSource as BatchGeneratorSource
    from flinkish.datastream.connectors.data_frame_sink import DataFrameCommit as DataFrameCommit
    from flinkish.datastream.connectors.data_frame_sink import DataFrameSink as DataFrameSink
    from flinkish.datastream.connectors.datagen import DataGeneratorSource as DataGeneratorSource
    from flinkish.datastream.connectors.delta import DeltaSink as DeltaSink
    from flinkish.datastream.connectors.delta import DeltaSource as DeltaSource
    from flinkish.datastream.connectors.file_system import BucketAssigner as BucketAssigner
    from flinkish.datastream.connectors.file_system import BulkFormat as BulkFormat
    from flinkish.datastream.connectors.file_system import FileEnumeratorProvider as FileEnumeratorProvider
    from flinkish.datastream.connectors.file_system import FileSink as FileSink
    from flinkish.datastream.connectors.file_system import FileSource as FileSource
    from flinkish.datastream.connectors.file_system import FileSourceBuilder as FileSourceBuilder
    from flinkish.datastream.connectors.file_system import FileSplitAssignerProvider as FileSplitAssignerProvider
    from flinkish.datastream.connectors.file_system import OutputFileConfig as OutputFileConfig
    from flinkish.datastream.connectors.file_system import RollingPolicy as RollingPolicy
    from flinkish.datastream.connectors.file_system import StreamFormat as StreamFormat
    from flinkish.datastream.connectors.file_system import StreamingFileSink as StreamingFileSink
    from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions as JdbcConnectionOptions
    from flinkish.datastream.connectors.jdbc import JdbcExecutionOptions as JdbcExecutionOptions
    from flinkish.datastream.connectors.jdbc import JdbcSink as JdbcSink
    from flinkish.datastream.connectors.jdbc import JdbcSource as JdbcSource
    from flinkish.datastream.connectors.kafka import FlinkKafkaConsumer as FlinkKafkaConsumer
    from flinkish.datastream.connectors.kafka import FlinkKafkaProducer as FlinkKafkaProducer
    from flinkish.datastream.connectors.kafka import KafkaSink as KafkaSink
    from flinkish.datastream.connectors.kafka import KafkaSource as KafkaSource
    from flinkish.datastream.connectors.kafka import Semantic as Semantic
    from flinkish.datastream.connectors.number_seq import NumberSequenceSource as NumberSequenceSource
    from flinkish.datastream.connectors.socket import SocketSource as SocketSource

#: Modules of connectors and their names; a module is loaded on first use, as some need large libraries.
_CONNECTORS: Final = {
    "batch_generator": "BatchGeneratorSource",
    "data_frame_sink": "DataFrameCommit DataFrameSink",
    "datagen": "DataGeneratorSource",
    "delta": "DeltaSink DeltaSource",
    "file_system": "BucketAssigner BulkFormat FileEnumeratorProvider FileSink FileSource FileSourceBuilder"
    " FileSplitAssignerProvider OutputFileConfig RollingPolicy StreamFormat StreamingFileSink",
    "jdbc": "JdbcConnectionOptions JdbcExecutionOptions JdbcSink JdbcSource",
    "kafka": "FlinkKafkaConsumer FlinkKafkaProducer KafkaSink KafkaSource Semantic",
    "number_seq": "NumberSequenceSource",
    "socket": "SocketSource",
}
_HOMES: Final = {name: f"{__name__}.{module}" for module, names in _CONNECTORS.items() for name in names.split()}
__all__ = sorted([*_HOMES, "DeliveryGuarantee", "Sink", "Source"])

add_getattr(__name__, _HOMES)
