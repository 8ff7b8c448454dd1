"""Kafka: a source and a sink, with PyFlink's names."""

from __future__ import annotations

from flinkish.datastream.connectors.kafka.legacy import FlinkKafkaConsumer as FlinkKafkaConsumer
from flinkish.datastream.connectors.kafka.legacy import FlinkKafkaConsumerBase as FlinkKafkaConsumerBase
from flinkish.datastream.connectors.kafka.legacy import FlinkKafkaProducer as FlinkKafkaProducer
from flinkish.datastream.connectors.kafka.legacy import FlinkKafkaProducerBase as FlinkKafkaProducerBase
from flinkish.datastream.connectors.kafka.legacy import Semantic as Semantic
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetResetStrategy as KafkaOffsetResetStrategy
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetsInitializer as KafkaOffsetsInitializer
from flinkish.datastream.connectors.kafka.offsets import KafkaTopicPartition as KafkaTopicPartition
from flinkish.datastream.connectors.kafka.serialization import KafkaRecord as KafkaRecord
from flinkish.datastream.connectors.kafka.serialization import (
    KafkaRecordDeserializationSchema as KafkaRecordDeserializationSchema,
)
from flinkish.datastream.connectors.kafka.serialization import KafkaRecordSerializationSchema as KafkaRecordSerializationSchema
from flinkish.datastream.connectors.kafka.serialization import (
    KafkaRecordSerializationSchemaBuilder as KafkaRecordSerializationSchemaBuilder,
)
from flinkish.datastream.connectors.kafka.serialization import KafkaTopicSelector as KafkaTopicSelector
from flinkish.datastream.connectors.kafka.sink import KafkaSink as KafkaSink
from flinkish.datastream.connectors.kafka.sink import KafkaSinkBuilder as KafkaSinkBuilder
from flinkish.datastream.connectors.kafka.source import KafkaSource as KafkaSource
from flinkish.datastream.connectors.kafka.source import KafkaSourceBuilder as KafkaSourceBuilder

__all__ = sorted(name for name in globals() if name[0].isupper())
