"""Sources and sinks, with PyFlink's names; not from PyFlink are DeltaSink, DataGeneratorSource and SocketSource."""

from __future__ import annotations

import importlib
from typing import Any, Final

from flinkish.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

#: Connectors and where they are; loaded when they are asked for, as some need large libraries.
_CONNECTORS: Final = {
    "NumberSequenceSource": "number_seq",
    "DataGeneratorSource": "datagen",
    "SocketSource": "socket",
    "DeltaSink": "delta",
    **dict.fromkeys(
        (
            "BucketAssigner",
            "BulkFormat",
            "FileEnumeratorProvider",
            "FileSink",
            "FileSource",
            "FileSourceBuilder",
            "FileSplitAssignerProvider",
            "OutputFileConfig",
            "RollingPolicy",
            "StreamFormat",
            "StreamingFileSink",
        ),
        "file_system",
    ),
    # Not here; their modules say why.
    **dict.fromkeys(("JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"), "jdbc"),
    **dict.fromkeys(("FlinkKafkaConsumer", "FlinkKafkaProducer", "KafkaSource", "Semantic"), "kafka"),
    **dict.fromkeys(("DynamicKafkaSource", "DynamicKafkaSourceBuilder", "KafkaMetadataService"), "dynamic_kafka"),
    **dict.fromkeys(("PulsarSource", "PulsarSourceBuilder", "StartCursor", "StopCursor"), "pulsar"),
    **dict.fromkeys(("RMQConnectionConfig", "RMQSink", "RMQSource"), "rabbitmq"),
}


def __getattr__(name: str) -> Any:
    if name not in _CONNECTORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_CONNECTORS[name]}"), name)
