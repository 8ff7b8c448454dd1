"""KafkaSink: writes records to topics, at least once or exactly once."""

from __future__ import annotations

from typing import Any

from flinkish.common.arguments import check, instance_of, text_of
from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.ids import random_id
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.committer import KafkaCommitter
from flinkish.datastream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from flinkish.datastream.connectors.kafka.settings import SINK, ClientBuilder, KafkaCommittable, KafkaSinkSettings
from flinkish.datastream.connectors.kafka.writers import DirectWriter, StagingWriter
from flinkish.program.sinks import Committer, DeliveryGuarantee, Sink, SinkWriter, SinkWriterContext


class KafkaSink(Sink[Any, KafkaCommittable]):
    """Writes records to Kafka topics; needs the package confluent-kafka (`pip install flinkish[kafka]`).

    NONE and AT_LEAST_ONCE write immediately; with the latter, an epoch ends when the brokers have acknowledged its messages. With
    EXACTLY_ONCE, messages wait in the checkpoint; when it is complete, the driver writes them in one transaction that also
    records the checkpoint's id. Consumers with isolation.level=read_committed see each message once, whatever fails.

    >>> from flinkish.common.serialization import SimpleStringSchema
    >>> sink = (
    ...     KafkaSink.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_record_serializer(
    ...         KafkaRecordSerializationSchema.builder()
    ...         .set_topic("delays")
    ...         .set_value_serialization_schema(SimpleStringSchema())
    ...         .build()
    ...     )
    ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    ...     .set_transactional_id_prefix("delays-job")
    ...     .build()
    ... )

    Differs from Flink: with EXACTLY_ONCE no transaction is open between checkpoints. So no downtime loses messages, and
    transaction.timeout.ms only has to be longer than the time it takes to send the messages of one checkpoint.
    """

    committable_type = KafkaCommittable

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._settings = instance_of("KafkaSink()", settings, KafkaSinkSettings, hint="KafkaSink.builder()...build().")

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder of a sink."""
        return KafkaSinkBuilder()

    @property
    def _exactly_once(self) -> bool:
        return self._settings.guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        schema = self._settings.serializer
        chosen = not isinstance(schema.topic, str) or schema.key_schema or schema.partitioner or schema.header_provider
        return "topic, key, partition or headers are chosen for each record" if chosen else schema.value_schema.why_records

    def get_transformer(self) -> None:
        """Return None: the stream is written as it is."""
        return

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, KafkaCommittable]:
        if self._exactly_once:
            return StagingWriter(self._settings, context, random_id)
        return DirectWriter(self._settings, context)

    def create_committer(self, configuration: Configuration) -> Committer[KafkaCommittable] | None:
        return KafkaCommitter(self._settings, configuration, SystemClock()) if self._exactly_once else None

    def validate(self, input_type: TypeInformation) -> None:
        """Raise MissingPackageError without confluent-kafka, ConfigurationError for a property that cannot be used."""
        _ = self._settings.largest
        # Making a client checks its properties, without a request to a broker.
        client.check("Producer", self._settings.producer("check"), SINK)
        if self._exactly_once:
            client.make("Producer", self._settings.transactional("check", self._settings.prefix), SINK)

    def __repr__(self) -> str:
        return f"KafkaSink({self._settings.guarantee.value}, {self._settings.shown()})"


class KafkaSinkBuilder(ClientBuilder):
    """Sets up a KafkaSink, with the methods of PyFlink's builder."""

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the delivery guarantee; the default is NONE."""
        hint = "DeliveryGuarantee.EXACTLY_ONCE, AT_LEAST_ONCE or NONE."
        return self._set(guarantee=instance_of("set_delivery_guarantee()", delivery_guarantee, DeliveryGuarantee, hint=hint))

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of the transactional id, and of the group that records checkpoints; required for EXACTLY_ONCE.

        No other job on the same brokers may use it, and it must not change as long as the job lives.
        """
        return self._set(prefix=text_of("set_transactional_id_prefix()", transactional_id_prefix))

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set the serializer that makes messages of records."""
        hint = "KafkaRecordSerializationSchema.builder().set_topic(...).set_value_serialization_schema(...).build()."
        instance_of("set_record_serializer()", record_serializer, KafkaRecordSerializationSchema, hint=hint)
        return self._set(serializer=record_serializer)

    def build(self) -> KafkaSink:
        """Return the sink; raises InvalidProgramError if a required setting is missing."""
        self._check_brokers("KafkaSink")
        check("serializer" in self._fields, "KafkaSink needs a record serializer", hint="call set_record_serializer().")
        if self._fields.get("guarantee") is DeliveryGuarantee.EXACTLY_ONCE:
            check(
                "prefix" in self._fields,
                "KafkaSink needs a transactional id prefix for EXACTLY_ONCE",
                hint="call set_transactional_id_prefix() with a name that no other job has.",
            )
            idempotence = self._properties.get("enable.idempotence", "true")
            check(
                idempotence.lower() not in ("false", "f", "0"),
                f"KafkaSink: enable.idempotence = {idempotence!r}: transactions need an idempotent producer",
                hint="leave it out, or choose DeliveryGuarantee.AT_LEAST_ONCE.",
            )
        return KafkaSink(KafkaSinkSettings(properties=dict(self._properties), **self._fields))
