"""The settings that KafkaSourceBuilder collects, and the splits that go into checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flinkish.common.errors import ConfigurationError
from flinkish.datastream.connectors.kafka.client import Partition
from flinkish.datastream.connectors.kafka.offsets import OffsetRule
from flinkish.datastream.connectors.kafka.properties import client_configuration
from flinkish.datastream.connectors.kafka.records import KafkaRecordDeserializationSchema
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.program.sources import SourceSplit

WHO: Final = "KafkaSource"

#: Properties of the source, not of the client. Names and defaults are those of Flink's KafkaSourceOptions.
_DISCOVERY: Final = "partition.discovery.interval.ms"
_COMMIT: Final = "commit.offsets.on.checkpoint"
_METRICS: Final = "register.consumer.metrics"
_CLIENT_ID_PREFIX: Final = "client.id.prefix"
_RESET: Final = "auto.offset.reset"
_TIMEOUT: Final = "default.api.timeout.ms"
OWN: Final = (_DISCOVERY, _COMMIT, _METRICS, _CLIENT_ID_PREFIX, _RESET, _TIMEOUT)

_DISCOVERY_MS: Final = 300_000
_TIMEOUT_MS: Final = 60_000

#: Properties of the client on which the reader relies.
_FIXED: Final[Mapping[str, str]] = {"enable.auto.offset.store": "false", "enable.partition.eof": "true"}

#: Java's default; librdkafka's own is read_committed.
_ISOLATION: Final = "read_uncommitted"


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
        """Topic and number."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaEnumeratorState:
    """All partitions that were found, and those of them that are not assigned to a reader yet."""

    #: Split ids.
    known: tuple[str, ...]
    pending: tuple[KafkaPartitionSplit, ...]
    #: Whether the partitions that were there at the start have been found; those found later begin at their first message.
    discovered: bool
    #: Ids of topics by name; a topic that is deleted and created again has another id.
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceSettings:
    """The settings of a source; immutable."""

    topics: tuple[str, ...] = ()
    #: A regular expression that the whole name of a topic matches.
    pattern: str | None = None
    partitions: tuple[Partition, ...] = ()
    start: OffsetRule
    stop: OffsetRule | None = None
    bounded: bool = False
    deserializer: KafkaRecordDeserializationSchema
    record_errors: RecordErrorPolicy
    # Not shown: there are secrets among them.
    properties: Mapping[str, str] = field(repr=False)

    @property
    def servers(self) -> str:
        """The brokers to connect to first: host:port, separated by commas."""
        return self.properties.get("bootstrap.servers", "")

    @property
    def group(self) -> str | None:
        """The consumer group, if one is set."""
        return self.properties.get("group.id")

    @property
    def discovery_interval(self) -> int | None:
        """Milliseconds between two searches for new partitions; None = only at the start, as for a source with an end."""
        interval = _milliseconds(self.properties, _DISCOVERY, _DISCOVERY_MS)
        return None if self.stop is not None or interval <= 0 else interval

    @property
    def commits_offsets(self) -> bool:
        """Whether offsets are committed to the group when a checkpoint is complete."""
        return _boolean(self.properties, _COMMIT, default=self.group is not None)

    @property
    def partition_metrics(self) -> bool:
        """Whether there are metrics for each partition."""
        return _boolean(self.properties, _METRICS, default=True)

    @property
    def timeout(self) -> int:
        """Milliseconds after which a request without an answer, or a read without a message, fails."""
        timeout = _milliseconds(self.properties, _TIMEOUT, _TIMEOUT_MS)
        if timeout < 1:
            raise ConfigurationError(f"{WHO}: {_TIMEOUT} = {timeout}: expected at least 1 millisecond")
        return timeout

    @property
    def reset(self) -> str | None:
        """Where to continue if messages to read next are gone: earliest or latest; None = fail."""
        value = self.properties.get(_RESET, "none").lower()
        if value in ("earliest", "latest"):
            return value
        if value in ("none", "error"):
            return None
        raise ConfigurationError(f"{WHO}: {_RESET} = {value!r}: expected earliest, latest or none")

    @property
    def isolation(self) -> str:
        """read_committed or read_uncommitted."""
        value = self.properties.get("isolation.level", _ISOLATION).lower()
        if value not in ("read_committed", "read_uncommitted"):
            raise ConfigurationError(f"{WHO}: isolation.level = {value!r}: expected read_committed or read_uncommitted")
        return value

    def check(self) -> None:
        """Raise ConfigurationError for a property that the source, not the client, gives its meaning, if it cannot be used."""
        if self.group is not None and not self.group.strip():
            raise ConfigurationError(f"{WHO}: group.id is empty", hint="name a group, or leave it out.")
        for key, value in _FIXED.items():
            if self.properties.get(key, value).lower() != value:
                raise ConfigurationError(
                    f"{WHO}: {key} = {self.properties[key]!r}: the source always sets it to {value}", hint="leave it out."
                )
        # Reading these values checks them.
        _ = self.discovery_interval, self.partition_metrics, self.timeout, self.reset, self.isolation
        if self.commits_offsets and self.group is None:
            raise ConfigurationError(f"{WHO}: {_COMMIT} = true needs a consumer group", hint="call set_group_id().")

    def common(self, client: str) -> dict[str, str]:
        """Return the configuration of a client of any kind; `client` ends its id."""
        own = {key: value for key, value in self.properties.items() if key not in OWN}
        configuration = client_configuration(own, WHO)
        prefix = self.properties.get(_CLIENT_ID_PREFIX) or configuration.get("client.id") or self.group
        configuration["client.id"] = client if prefix is None else f"{prefix}-{client}"
        return configuration

    def consumer(self, client: str) -> dict[str, Any]:
        """Return the configuration of a consumer."""
        defaults = {
            # 1000 ms by default, which a full local queue then costs each time.
            "fetch.queue.backoff.ms": "5",
            # How long a broker waits for messages before it answers; the end of a transaction becomes known by such an answer.
            "fetch.wait.max.ms": "10",
            # librdkafka demands one.
            "group.id": "flinkish",
        }
        return {
            **defaults,
            **self.common(client),
            "enable.auto.commit": "false",
            **_FIXED,
            "isolation.level": self.isolation,
            # Lost messages are an error here; the client must never skip them.
            "auto.offset.reset": "error",
        }

    def admin(self, client: str) -> dict[str, str]:
        """Return the configuration of an administration client, without the properties that only consumers have."""
        return {key: value for key, value in self.common(client).items() if not _of_consumers(key)}

    def wants(self, topic: str, partition: int) -> bool:
        """Return whether the source reads a partition."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics or (topic, partition) in self.partitions


def split_id(topic: str, partition: int) -> str:
    """Return the id of a partition's split; Flink's."""
    return f"{topic}-{partition}"


def _of_consumers(key: str) -> bool:
    return key.startswith(("fetch.", "queued.", "max.partition.fetch.")) or key in ("isolation.level", "group.id", "check.crcs")


def _milliseconds(properties: Mapping[str, str], key: str, default: int) -> int:
    value = properties.get(key, str(default))
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(f"{WHO}: {key} = {value!r}: expected a whole number of milliseconds") from None


def _boolean(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    value = properties.get(key)
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise ConfigurationError(f"{WHO}: {key} = {value!r}: expected true or false")
    return value.lower() == "true"
