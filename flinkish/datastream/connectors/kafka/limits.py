"""What a topic takes: the largest message, and whether messages need a key; and how long brokers keep offsets."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from flinkish.common.errors import RecordRefusedError
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.settings import SINK, KafkaSinkSettings, Message
from flinkish.program.refused_records import REFUSED_HINT

_log = logging.getLogger("flinkish.kafka")

#: Seconds of the request for a topic's settings.
_TIMEOUT: Final = 30.0
#: Bytes of a batch without its records, in Kafka's message format 2.
_BATCH: Final = 61
#: Bytes of a record that have a fixed length: attributes, and the differences of time and offset to those of the batch, which are
#: 0 for a single record.
_RECORD: Final = 3


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of a topic, as far as they can be checked before a message is sent."""

    #: max.message.bytes: the largest batch of messages. It is the topic's own, or message.max.bytes of the brokers.
    batch_bytes: int | None = None
    #: The same for a message alone in its batch; None if it may be compressed: only the brokers then know its size.
    message_bytes: int | None = None
    #: Whether old messages are removed by key, so that messages without one are refused.
    compacted: bool = False

    def check(self, message: Message) -> None:
        """Raise RecordRefusedError for a message that the brokers would not take."""
        topic, _, key, value, _, headers = message
        if self.compacted and key is None:
            raise RecordRefusedError(
                f"{SINK}: a message for topic {topic!r} has no key, but the topic is compacted (cleanup.policy)",
                hint=f"set_key_serialization_schema() of the record serializer gives keys; or {REFUSED_HINT}",
            )
        limit = self.message_bytes
        if limit is None or (not headers and len(value or b"") + len(key or b"") + _BATCH + 30 <= limit):
            return
        size = batch_bytes(message)
        if size > limit:
            raise RecordRefusedError(
                f"{SINK}: a message for topic {topic!r} takes {size} bytes; the topic takes {limit} (max.message.bytes)",
                hint=f"set max.message.bytes of the topic, or message.max.bytes of the brokers; or {REFUSED_HINT}",
            )


def ask(settings: KafkaSinkSettings, topic: str) -> TopicLimits:
    """Ask the brokers for the limits of a topic; nothing is checked beforehand if they do not tell."""
    kafka = client.library()
    try:
        found = _describe(client.make("AdminClient", settings.admin("limits"), SINK), "TOPIC", topic)
    except (kafka.KafkaException, TimeoutError) as error:
        text = client.text_of(error.args[0]) if isinstance(error, kafka.KafkaException) else "no answer"
        _log.warning("%s: the limits of topic %r are not known, so messages are not checked against them: %s", SINK, topic, text)
        return TopicLimits()
    limit = _number(found, "max.message.bytes")
    by_topic = found.get("compression.type", "producer")
    # The brokers compare the size of the batch as they store it.
    compressed = settings.compresses if by_topic == "producer" else by_topic != "uncompressed"
    return TopicLimits(limit, None if compressed else limit, "compact" in (found.get("cleanup.policy") or ""))


def ask_retention(settings: KafkaSinkSettings) -> int | None:
    """Ask the brokers for how many milliseconds they keep the offsets of an idle group; None if they do not tell."""
    admin = client.make("AdminClient", settings.admin("limits"), SINK)
    try:
        broker = next(iter(admin.list_topics("", timeout=_TIMEOUT).brokers))
        minutes = _number(_describe(admin, "BROKER", str(broker)), "offsets.retention.minutes")
    except (client.library().KafkaException, TimeoutError, StopIteration):
        return None
    return None if minutes is None else minutes * 60_000


def _describe(admin: Any, kind: str, name: str) -> dict[str, Any]:
    """Return the settings of a topic or broker. Raises KafkaException or TimeoutError."""
    kafka = client.library()
    resource = kafka.admin.ConfigResource(kafka.admin.ConfigResource.Type[kind], name)
    (future,) = admin.describe_configs([resource], request_timeout=_TIMEOUT).values()
    return {name: entry.value for name, entry in future.result(_TIMEOUT + 1).items()}


def _number(found: dict[str, Any], name: str) -> int | None:
    value = str(found.get(name, ""))
    return int(value) if value.isdigit() else None


def batch_bytes(message: Message) -> int:
    """Return the size of a message, alone in a batch that is not compressed."""
    _, _, key, value, _, headers = message
    size = _RECORD + _field(key) + _field(value) + _varint(len(headers or ()))
    size += sum(_field(name.encode()) + _field(content) for name, content in headers or ())
    return _BATCH + _varint(size) + size


def _field(content: bytes | None) -> int:
    return 1 if content is None else _varint(len(content)) + len(content)


def _varint(number: int) -> int:
    """Return the number of bytes of a number from 0 in the zigzag form of Kafka.

    >>> _varint(63), _varint(64)
    (1, 2)
    """
    return max(1, -(-(number << 1).bit_length() // 7))
