"""Partitions, and the rules for the offsets at which reading starts and stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flinkish.common.arguments import instance_of, int_of, text_of


@dataclass(frozen=True, slots=True, order=True)
class KafkaTopicPartition:
    """A partition of a topic.

    >>> KafkaTopicPartition("flights", 0)
    KafkaTopicPartition(topic='flights', partition=0)
    """

    topic: str
    partition: int

    def __post_init__(self) -> None:
        text_of("the topic of a KafkaTopicPartition", self.topic)
        int_of("the partition of a KafkaTopicPartition", self.partition, minimum=0)


class KafkaOffsetResetStrategy(Enum):
    """The offset to use if the requested one does not exist: the end, the beginning, or none, which is an error."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2

    def __repr__(self) -> str:
        return str(self)


class OffsetKind(Enum):
    """The kinds of a KafkaOffsetsInitializer."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed_offsets"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class KafkaOffsetsInitializer:
    """Sets the offsets at which partitions start or stop; create one with the static methods.

    >>> KafkaOffsetsInitializer.offsets({KafkaTopicPartition("flights", 0): 42})
    KafkaOffsetsInitializer.offsets
    """

    kind: OffsetKind
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    #: Milliseconds since 1970, for TIMESTAMP.
    time: int = -1
    #: Topic, partition and offset, for OFFSETS.
    given: tuple[tuple[str, int, int], ...] = ()

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start at the committed offsets of the consumer group.

        `offset_reset_strategy` decides for partitions without a committed offset, or whose offset no longer exists.
        """
        instance_of("offset_reset_strategy of committed_offsets()", offset_reset_strategy, KafkaOffsetResetStrategy)
        return KafkaOffsetsInitializer(OffsetKind.COMMITTED, offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Start at the first message with at least this timestamp (milliseconds since 1970); at the end if there is none."""
        return KafkaOffsetsInitializer(OffsetKind.TIMESTAMP, time=int_of("timestamp()", timestamp, minimum=0))

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Start at the earliest message."""
        return KafkaOffsetsInitializer(OffsetKind.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Start after the latest message at the job's start; as a stop: that message is the last one."""
        return KafkaOffsetsInitializer(OffsetKind.LATEST)

    @staticmethod
    def offsets(
        offsets: dict[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Start at given offsets.

        Partitions that are not in `offsets` start at the group's committed offset, if there is a group. `offset_reset_strategy`
        decides for the others, and for offsets that do not exist.
        """
        instance_of("offset_reset_strategy of offsets()", offset_reset_strategy, KafkaOffsetResetStrategy)
        given = []
        for partition, offset in instance_of("offsets()", offsets, dict).items():
            instance_of("a key of offsets()", partition, KafkaTopicPartition)
            given.append((partition.topic, partition.partition, int_of(f"the offset of {partition!r}", offset, minimum=0)))
        return KafkaOffsetsInitializer(OffsetKind.OFFSETS, offset_reset_strategy, given=tuple(sorted(given)))

    def __repr__(self) -> str:
        return f"KafkaOffsetsInitializer.{self.kind.value}"
