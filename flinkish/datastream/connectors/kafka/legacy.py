"""FlinkKafkaConsumer and FlinkKafkaProducer, the names of Flink 1.x, as thin forms of KafkaSource and KafkaSink."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from flinkish.common.arguments import instance_of
from flinkish.common.serialization import DeserializationSchema, SerializationSchema
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from flinkish.datastream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from flinkish.datastream.connectors.kafka.settings import KafkaEnumeratorState, KafkaPartitionSplit
from flinkish.datastream.connectors.kafka.sink import KafkaSink
from flinkish.datastream.connectors.kafka.source import KafkaSource
from flinkish.program.sinks import DeliveryGuarantee


class FlinkKafkaConsumerBase(KafkaSource):
    """The methods of FlinkKafkaConsumer."""

    _filters_restored = True

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumerBase:
        """Set whether offsets are committed to the consumer group when a checkpoint completes."""
        own = {"commit.offsets.on.checkpoint": "true" if commit_on_checkpoints else "false"}
        return self._with(properties={**self._settings.properties, **own})

    def set_start_from_earliest(self) -> FlinkKafkaConsumerBase:
        """Start at the earliest message."""
        return self._with(start=KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> FlinkKafkaConsumerBase:
        """Start after the latest message at the job's start."""
        return self._with(start=KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumerBase:
        """Start at the first message with at least this timestamp (milliseconds since 1970); at the end if there is none."""
        return self._with(start=KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumerBase:
        """Start at the group's committed offsets (the default); auto.offset.reset (latest) decides for partitions without one."""
        strategy = "EARLIEST" if self._settings.reset == "earliest" else "LATEST"
        return self._with(start=KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[strategy]))

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumerBase:
        """Continue to read all partitions of a checkpoint, including those of topics that are no longer subscribed.

        Differs from Flink: without this call, such a checkpoint is refused; Flink leaves those partitions out silently.
        """
        self._filters_restored = False
        return self

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self.produced_type()

    def check_restored(
        self, splits: Sequence[KafkaPartitionSplit], checkpoint: KafkaEnumeratorState | None, *, trusted: bool
    ) -> None:
        if self._filters_restored:
            super().check_restored(splits, checkpoint, trusted=trusted)

    def _with(self, **settings: Any) -> FlinkKafkaConsumerBase:
        self._settings = replace(self._settings, **settings)
        return self


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads topics; the old name of KafkaSource, for `add_source` and `from_source`."""

    def __init__(
        self, topics: str | list[str], deserialization_schema: DeserializationSchema, properties: dict[str, str]
    ) -> None:
        warnings.warn("Deprecated in 1.16. Use KafkaSource instead.", DeprecationWarning, stacklevel=2)
        builder = KafkaSource.builder().set_topics(*(topics if isinstance(topics, list) else [topics]))
        builder.set_properties(properties).set_value_only_deserializer(deserialization_schema)
        super().__init__(builder.build()._settings)
        if self._settings.group is not None:
            self.set_start_from_group_offsets()
        elif self._settings.reset != "earliest":
            self.set_start_from_latest()


class Semantic(Enum):
    """The guarantee of a FlinkKafkaProducer; see DeliveryGuarantee."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = 1
    NONE = 2

    def __repr__(self) -> str:
        return str(self)


class FlinkKafkaProducerBase(KafkaSink):
    """The methods of FlinkKafkaProducer."""

    def set_log_failures_only(self, log_failures_only: bool) -> FlinkKafkaProducerBase:
        """Set whether messages that cannot be written are only logged, and lost; no effect with EXACTLY_ONCE."""
        return self._with(log_failures_only=bool(log_failures_only))

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducerBase:
        """Set whether checkpoints wait until the brokers have all messages: True = AT_LEAST_ONCE, False = NONE."""
        if self._settings.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return self
        return self._with(guarantee=DeliveryGuarantee.AT_LEAST_ONCE if flush_on_checkpoint else DeliveryGuarantee.NONE)

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> FlinkKafkaProducerBase:
        """Set whether messages get the event time of their records; by default, they get the time of the client."""
        return self._with(write_timestamp=bool(write_timestamp_to_kafka))

    def _with(self, **settings: Any) -> FlinkKafkaProducerBase:
        self._settings = replace(self._settings, **settings)
        return self


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes to a topic; the old name of KafkaSink, for `add_sink` and `sink_to`.

    Differs from Flink: `kafka_producer_pool_size` has no effect, as one producer on the driver makes all transactions. Their ids
    begin with the property client.id.prefix, else with `flinkish-` and the topic.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: dict[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(serialization_schema)
        builder = KafkaSink.builder().set_record_serializer(schema.build())
        for key, value in instance_of("producer_config", producer_config, dict).items():
            builder.set_property(key, value)
        builder.set_delivery_guarantee(DeliveryGuarantee[instance_of("semantic", semantic, Semantic).name])
        builder.set_transactional_id_prefix(producer_config.get("client.id.prefix", f"flinkish-{topic}"))
        super().__init__(replace(builder.build()._settings, write_timestamp=False))

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Accepted as in Flink; a transaction that times out loses nothing, its messages are written again."""
        return self
