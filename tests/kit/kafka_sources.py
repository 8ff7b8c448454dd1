"""Builders of KafkaSource for the topics of a test's broker, and functions that read them."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from flinkish.common import WatermarkStrategy
from flinkish.common.serialization import SimpleStringSchema
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.base import SourceReader
from flinkish.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder
from flinkish.datastream.connectors.kafka.settings import KafkaPartitionSplit
from tests.kit.kafka_broker import Broker
from tests.kit.results import collect
from tests.unit.datastream.connectors.fakes import FakeReaderContext

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
LATEST = KafkaOffsetsInitializer.latest()


def source_of(broker: Broker, *topics: str) -> KafkaSourceBuilder:
    """Begin a source of texts."""
    builder = KafkaSource.builder().set_properties(broker.client).set_value_only_deserializer(SimpleStringSchema())
    return builder.set_topics(*topics) if topics else builder


def read(env: StreamExecutionEnvironment, builder: KafkaSourceBuilder, *, by_columns: bool = False) -> list[Any]:
    """Run a job that reads a source to its end, and return the records; `by_columns`: the source makes columns of texts."""
    stream = env.from_source(builder.build(), NO_WATERMARKS, "kafka")
    if by_columns:
        stream = stream.filter(pc.field("value") != "-")
    return collect(stream)


def reader_at(
    builder: KafkaSourceBuilder, *splits: KafkaPartitionSplit, end: int, context: FakeReaderContext | None = None
) -> SourceReader[Any, Any]:
    """Return a reader of partitions, which may read them up to an offset."""
    reader = builder.build().create_reader(context or FakeReaderContext())  # type: ignore[arg-type]
    reader.start()
    reader.add_splits(list(splits))
    reader.set_split_limits({split.split_id: end for split in splits})
    return reader


def split_at(topic: str, offset: int, partition: int = 0, **more: Any) -> KafkaPartitionSplit:
    """Return a partition of which an offset is to be read next."""
    return KafkaPartitionSplit(split_id=f"{topic}-{partition}", topic=topic, partition=partition, offset=offset, **more)


def committed(broker: Broker, group: str, topic: str, partition: int = 0) -> int:
    """Return the offset that a group has committed; -1001 if it has none."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    # Not an administration client, see client.GroupReader.
    consumer = Consumer({**broker.client, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=60)
        return int(found.offset)
    except KafkaException as error:
        # The first group of a broker: what holds its offsets is made.
        if error.args[0].name() not in ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"):
            raise
        return -1001
    finally:
        consumer.close()
