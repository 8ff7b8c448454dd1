"""The settings that builders of sources and sinks collect, and what goes into checkpoints: splits and committables."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from flinkish.common.arguments import check, text_of
from flinkish.common.builder import FieldsBuilder
from flinkish.common.errors import ConfigurationError, InvalidArgumentError
from flinkish.datastream.connectors.kafka.client import Partition, client_configuration
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetsInitializer
from flinkish.datastream.connectors.kafka.serialization import KafkaRecordDeserializationSchema, KafkaRecordSerializationSchema
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.program.sinks import DeliveryGuarantee
from flinkish.program.sources import SourceSplit

SOURCE: Final = "KafkaSource"
SINK: Final = "KafkaSink"

#: A message: topic, partition (-1: any), key, value, time in milliseconds (-1: none), headers.
Message = tuple[str, int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]

#: Properties of the source, not of the client. Names and defaults are those of Flink's KafkaSourceOptions.
_DISCOVERY: Final = "partition.discovery.interval.ms"
_COMMIT: Final = "commit.offsets.on.checkpoint"
_METRICS: Final = "register.consumer.metrics"
_RESET: Final = "auto.offset.reset"
_TIMEOUT: Final = "default.api.timeout.ms"

_SECRET: Final = re.compile(r"password|secret|jaas|token|\.key$|key\.pem|credential|sasl\.oauthbearer\.config")

#: Properties of the client on which the reader relies.
_FIXED: Final[Mapping[str, str]] = {"enable.auto.offset.store": "false", "enable.partition.eof": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The properties of a source or sink, from which the configurations of its clients follow."""

    #: KafkaSource or KafkaSink, for messages.
    who: ClassVar[str]
    #: Properties of the source or sink itself, not of its clients.
    own: ClassVar[tuple[str, ...]] = ("client.id.prefix",)

    # Not shown: there are secrets among them.
    properties: Mapping[str, str] = field(repr=False)

    @property
    def servers(self) -> str:
        """The brokers to connect to first: host:port, separated by commas."""
        return self.properties.get("bootstrap.servers", "")

    def common(self, client: str) -> dict[str, str]:
        """Return the configuration of a client of any kind; `client` ends its id."""
        configuration = client_configuration(
            {key: value for key, value in self.properties.items() if key not in self.own}, self.who
        )
        known = (self.properties.get("client.id.prefix"), configuration.get("client.id"), self.properties.get("group.id"))
        configuration["client.id"] = "-".join([*[prefix for prefix in known if prefix][:1], client])
        return configuration

    def admin(self, client: str) -> dict[str, str]:
        """Return the configuration of an administration client, which ignores most properties of consumers and producers."""
        of_producers = ("enable.idempotence", "enable.gapless.guarantee")
        return {key: value for key, value in self.common(client).items() if key not in of_producers}

    def shown(self) -> dict[str, str]:
        """Return the properties for messages: secrets are hidden."""
        return {key: "******" if _SECRET.search(key) else value for key, value in self.properties.items()}

    def number(self, key: str, default: int | str, unit: str = "milliseconds") -> int:
        """Return a property as a number; raises ConfigurationError if it is none."""
        value = self.properties.get(key, default)
        try:
            return int(value)
        except ValueError:
            raise ConfigurationError(f"{self.who}: {key} = {value!r}: expected a whole number of {unit}") from None


class ClientBuilder(FieldsBuilder):
    """Collects the properties of a source or sink, and its other settings by the names of their fields."""

    def __init__(self) -> None:
        super().__init__()
        self._properties: dict[str, str] = {}

    def set_property(self, key: str, value: str) -> Self:
        """Set a property of the client: librdkafka's name, or Java's where it has one."""
        text_of("the name of a property", key)
        if not isinstance(value, str | int | float):
            raise InvalidArgumentError(f"the value of the property {key!r} must be text; got a {type(value).__name__}")
        self._properties[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Set the brokers to connect to first: host:port, several separated by commas."""
        hint = "'host:9092', several as 'a:9092,b:9092'."
        return self.set_property("bootstrap.servers", text_of("set_bootstrap_servers()", bootstrap_servers, hint=hint))

    def _check_brokers(self, who: str) -> None:
        named = bool(self._properties.get("bootstrap.servers"))
        check(named, f"{who} needs brokers", hint="call set_bootstrap_servers('host:9092').")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPartitionSplit(SourceSplit):
    """A partition, from the next offset to read up to `stop`, exclusive (None = no end)."""

    topic: str
    partition: int
    offset: int
    stop: int | None = None
    #: The leader epoch of the message before `offset`, from which brokers know whether the log was cut off there; None = unknown.
    leader_epoch: int | None = None

    @property
    def pair(self) -> Partition:
        return self.topic, self.partition

    @property
    def records_left(self) -> int | None:
        # There are fewer if not each offset before the stop has a message: the end of a transaction has none.
        return None if self.stop is None else max(0, self.stop - self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaEnumeratorState:
    """All partitions that were found, and those of them that are not assigned to a reader yet."""

    #: Split ids.
    known: tuple[str, ...] = ()
    pending: tuple[KafkaPartitionSplit, ...] = ()
    #: Whether the partitions that were there at the start have been found; those found later begin at their first message.
    discovered: bool = False
    #: Ids of topics by name; a topic that is deleted and created again has another id.
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceSettings(ClientSettings):
    """The settings of a source; immutable."""

    who = SOURCE
    own = ("client.id.prefix", _DISCOVERY, _COMMIT, _METRICS, _RESET, _TIMEOUT)

    topics: tuple[str, ...] = ()
    #: A regular expression that the whole name of a topic matches.
    pattern: str | None = None
    partitions: tuple[Partition, ...] = ()
    start: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stop: KafkaOffsetsInitializer | None = None
    bounded: bool = False
    deserializer: KafkaRecordDeserializationSchema
    record_errors: RecordErrorPolicy = field(default_factory=RecordErrorPolicy.fail)

    @property
    def group(self) -> str | None:
        """The consumer group, if one is set."""
        return self.properties.get("group.id")

    @property
    def discovery_interval(self) -> int | None:
        """Milliseconds between two searches for new partitions; None = only at the start, as for a source with an end."""
        interval = self.number(_DISCOVERY, 300_000)
        return None if self.stop is not None or interval <= 0 else interval

    @property
    def commits_offsets(self) -> bool:
        """Whether offsets are committed to the group when a checkpoint is complete."""
        return self._choice(_COMMIT, "false" if self.group is None else "true", ("true", "false")) == "true"

    @property
    def partition_metrics(self) -> bool:
        return self._choice(_METRICS, "true", ("true", "false")) == "true"

    @property
    def timeout(self) -> int:
        """Milliseconds after which a request without an answer, or a read without a message, fails."""
        timeout = self.number(_TIMEOUT, 60_000)
        if timeout < 1:
            raise ConfigurationError(f"{SOURCE}: {_TIMEOUT} = {timeout}: expected at least 1 millisecond")
        return timeout

    @property
    def reset(self) -> str:
        """Where to continue if messages to read next are gone: earliest or latest; none = fail."""
        if self.properties.get(_RESET, "").lower() == "error":  # librdkafka's word for Java's none
            return "none"
        return self._choice(_RESET, "none", ("earliest", "latest", "none"))

    @property
    def isolation(self) -> str:
        """read_committed or read_uncommitted: Java's default; librdkafka's own is the first."""
        return self._choice("isolation.level", "read_uncommitted", ("read_committed", "read_uncommitted"))

    def _choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self.properties.get(key, default)
        if value.lower() not in allowed:
            expected = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            raise ConfigurationError(f"{SOURCE}: {key} = {value!r}: expected {expected}")
        return value.lower()

    def __post_init__(self) -> None:
        """Raise ConfigurationError for a property that the source, not the client, gives its meaning, if it cannot be used."""
        if self.group is not None and not self.group.strip():
            raise ConfigurationError(f"{SOURCE}: group.id is empty", hint="name a group, or leave it out.")
        for key, value in _FIXED.items():
            if self.properties.get(key, value).lower() != value:
                raise ConfigurationError(
                    f"{SOURCE}: {key} = {self.properties[key]!r}: the source always sets it to {value}", hint="leave it out."
                )
        # Reading these values checks them.
        _ = self.discovery_interval, self.partition_metrics, self.timeout, self.reset, self.isolation
        if self.commits_offsets and self.group is None:
            raise ConfigurationError(f"{SOURCE}: {_COMMIT} = true needs a consumer group", hint="call set_group_id().")

    def consumer(self, client: str) -> dict[str, Any]:
        return {
            # 1000 ms by default, which a full local queue then costs each time.
            "fetch.queue.backoff.ms": "5",
            # How long a broker waits for messages before it answers; the end of a transaction becomes known by such an answer.
            "fetch.wait.max.ms": "10",
            # librdkafka demands one.
            "group.id": "flinkish",
            **self.common(client),
            "enable.auto.commit": "false",
            **_FIXED,
            "isolation.level": self.isolation,
            # Lost messages are an error here; the client must never skip them.
            "auto.offset.reset": "error",
        }

    def wants(self, topic: str, partition: int) -> bool:
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics or (topic, partition) in self.partitions


def split_id(topic: str, partition: int) -> str:
    """Return the id of a partition's split; Flink's."""
    return f"{topic}-{partition}"


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
    #: The largest batch that all topics of these messages take, in bytes; None: the brokers have not told.
    batch_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSinkSettings(ClientSettings):
    """The settings of a sink; immutable."""

    who = SINK

    serializer: KafkaRecordSerializationSchema
    guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    prefix: str = "kafka-sink"
    write_timestamp: bool = True
    #: Whether messages that cannot be written are only logged, and lost; an option of FlinkKafkaProducer.
    log_failures_only: bool = False

    def producer(self, client: str) -> dict[str, Any]:
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
        longest = self.number("transaction.timeout.ms", 60_000)
        return {
            **configuration,
            "enable.idempotence": "true",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(longest),
            # It makes no sense to wait for a message after the transaction has timed out.
            "message.timeout.ms": str(min(longest, self.number("message.timeout.ms", configuration["message.timeout.ms"]))),
        }

    @property
    def largest(self) -> int:
        """The maximum size of a message that the client accepts, in bytes; Kafka may add a little to it."""
        return self.number("max.request.size", self.properties.get("message.max.bytes", 1_000_000), "bytes")

    @property
    def compresses(self) -> bool:
        return any(self.properties.get(key, "none") != "none" for key in ("compression.type", "compression.codec"))

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
