"""Messages as programs see them, and their conversion to records."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import msgspec

from flinkish.common.arguments import instance_of
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.serialization import DeserializationSchema
from flinkish.common.typeinfo import TypeInformation


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
