"""Sources and sinks, with PyFlink's names.

Not in PyFlink are BatchGeneratorSource, DataFrameSink, DeltaSource, DeltaSink, DataGeneratorSource and SocketSource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkish.common.absent import add_getattr
from flinkish.datastream.connectors.base import DeliveryGuarantee, Sink, Source

if TYPE_CHECKING:
    from flinkish.datastream.connectors.batch_generator import BatchGeneratorSource
    from flinkish.datastream.connectors.data_frame_sink import DataFrameCommit, DataFrameSink
    from flinkish.datastream.connectors.datagen import DataGeneratorSource
    from flinkish.datastream.connectors.delta import DeltaSink, DeltaSource
    from flinkish.datastream.connectors.file_system import (
        BucketAssigner,
        BulkFormat,
        FileEnumeratorProvider,
        FileSink,
        FileSource,
        FileSourceBuilder,
        FileSplitAssignerProvider,
        OutputFileConfig,
        RollingPolicy,
        StreamFormat,
        StreamingFileSink,
    )
    from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink, JdbcSource
    from flinkish.datastream.connectors.kafka import (
        FlinkKafkaConsumer,
        FlinkKafkaProducer,
        KafkaSink,
        KafkaSource,
        Semantic,
    )
    from flinkish.datastream.connectors.number_seq import NumberSequenceSource
    from flinkish.datastream.connectors.socket import SocketSource

__all__ = [
    "BatchGeneratorSource",
    "BucketAssigner",
    "BulkFormat",
    "DataFrameCommit",
    "DataFrameSink",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "DeltaSink",
    "DeltaSource",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JdbcSource",
    "KafkaSink",
    "KafkaSource",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Semantic",
    "Sink",
    "SocketSource",
    "Source",
    "StreamFormat",
    "StreamingFileSink",
]

#: Connectors and their modules, which are loaded on first use, as some need large libraries.
_CONNECTORS: Final = {
    **dict.fromkeys(__all__, "file_system"),
    "BatchGeneratorSource": "batch_generator",
    **dict.fromkeys(("DataFrameCommit", "DataFrameSink"), "data_frame_sink"),
    "DataGeneratorSource": "datagen",
    **dict.fromkeys(("DeltaSink", "DeltaSource"), "delta"),
    **dict.fromkeys(("JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink", "JdbcSource"), "jdbc"),
    **dict.fromkeys(("FlinkKafkaConsumer", "FlinkKafkaProducer", "KafkaSink", "KafkaSource", "Semantic"), "kafka"),
    "NumberSequenceSource": "number_seq",
    "SocketSource": "socket",
}

add_getattr(__name__, {name: f"{__name__}.{module}" for name, module in _CONNECTORS.items()})
