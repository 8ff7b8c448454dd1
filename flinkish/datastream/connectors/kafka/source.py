"""KafkaSource: reads topics, each message exactly once into the state of the job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from flinkish.common.arguments import check, instance_of
from flinkish.common.clock import SystemClock
from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError
from flinkish.common.serialization import DeserializationSchema
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.enumerator import KafkaEnumerator
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition, OffsetKind
from flinkish.datastream.connectors.kafka.reader import KafkaReader
from flinkish.datastream.connectors.kafka.serialization import KafkaRecordDeserializationSchema, ValueOnly
from flinkish.datastream.connectors.kafka.settings import (
    SOURCE,
    ClientBuilder,
    KafkaEnumeratorState,
    KafkaPartitionSplit,
    KafkaSourceSettings,
)
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors
from flinkish.program.sources import Boundedness, Source, SourceReader, SourceReaderContext, SplitEnumeratorContext


class KafkaSource(Source[Any, KafkaPartitionSplit, KafkaEnumeratorState]):
    """Reads messages of Kafka topics; needs the package confluent-kafka (`pip install flinkish[kafka]`).

    Each partition is a split: its messages keep their order, and it has its own watermark. Offsets are in the checkpoints; when a
    checkpoint completes, they are also committed to the consumer group, to inform others. A message's time is the timestamp of
    its record.

    >>> from flinkish.common.serialization import SimpleStringSchema
    >>> source = (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("flights")
    ...     .set_group_id("delays")
    ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source.boundedness.value
    'CONTINUOUS_UNBOUNDED'

    Differs from Flink: if messages to read next are gone (retention, a topic that was created again), the job fails; Flink skips
    them silently. The property auto.offset.reset, which Flink overrides, allows to skip them here, too. The client is librdkafka:
    properties have its names, or Java's names where they mean the same.
    """

    split_type = KafkaPartitionSplit
    enumerator_checkpoint_type = KafkaEnumeratorState

    def __init__(self, settings: KafkaSourceSettings) -> None:
        self._settings = instance_of("KafkaSource()", settings, KafkaSourceSettings, hint="KafkaSource.builder()...build().")

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder of a source."""
        return KafkaSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._settings.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[KafkaPartitionSplit]) -> KafkaEnumerator:
        return self.restore_enumerator(context, KafkaEnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], checkpoint: KafkaEnumeratorState
    ) -> KafkaEnumerator:
        return KafkaEnumerator(context, self._settings, checkpoint, SystemClock())

    def check_restored(
        self, splits: Sequence[KafkaPartitionSplit], checkpoint: KafkaEnumeratorState | None, *, trusted: bool
    ) -> None:
        """Raise ForeignCheckpointError for a partition that the source would not read by itself."""
        for split in (*splits, *(() if checkpoint is None else checkpoint.pending)):
            if not self._settings.wants(split.topic, split.partition):
                raise ForeignCheckpointError(
                    f"the checkpoint holds offset {split.offset} of {split.split_id}, which this KafkaSource does not read",
                    hint="add the topic again, or give the source another uid: it then starts from its starting offsets.",
                )

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, KafkaPartitionSplit]:
        errors = RecordErrors(self._settings.record_errors, context)
        return KafkaReader(self._settings, context, errors, SystemClock())

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        schema = self._settings.deserializer
        return schema.schema.why_records if isinstance(schema, ValueOnly) else "the deserializer looks at whole messages"

    @property
    def makes_new_records(self) -> bool:  # type: ignore[override]
        schema = self._settings.deserializer
        return isinstance(schema, ValueOnly) and schema.schema.makes_new_records

    def produced_type(self) -> TypeInformation:
        return self._settings.deserializer.get_produced_type()

    def validate(self) -> None:
        """Raise MissingPackageError without confluent-kafka, ConfigurationError for a property that cannot be used."""
        # Making a client checks its properties, without a request to a broker.
        client.check("Consumer", self._settings.consumer("check"), SOURCE)

    def __repr__(self) -> str:
        shown = self._settings.shown()
        return f"KafkaSource({', '.join(self._settings.topics) or self._settings.pattern or self._settings.partitions}, {shown})"


class KafkaSourceBuilder(ClientBuilder):
    """Sets up a KafkaSource, with the methods of PyFlink's builder.

    Properties of the source itself are partition.discovery.interval.ms (300000; -1 = only at each start),
    commit.offsets.on.checkpoint (true if there is a group), register.consumer.metrics (true), client.id.prefix,
    default.api.timeout.ms (60000), and auto.offset.reset: where to continue if messages to read next are gone (none, the default,
    fails).
    """

    def __init__(self) -> None:
        super().__init__()
        #: The method that chose what to read.
        self._chosen_by: str | None = None

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group to which offsets are committed with each checkpoint."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read topics by name; all of them must exist."""
        if not topics or not all(isinstance(topic, str) and topic for topic in topics):
            raise InvalidArgumentError(f"set_topics() takes names of topics; got {topics!r}", hint="set_topics('a', 'b').")
        return self._choose("set_topics()", topics=tuple(dict.fromkeys(topics)))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole names match a regular expression (Python's), including those that are created later.

        Kafka's own topics, which begin with `__`, are read as well if the pattern matches them.
        """
        try:
            re.compile(topic_pattern)
        except (re.error, TypeError) as error:
            raise InvalidArgumentError(f"set_topic_pattern(): {topic_pattern!r} is no regular expression: {error}") from None
        return self._choose("set_topic_pattern()", pattern=topic_pattern)

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions only."""
        if not partitions or not all(isinstance(partition, KafkaTopicPartition) for partition in partitions):
            raise InvalidArgumentError(f"set_partitions() takes a set of KafkaTopicPartition; got {partitions!r}")
        pairs = tuple((partition.topic, partition.partition) for partition in sorted(partitions))
        return self._choose("set_partitions()", partitions=pairs)

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set the offsets to start from when there is no checkpoint; the default is earliest()."""
        return self._set(start=_offsets("set_starting_offsets()", starting_offsets_initializer))

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop before these offsets; the source still counts as unbounded, so the program runs in streaming mode."""
        return self._set(stop=_offsets("set_unbounded()", stopping_offsets_initializer), bounded=False)

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop before these offsets; new partitions are not searched for, and the program may run in batch mode."""
        return self._set(stop=_offsets("set_bounded()", stopping_offsets_initializer), bounded=True)

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Convert only the values of messages to records; a message without a value (a tombstone) is a record error."""
        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Convert whole messages to records: key, value, headers, time, offset. In Flink's Java API, not in PyFlink."""
        hint = "a schema of values goes to set_value_only_deserializer()."
        instance_of("set_deserializer()", record_deserializer, KafkaRecordDeserializationSchema, hint=hint)
        return self._set(deserializer=record_deserializer)

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set the prefix of the client ids, which brokers show."""
        return self.set_property("client.id.prefix", prefix)

    def on_record_error(self, policy: RecordErrorPolicy) -> KafkaSourceBuilder:
        """Set what happens to messages that cannot be decoded; the default is to fail. Not in Flink."""
        instance_of("on_record_error()", policy, RecordErrorPolicy, hint="RecordErrorPolicy.skip().")
        return self._set(record_errors=policy)

    def set_properties(self, props: dict[str, str]) -> KafkaSourceBuilder:
        """Set several properties; see `set_property`."""
        for key, value in instance_of("set_properties()", props, dict).items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Return the source; raises InvalidProgramError if a required setting is missing."""
        self._check_brokers("KafkaSource")
        choice = "call set_topics(), set_topic_pattern() or set_partitions()."
        check(self._chosen_by is not None, "KafkaSource needs topics", hint=choice)
        schema = "call set_value_only_deserializer(SimpleStringSchema())."
        check("deserializer" in self._fields, "KafkaSource needs a deserializer", hint=schema)
        settings = KafkaSourceSettings(properties=dict(self._properties), **self._fields)
        for rule in (settings.start, settings.stop):
            asks = rule is not None and rule.kind is OffsetKind.COMMITTED
            check(not asks or bool(settings.group), "committed_offsets() needs a consumer group", hint="call set_group_id().")
        return KafkaSource(settings)

    def _choose(self, method: str, **settings: Any) -> KafkaSourceBuilder:
        other = self._chosen_by
        check(other is None, f"{method} of KafkaSourceBuilder: {other} was called before; use one of them")
        self._chosen_by = method
        return self._set(**settings)


def _offsets(method: str, initializer: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    hint = "for example KafkaOffsetsInitializer.earliest()."
    return instance_of(method, initializer, KafkaOffsetsInitializer, hint=hint)
