"""Conversion of messages to records, and of records to messages: topic, partition, key, value, headers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from flinkish.common.arguments import callable_of, check, instance_of, text_of
from flinkish.common.builder import FieldsBuilder
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.serialization import DeserializationSchema, SerializationSchema
from flinkish.common.typeinfo import TypeInformation

#: Chooses a partition: (record, key, value, topic, number of partitions) -> number of one, from 0. Flink's FlinkKafkaPartitioner.
Partitioner = Callable[[Any, bytes | None, bytes | None, str, int], int]
#: Makes the headers of a record's message.
HeaderProvider = Callable[[Any], Iterable[tuple[str, bytes | None]]]


class KafkaRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message as in Java's ConsumerRecord: `value` is None for a tombstone, `timestamp` is in milliseconds."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaRecordDeserializationSchema(DeserializationSchema):
    """Converts whole messages to records; subclass it and implement `deserialize`. (In PyFlink it wraps a Java object.)

    >>> class KeyAndValue(KafkaRecordDeserializationSchema):
    ...     def deserialize(self, message):
    ...         return message.key.decode(), message.value.decode(), message.offset
    """

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Return a schema that reads only the values of messages."""
        if isinstance(deserialization_schema, KafkaRecordDeserializationSchema):
            raise InvalidArgumentError(
                "value_only() takes a schema of values; got a KafkaRecordDeserializationSchema",
                hint="give that to set_deserializer().",
            )
        instance_of("value_only()", deserialization_schema, DeserializationSchema)
        if type(deserialization_schema).is_end_of_stream is not DeserializationSchema.is_end_of_stream:
            raise UnsupportedError(
                f"{type(deserialization_schema).__name__}.is_end_of_stream() would end a KafkaSource, which it cannot",
                hint="use set_bounded() or set_unbounded() with the offsets at which to stop.",
            )
        return ValueOnly(deserialization_schema)

    @abstractmethod
    def deserialize(self, message: Any) -> Any:
        """Return the record for a KafkaRecord, or None for no record; raises ValueError if the message is malformed."""
        raise NotImplementedError(f"{type(self).__name__} must implement deserialize(message)")


class ValueOnly(KafkaRecordDeserializationSchema):
    """Reads only the values of messages. Readers call the schema of the values directly."""

    def __init__(self, schema: DeserializationSchema) -> None:
        self.schema = schema

    def open(self) -> None:
        self.schema.open()

    def deserialize(self, message: Any) -> Any:
        return self.schema.deserialize(message.value)

    def get_produced_type(self) -> TypeInformation:
        return self.schema.get_produced_type()


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a record."""


@dataclass(frozen=True, kw_only=True)
class KafkaRecordSerializationSchema(SerializationSchema):
    """Converts records to messages; create one with `builder()`.

    >>> from flinkish.common.serialization import SimpleStringSchema
    >>> schema = (
    ...     KafkaRecordSerializationSchema.builder()
    ...     .set_topic("delays")
    ...     .set_value_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    """

    #: A topic, or a function from a record to its topic.
    topic: str | Callable[[Any], str]
    value_schema: SerializationSchema
    key_schema: SerializationSchema | None = None
    partitioner: Partitioner | None = None
    header_provider: HeaderProvider | None = None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder of a schema."""
        return KafkaRecordSerializationSchemaBuilder()

    def open(self) -> None:
        self.value_schema.open()
        if self.key_schema is not None:
            self.key_schema.open()

    def serialize(self, element: Any) -> bytes:
        """Return the value of a record's message."""
        return self.value_schema.serialize(element)


class KafkaRecordSerializationSchemaBuilder(FieldsBuilder):
    """Sets up a KafkaRecordSerializationSchema; PyFlink's methods."""

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records to one topic, which must exist."""
        return self._set(topic=text_of("set_topic()", topic))

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of each record by a function or a KafkaTopicSelector."""
        if isinstance(topic_selector, KafkaTopicSelector):
            topic_selector = topic_selector.apply
        return self._set(topic=callable_of("set_topic_selector()", topic_selector))

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of the keys; without it, messages have no keys."""
        return self._set(key_schema=_schema("set_key_serialization_schema()", key_serialization_schema))

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of the values."""
        return self._set(value_schema=_schema("set_value_serialization_schema()", value_serialization_schema))

    def set_partitioner(self, partitioner: Partitioner) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the partition of each message: (record, key, value, topic, number of partitions) -> partition, from 0.

        Without it, the hash of a message's key determines the partition, as in Java's clients; a message without a key may go to
        any partition. In Flink's Java API, not in PyFlink.
        """
        return self._set(partitioner=callable_of("set_partitioner()", partitioner))

    def set_header_provider(self, header_provider: HeaderProvider) -> KafkaRecordSerializationSchemaBuilder:
        """Set the function that returns headers: record -> [(name, bytes), ...]. In Flink's Java API, not in PyFlink."""
        return self._set(header_provider=callable_of("set_header_provider()", header_provider))

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema; raises InvalidProgramError if the topic or the value schema is missing."""
        for name, what, hint in (
            ("value_schema", "a schema of values", "call set_value_serialization_schema()."),
            ("topic", "a topic", "call set_topic() or set_topic_selector()."),
        ):
            check(name in self._fields, f"a KafkaRecordSerializationSchema needs {what}", hint=hint)
        return KafkaRecordSerializationSchema(**self._fields)


def _schema(method: str, schema: Any) -> SerializationSchema:
    return instance_of(method, schema, SerializationSchema, hint="such as SimpleStringSchema().")
