"""The settings that the builder of a KafkaSink collects, and the committables that its writers pass to the committer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flinkish.common.errors import ConfigurationError
from flinkish.datastream.connectors.kafka.properties import client_configuration
from flinkish.datastream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from flinkish.program.sinks import DeliveryGuarantee

WHO: Final = "KafkaSink"

#: A message: topic, partition (-1: any), key, value, time in milliseconds (-1: none), headers.
Message = tuple[str, int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]

#: librdkafka's own; a message may be a little larger with what Kafka adds.
_LARGEST: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """Messages in a file below the folder of the job's checkpoints."""

    #: Relative to the committable's root.
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCommittable:
    """Messages of one writer for one checkpoint: in files, except for the last few, which are in this object."""

    #: Where the files are; None: there is no folder of checkpoints.
    root: str | None
    files: tuple[StagedFile, ...]
    #: Runs of messages as MessagePack, after those in files.
    chunks: tuple[bytes, ...]
    #: Milliseconds since 1970.
    prepared: int
    #: The largest batch that all topics take which the writer has asked, in bytes; None: they have not told.
    batch_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSinkSettings:
    """The settings of a sink; immutable."""

    serializer: KafkaRecordSerializationSchema
    guarantee: DeliveryGuarantee
    prefix: str
    # Not shown: there are secrets among them.
    properties: Mapping[str, str] = field(repr=False)
    write_timestamp: bool = True
    #: Whether messages that cannot be written are only logged, and lost; an option of FlinkKafkaProducer.
    log_failures_only: bool = False

    @property
    def servers(self) -> str:
        """The brokers to connect to first: host:port, separated by commas."""
        return self.properties.get("bootstrap.servers", "")

    def common(self, client: str) -> dict[str, str]:
        """Return the configuration of a client of any kind; `client` ends its id."""
        own = {key: value for key, value in self.properties.items() if key != "client.id.prefix"}
        configuration = client_configuration(own, WHO)
        prefix = self.properties.get("client.id.prefix") or configuration.get("client.id")
        configuration["client.id"] = client if prefix is None else f"{prefix}-{client}"
        return configuration

    def producer(self, client: str) -> dict[str, Any]:
        """Return the configuration of a producer."""
        return {
            # Java's defaults, if those of librdkafka are different.
            "enable.idempotence": "true",
            "message.timeout.ms": "120000",
            "partitioner": "murmur2_random",
            # Larger batches, and room for two epochs of them.
            "linger.ms": "20",
            "batch.size": "1000000",
            "queue.buffering.max.messages": "1000000",
            **{key: value for key, value in self.common(client).items() if key != "transaction.timeout.ms"},
        }

    def transactional(self, client: str, transactional_id: str) -> dict[str, Any]:
        """Return the configuration of a producer that makes transactions."""
        configuration = self.producer(client)
        longest = self._milliseconds("transaction.timeout.ms", self.properties.get("transaction.timeout.ms", "60000"))
        # It makes no sense to wait for a message after the transaction has timed out.
        message = min(longest, self._milliseconds("message.timeout.ms", configuration["message.timeout.ms"]))
        configuration |= {"transaction.timeout.ms": str(longest), "message.timeout.ms": str(message)}
        return {**configuration, "enable.idempotence": "true", "transactional.id": transactional_id}

    def _milliseconds(self, key: str, value: str) -> int:
        if not value.isdigit():
            raise ConfigurationError(f"{WHO}: {key} = {value!r}: expected a whole number of milliseconds")
        return int(value)

    def admin(self, client: str) -> dict[str, str]:
        """Return the configuration of an administration client."""
        reach = ("bootstrap.servers", "client.id", "security.", "sasl.", "ssl.", "socket.", "broker.", "enable.ssl")
        return {key: value for key, value in self.common(client).items() if key.startswith(reach)}

    @property
    def largest(self) -> int:
        """The maximum size of a message that the client accepts, in bytes."""
        value = client_configuration(self.properties, WHO).get("message.max.bytes", str(_LARGEST))
        if not value.isdigit():
            raise ConfigurationError(f"{WHO}: message.max.bytes = {value!r}: expected a number of bytes")
        return int(value)

    @property
    def compresses(self) -> bool:
        """Whether the client compresses messages."""
        configuration = client_configuration(self.properties, WHO)
        return any(configuration.get(key, "none") != "none" for key in ("compression.type", "compression.codec"))

    @property
    def batch_size(self) -> int:
        """The maximum size of a batch that the client sends, in bytes."""
        return int(self.producer("batch")["batch.size"])

    def transactional_id(self, sink_uid: str) -> str:
        """Return the id by which the brokers know the committer, and fence those of former attempts."""
        return f"{self.prefix}-{sink_uid}"

    def application(self, lineage: str, sink_uid: str) -> str:
        """Return the consumer group whose offset says which checkpoint of a lineage was written last."""
        return f"{self.prefix}-{digest_of(lineage, sink_uid)}"


def digest_of(lineage: str, sink_uid: str) -> str:
    """Return a name for the sink of a job: checkpoint ids rise within a lineage, and never come again."""
    return hashlib.sha256(f"{lineage}/{sink_uid}".encode()).hexdigest()[:32]
