"""Finds partitions, their start and stop offsets and their current ends, and commits offsets to the group; on the driver.

The ends that the brokers last gave are the limits of the readers, so an epoch that runs again reads the same messages. They are
requested in the background, at short intervals while messages arrive and at longer ones while none do.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from flinkish.common.clock import Clock
from flinkish.common.errors import SourceError
from flinkish.datastream.connectors.kafka.brokers import Brokers, PassingError
from flinkish.datastream.connectors.kafka.client import Partition
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetsInitializer
from flinkish.datastream.connectors.kafka.reader import lost_messages
from flinkish.datastream.connectors.kafka.settings import (
    KafkaEnumeratorState,
    KafkaPartitionSplit,
    KafkaSourceSettings,
    split_id,
)
from flinkish.program.sources import SplitEnumerator, SplitEnumeratorContext

_log = logging.getLogger("flinkish.kafka")


class KafkaEnumerator(SplitEnumerator[KafkaPartitionSplit, KafkaEnumeratorState]):
    """See the module."""

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        settings: KafkaSourceSettings,
        restored: KafkaEnumeratorState,
        clock: Clock,
    ) -> None:
        self._context = context
        self._settings = settings
        self._brokers = Brokers(settings, clock, restored.topic_ids)
        self._known: dict[str, None] = dict.fromkeys(restored.known)
        self._discovered = restored.discovered
        self._pending = list(restored.pending)
        #: Stop offsets of the partitions that are being read; None = no stop.
        self._reading: dict[Partition, int | None] = {}
        self._limits: dict[str, int] = {}
        #: Stop offsets of finished partitions that are not yet committed to the group.
        self._stops: dict[Partition, int] = {}
        #: Positions at checkpoints that are not complete yet.
        self._positions: dict[int, dict[Partition, int]] = {}

    def start(self) -> None:
        restored, self._pending = self._pending, []
        self._assign(restored)
        # As in Flink, also a source that does not look for new partitions does so at each start: its topics may have changed.
        self._context.call_async(self._discover, self._take, period=self._settings.discovery_interval)
        if restored:
            self._watch()

    def add_splits_back(self, splits: Sequence[KafkaPartitionSplit], subtask: int) -> None:
        self._pending.extend(splits)
        self._known.update(dict.fromkeys(split.split_id for split in splits))

    def handle_split_request(self, subtask: int) -> None:
        """Partitions are assigned when they are found, each to the reader that its name leads to."""

    def _discover(self) -> tuple[list[KafkaPartitionSplit], Mapping[Partition, int]]:
        """Return new splits, and the ends of their partitions, so that the first epoch has something to read."""
        new = [pair for pair in self._brokers.partitions() if split_id(*pair) not in self._known]
        # All messages of a partition that was added while the job runs are new.
        start = KafkaOffsetsInitializer.earliest() if self._discovered else self._settings.start
        starts = self._brokers.offsets(new, start, "the starting offset")
        stops: Mapping[Partition, int | None] = dict.fromkeys(new)
        if self._settings.stop is not None:
            stops = self._brokers.offsets(new, self._settings.stop, "the stopping offset")
        splits = [
            KafkaPartitionSplit(split_id=split_id(*pair), topic=pair[0], partition=pair[1], offset=starts[pair], stop=stops[pair])
            for pair in new
        ]
        return splits, self._brokers.moved(new) if new else {}

    def _take(self, found: tuple[list[KafkaPartitionSplit], Mapping[Partition, int]] | None, error: BaseException | None) -> None:
        if isinstance(error, PassingError):
            if not self._discovered:
                raise SourceError(str(error)) from None
            _log.warning("%s", error)
            if self._settings.discovery_interval is None:
                self._context.call_async(self._discover, self._take)
            return
        if error is not None:
            raise error
        assert found is not None
        splits, ends = found
        self._assign(split for split in splits if split.split_id not in self._known)
        self._discovered = True
        if self._settings.discovery_interval is None:
            for subtask in range(self._context.parallelism):
                self._context.signal_no_more_splits(subtask)
        if splits:
            self._learn(ends)
            self._watch()

    def _assign(self, splits: Iterable[KafkaPartitionSplit]) -> None:
        for split in splits:
            self._known[split.split_id] = None
            self._reading[split.pair] = split.stop
            if split.stop is not None:
                self._stops[split.pair] = split.stop
            # Neighbours go to different readers, as in Flink.
            reader = (zlib.crc32(split.topic.encode()) + split.partition) % self._context.parallelism
            self._context.assign_split(split, reader)

    def _watch(self) -> None:
        """Request the ends of the partitions that are being read, repeatedly; this replaces the partitions of the last call."""
        self._brokers.watched = reading = dict(self._reading)
        if reading:
            self._look(reading)

    def _look(self, reading: Mapping[Partition, int | None]) -> None:
        self._context.call_async(lambda: self._brokers.look(reading), partial(self._looked, reading))

    def _looked(
        self, reading: Mapping[Partition, int | None], ends: Mapping[Partition, int] | None, error: BaseException | None
    ) -> None:
        if error is not None:
            raise error
        if ends:
            self._learn(ends)
            if self._reading != self._brokers.watched:
                self._watch()
        if reading is self._brokers.watched:
            self._look(reading)

    def _learn(self, ends: Mapping[Partition, int]) -> None:
        """Let the readers read up to the ends; stop requesting those of partitions that have reached their stop offsets."""
        self._limits.update((split_id(*pair), end) for pair, end in ends.items())
        for split in self._context.assigned_splits():
            assert isinstance(split, KafkaPartitionSplit)
            end = ends.get(split.pair)
            if end is not None and split.offset > end and split.offset != split.stop:
                raise lost_messages(split.split_id, split.offset, 0, end)
        for pair, stop in list(self._reading.items()):
            if stop is not None and self._limits.get(split_id(*pair), -1) >= stop:
                del self._reading[pair]

    def split_limits(self) -> Mapping[str, int]:
        return self._limits

    def snapshot_state(self, checkpoint_id: int) -> KafkaEnumeratorState:
        if self._settings.commits_offsets:
            splits = self._context.assigned_splits()
            positions = {split.pair: split.offset for split in splits if isinstance(split, KafkaPartitionSplit)}
            # Partitions that were read to their stop offsets are no longer assigned.
            self._positions[checkpoint_id] = {**self._stops, **positions}
            self._stops = {pair: stop for pair, stop in self._stops.items() if pair in positions}
        return KafkaEnumeratorState(
            known=tuple(self._known),
            pending=tuple(self._pending),
            discovered=self._discovered,
            topic_ids=dict(self._brokers.topic_ids),
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        complete = [self._positions.pop(each) for each in sorted(self._positions) if each <= checkpoint_id]
        positions = {pair: offset for each in complete for pair, offset in each.items()}
        if positions:
            self._brokers.commit(positions)

    def close(self) -> None:
        self._brokers.close()
