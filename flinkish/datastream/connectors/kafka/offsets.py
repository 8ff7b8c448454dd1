"""Partitions, and the rules for the offsets at which reading starts and stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from flinkish.common.arguments import instance_of, int_of
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.limits import LONG_MAX


class KafkaTopicPartition:
    """A partition of a topic.

    >>> KafkaTopicPartition("flights", 0) == KafkaTopicPartition("flights", 0)
    True
    """

    __slots__ = ("_partition", "_topic")

    def __init__(self, topic: str, partition: int) -> None:
        if not isinstance(topic, str) or not topic:
            raise InvalidArgumentError(f"the topic of a KafkaTopicPartition must be text; got {topic!r}")
        int_of("the partition of a KafkaTopicPartition", partition, minimum=0)
        self._topic = topic
        self._partition = partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTopicPartition) and (self._topic, self._partition) == (other._topic, other._partition)

    def __hash__(self) -> int:
        return hash((self._topic, self._partition))

    def __repr__(self) -> str:
        return f"KafkaTopicPartition({self._topic!r}, {self._partition})"

    def _pair(self) -> tuple[str, int]:
        return self._topic, self._partition


class KafkaOffsetResetStrategy(Enum):
    """The offset to use if the requested one does not exist: the end, the beginning, or none, which is an error."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2

    def __repr__(self) -> str:
        return str(self)


class OffsetKind(Enum):
    """The rules of KafkaOffsetsInitializer."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed_offsets"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class OffsetRule:
    """The rule of a KafkaOffsetsInitializer, with its parameters."""

    kind: OffsetKind
    reset: KafkaOffsetResetStrategy
    timestamp: int = -1
    offsets: tuple[tuple[str, int, int], ...] = ()


_NO_RESET: Final = KafkaOffsetResetStrategy.NONE


class KafkaOffsetsInitializer:
    """Sets the offsets at which partitions start or stop; create one with the static methods.

    >>> KafkaOffsetsInitializer.offsets({KafkaTopicPartition("flights", 0): 42})
    KafkaOffsetsInitializer.offsets
    """

    def __init__(self, rule: OffsetRule) -> None:
        if not isinstance(rule, OffsetRule):
            raise InvalidArgumentError(
                f"a KafkaOffsetsInitializer is made by its static methods; got {rule!r}",
                hint="KafkaOffsetsInitializer.earliest(), latest(), committed_offsets(), offsets({...}) or timestamp(ms).",
            )
        self._rule = rule

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start at the committed offsets of the consumer group.

        `offset_reset_strategy` decides for partitions without a committed offset, or whose offset no longer exists.
        """
        return KafkaOffsetsInitializer(OffsetRule(OffsetKind.COMMITTED, _strategy(offset_reset_strategy, "committed_offsets")))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Start at the first message with at least this timestamp (milliseconds since 1970); at the end if there is none."""
        _integer(timestamp, "timestamp")
        return KafkaOffsetsInitializer(OffsetRule(OffsetKind.TIMESTAMP, _NO_RESET, timestamp=timestamp))

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Start at the earliest message."""
        return KafkaOffsetsInitializer(OffsetRule(OffsetKind.EARLIEST, KafkaOffsetResetStrategy.EARLIEST))

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Start after the latest message at the job's start; as a stop: that message is the last one."""
        return KafkaOffsetsInitializer(OffsetRule(OffsetKind.LATEST, KafkaOffsetResetStrategy.LATEST))

    @staticmethod
    def offsets(
        offsets: dict[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Start at given offsets.

        Partitions that are not in `offsets` start at the group's committed offset, if there is a group. `offset_reset_strategy`
        decides for the others, and for offsets that do not exist.
        """
        if not isinstance(offsets, Mapping):
            raise InvalidArgumentError(f"offsets() takes a dict from KafkaTopicPartition to offset; got {offsets!r}")
        found = []
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition):
                raise InvalidArgumentError(
                    f"offsets() takes a dict from KafkaTopicPartition to offset; got the key {partition!r}"
                )
            _integer(offset, f"the offset of {partition!r}")
            found.append((*partition._pair(), offset))
        strategy = _strategy(offset_reset_strategy, "offsets")
        return KafkaOffsetsInitializer(OffsetRule(OffsetKind.OFFSETS, strategy, offsets=tuple(sorted(found))))

    def __repr__(self) -> str:
        return f"KafkaOffsetsInitializer.{self._rule.kind.value}"


def rule_of(initializer: Any, method: str) -> OffsetRule:
    """Return the rule of an initializer; raises InvalidArgumentError for other objects."""
    hint = "for example KafkaOffsetsInitializer.earliest()."
    return instance_of(method, initializer, KafkaOffsetsInitializer, hint=hint)._rule


def _strategy(value: Any, method: str) -> KafkaOffsetResetStrategy:
    return instance_of(f"offset_reset_strategy of {method}()", value, KafkaOffsetResetStrategy)


def _integer(value: Any, what: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONG_MAX:
        raise InvalidArgumentError(f"{what} must be an int of at least 0; got {value!r}")
