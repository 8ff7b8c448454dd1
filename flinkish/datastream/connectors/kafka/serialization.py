"""Conversion of records to messages: topic, partition, key, value, headers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from flinkish.common.arguments import instance_of
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.serialization import SerializationSchema

#: Chooses a partition: (record, key, value, topic, number of partitions) -> number of one, from 0. Flink's FlinkKafkaPartitioner.
Partitioner = Callable[[Any, bytes | None, bytes | None, str, int], int]
#: Makes the headers of a record's message.
HeaderProvider = Callable[[Any], Iterable[tuple[str, bytes | None]]]


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a record."""


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

    def __init__(
        self,
        value_schema: SerializationSchema,
        topic_selector: KafkaTopicSelector | None = None,
        *,
        topic: str | None = None,
        key_schema: SerializationSchema | None = None,
        partitioner: Partitioner | None = None,
        header_provider: HeaderProvider | None = None,
    ) -> None:
        if not isinstance(value_schema, SerializationSchema):
            raise InvalidArgumentError(
                f"a KafkaRecordSerializationSchema is made by its builder; got {value_schema!r}",
                hint="KafkaRecordSerializationSchema.builder()...build().",
            )
        self._topic = topic
        self._topic_selector = topic_selector
        self._value_schema = value_schema
        self._key_schema = key_schema
        self._partitioner = partitioner
        self._header_provider = header_provider

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder of a schema."""
        return KafkaRecordSerializationSchemaBuilder()

    def open(self) -> None:
        self._value_schema.open()
        if self._key_schema is not None:
            self._key_schema.open()

    def serialize(self, element: Any) -> bytes:
        """Return the value of a record's message."""
        return self._value_schema.serialize(element)


class KafkaRecordSerializationSchemaBuilder:
    """Sets up a KafkaRecordSerializationSchema; PyFlink's methods."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._topic_selector: KafkaTopicSelector | None = None
        self._key_schema: SerializationSchema | None = None
        self._value_schema: SerializationSchema | None = None
        self._partitioner: Partitioner | None = None
        self._header_provider: HeaderProvider | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records to one topic, which must exist."""
        if not isinstance(topic, str) or not topic:
            raise InvalidArgumentError(f"set_topic() takes the name of a topic; got {topic!r}")
        self._topic, self._topic_selector = topic, None
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of each record by a function or a KafkaTopicSelector."""
        if not isinstance(topic_selector, KafkaTopicSelector):
            if not callable(topic_selector):
                raise InvalidArgumentError(f"topic_selector must be a KafkaTopicSelector or a function; got {topic_selector!r}")
            topic_selector = _FunctionSelector(topic_selector)
        self._topic, self._topic_selector = None, topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of the keys; without it, messages have no keys."""
        self._key_schema = _schema(key_serialization_schema, "set_key_serialization_schema()")
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of the values."""
        self._value_schema = _schema(value_serialization_schema, "set_value_serialization_schema()")
        return self

    def set_partitioner(self, partitioner: Partitioner) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the partition of each message: (record, key, value, topic, number of partitions) -> partition, from 0.

        Without it, the hash of a message's key determines the partition, as in Java's clients; a message without a key may go to
        any partition. In Flink's Java API, not in PyFlink.
        """
        if not callable(partitioner):
            raise InvalidArgumentError(f"set_partitioner() takes a function; got {partitioner!r}")
        self._partitioner = partitioner
        return self

    def set_header_provider(self, header_provider: HeaderProvider) -> KafkaRecordSerializationSchemaBuilder:
        """Set the function that returns headers: record -> [(name, bytes), ...]. In Flink's Java API, not in PyFlink."""
        if not callable(header_provider):
            raise InvalidArgumentError(f"set_header_provider() takes a function; got {header_provider!r}")
        self._header_provider = header_provider
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema; raises InvalidProgramError if the topic or the value schema is missing."""
        if self._value_schema is None:
            raise InvalidProgramError(
                "a KafkaRecordSerializationSchema needs a schema of values", hint="call set_value_serialization_schema()."
            )
        if self._topic is None and self._topic_selector is None:
            raise InvalidProgramError(
                "a KafkaRecordSerializationSchema needs a topic", hint="call set_topic() or set_topic_selector()."
            )
        return KafkaRecordSerializationSchema(
            self._value_schema,
            self._topic_selector,
            topic=self._topic,
            key_schema=self._key_schema,
            partitioner=self._partitioner,
            header_provider=self._header_provider,
        )


class _FunctionSelector(KafkaTopicSelector):
    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def apply(self, data: Any) -> str:
        return self._function(data)


def _schema(schema: Any, method: str) -> SerializationSchema:
    return instance_of(method, schema, SerializationSchema, hint="such as SimpleStringSchema().")
