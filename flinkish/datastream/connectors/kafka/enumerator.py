"""Finds partitions, their start and stop offsets and their current ends, and commits offsets to the group; on the driver.

The ends that the brokers last gave are the limits of the readers, so an epoch that runs again reads the same messages. They are
requested in the background, at short intervals while messages arrive and at longer ones while none do.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from flinkish.common.clock import Clock
from flinkish.common.errors import SourceError
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.client import Partition
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetResetStrategy, OffsetKind, OffsetRule
from flinkish.datastream.connectors.kafka.reader import lost_messages
from flinkish.datastream.connectors.kafka.source_settings import (
    WHO,
    KafkaEnumeratorState,
    KafkaPartitionSplit,
    KafkaSourceSettings,
    split_id,
)
from flinkish.program.sources import SplitEnumerator, SplitEnumeratorContext

_log = logging.getLogger("flinkish.kafka")

#: Milliseconds between two requests for the ends; doubled while no end moves. A request takes 1-2 ms.
_SHORTEST_LOOK: Final = 5
_LONGEST_LOOK: Final = 100
#: Milliseconds after which the requesting thread gives way to other work of the source, such as discovery.
_LOOKS: Final = 1_000
#: Milliseconds for which brokers may say that a partition does not exist: a broker that has just started says so briefly.
_GONE_FOR: Final = 5_000
#: Milliseconds between two checks that topics were not replaced. A check takes 1-2 ms.
_SAME_TOPICS: Final = 10_000
#: Milliseconds between two new clients while brokers do not answer.
_RENEW: Final = 1_000
#: Milliseconds to wait at the end for the brokers to take the last offsets of the group.
_LAST_COMMIT: Final = 3_000
#: Milliseconds between two log lines about brokers that do not answer.
_REMIND: Final = 30_000


@dataclass(frozen=True, slots=True)
class _Ends:
    """The answer to a request for ends."""

    offsets: Mapping[Partition, int]
    #: Partitions that have not existed for `_GONE_FOR`, according to the brokers.
    gone: tuple[Partition, ...] = ()


class KafkaEnumerator(SplitEnumerator[KafkaPartitionSplit, KafkaEnumeratorState]):
    """See the module."""

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        settings: KafkaSourceSettings,
        restored: KafkaEnumeratorState | None,
        clock: Clock,
    ) -> None:
        self._context = context
        self._settings = settings
        self._brokers = _Brokers(settings, clock, restored.topic_ids if restored else {})
        self._known: dict[str, None] = dict.fromkeys(restored.known if restored else ())
        self._discovered = restored is not None and restored.discovered
        self._pending = list(restored.pending if restored else ())
        #: Stop offsets of the partitions that are being read; None = no stop.
        self._reading: dict[Partition, int | None] = {}
        self._limits: dict[str, int] = {}
        #: Stop offsets of finished partitions that are not yet committed to the group.
        self._stops: dict[Partition, int] = {}
        #: Positions at checkpoints that are not complete yet.
        self._positions: dict[int, dict[Partition, int]] = {}

    # -- partitions ----------------------------------------------------------------------------------------------------------

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

    def _discover(self) -> list[KafkaPartitionSplit]:
        found = self._brokers.partitions()
        new = [pair for pair in found if split_id(*pair) not in self._known]
        # All messages of a partition that was added while the job runs are new.
        start = OffsetRule(OffsetKind.EARLIEST, KafkaOffsetResetStrategy.EARLIEST) if self._discovered else self._settings.start
        starts = self._brokers.offsets(new, start, "the starting offset")
        stops: Mapping[Partition, int | None] = dict.fromkeys(new)
        if self._settings.stop is not None:
            stops = self._brokers.offsets(new, self._settings.stop, "the stopping offset")
        return [
            KafkaPartitionSplit(split_id=split_id(*pair), topic=pair[0], partition=pair[1], offset=starts[pair], stop=stops[pair])
            for pair in new
        ]

    def _take(self, found: list[KafkaPartitionSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            if self._discovered and isinstance(error, _PassingError):
                _log.warning("%s", error)
                if self._settings.discovery_interval is None:
                    self._context.call_async(self._discover, self._take)
                return
            if isinstance(error, _PassingError):
                raise SourceError(str(error)) from None
            raise error
        self._assign([split for split in found or () if split.split_id not in self._known])
        self._discovered = True
        if self._settings.discovery_interval is None:
            self._all_assigned()
        if found:
            self._watch()

    def _assign(self, splits: Iterable[KafkaPartitionSplit]) -> None:
        for split in splits:
            self._known[split.split_id] = None
            self._reading[split.pair] = split.stop
            if split.stop is not None:
                self._stops[split.pair] = split.stop
            self._context.assign_split(split, self._owner(split))

    def _owner(self, split: KafkaPartitionSplit) -> int:
        # Neighbours go to different readers, as in Flink.
        return (zlib.crc32(split.topic.encode()) + split.partition) % self._context.parallelism

    def _all_assigned(self) -> None:
        for subtask in range(self._context.parallelism):
            self._context.signal_no_more_splits(subtask)

    # -- ends ----------------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Request the ends of the partitions that are being read, repeatedly; this replaces the partitions of the last call."""
        self._brokers.watched = reading = dict(self._reading)
        if reading:
            self._look(reading)

    def _look(self, reading: Mapping[Partition, int | None]) -> None:
        self._context.call_async(lambda: self._brokers.look(reading), partial(self._looked, reading))

    def _looked(self, reading: Mapping[Partition, int | None], ends: _Ends | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        if ends is not None:
            if ends.gone:
                raise SourceError(
                    f"{WHO}: the brokers know nothing of {', '.join(split_id(*pair) for pair in ends.gone)} any more",
                    hint="was the topic deleted? Start the source under another uid, or without that topic.",
                )
            for pair, end in ends.offsets.items():
                self._limits[split_id(*pair)] = end
            self._check_positions(ends.offsets)
            self._drop_ended()
        if reading is self._brokers.watched:
            self._look(reading)

    def _check_positions(self, ends: Mapping[Partition, int]) -> None:
        for split in self._context.assigned_splits():
            assert isinstance(split, KafkaPartitionSplit)
            end = ends.get(split.pair)
            if end is not None and split.offset > end and split.offset != split.stop:
                raise lost_messages(split.split_id, split.offset, 0, end)

    def _drop_ended(self) -> None:
        """Stop requesting the ends of partitions that have reached their stop offsets."""
        for pair, stop in list(self._reading.items()):
            if stop is not None and self._limits.get(split_id(*pair), -1) >= stop:
                del self._reading[pair]
        if self._reading != self._brokers.watched:
            self._watch()

    def split_limits(self) -> Mapping[str, int]:
        return self._limits

    # -- checkpoints ---------------------------------------------------------------------------------------------------------

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


class _PassingError(SourceError):
    """Brokers did not answer."""


class _Brokers:
    """The enumerator's requests to the brokers; all but `commit` and `close` run in the source's background thread."""

    def __init__(self, settings: KafkaSourceSettings, clock: Clock, topic_ids: Mapping[str, str]) -> None:
        self._settings = settings
        self._clock = clock
        self._kafka = client.library()
        self._timeout = settings.timeout / 1000
        self._admin: client.Admin | None = None
        self._consumer: Any = None
        #: Offsets to commit to the group when the current request has been answered.
        self._uncommitted: dict[Partition, int] = {}
        self._committing = False
        self._closed = threading.Condition()
        self._is_closed = False
        #: Partitions of the last request for ends.
        self.watched: Mapping[Partition, int | None] = {}
        self._ends: dict[Partition, int] = {}
        self._pause = _SHORTEST_LOOK
        self._gone_since: dict[Partition, int] = {}
        self.topic_ids = dict(topic_ids)
        #: When the topics were last found to have these ids; None = check at once.
        self._same_topics: int | None = None
        self._silent_since: int | None = None
        self._reminded = self._renewed = 0

    def _admin_client(self) -> Any:
        if self._admin is None:
            self._admin = client.Admin(self._settings.admin("enumerator"), WHO)
        return self._admin.client

    def _check_access(self) -> None:
        """Raise SourceError if the brokers do not answer because they refuse the client."""
        refusal = None if self._admin is None else self._admin.refusal()
        if refusal is not None:
            raise client.described(SourceError, f"{WHO}: the brokers at {self._settings.servers} refuse the client", refusal)

    def _group_client(self) -> Any:
        if self._consumer is None:
            configuration = {**self._settings.consumer("enumerator"), "on_commit": self._note_commit}
            self._consumer = client.make_consumer(configuration, WHO)
        return self._consumer

    def partitions(self) -> list[Partition]:
        """Return the partitions that the source reads, sorted; raises SourceError if a topic does not exist."""
        settings = self._settings
        deadline = self._clock.monotonic() + settings.timeout
        while True:
            try:
                topics = self._admin_client().list_topics(timeout=min(self._timeout, 1.0)).topics
            except self._kafka.KafkaException as error:
                self._check_access()
                if not client.is_passing(error.args[0]) or self._clock.monotonic() > deadline or self._is_closed:
                    kind = _PassingError if client.is_passing(error.args[0]) else SourceError
                    raise client.described(
                        kind, f"{WHO}: the topics at {self._settings.servers} cannot be listed", error
                    ) from None
                continue
            missing = self._missing(topics)
            if missing is None:
                break
            if client.is_gone(missing[1]) and self._clock.monotonic() < deadline - settings.timeout + _GONE_FOR:
                self._wait(200)  # brokers that have just started know no topics for a moment
                continue
            passing = client.is_passing(missing[1])
            if passing and self._clock.monotonic() < deadline and self._wait(200):
                continue
            kind = _PassingError if passing else SourceError
            raise client.described(kind, f"{WHO}: topic {missing[0]!r} at {settings.servers} cannot be read", missing[1])
        found = [(name, number) for name, topic in topics.items() for number in topic.partitions if settings.wants(name, number)]
        absent = [pair for pair in settings.partitions if pair not in found]
        if absent:
            raise SourceError(
                f"{WHO}: at {settings.servers} there are no partitions {', '.join(split_id(*pair) for pair in absent)}",
                hint="partitions are counted from 0; set_topics() reads all there are.",
            )
        return sorted(found)

    def _missing(self, topics: Mapping[str, Any]) -> tuple[str, Any] | None:
        """Return a topic that the source should read but cannot, with the error."""
        for name in (*self._settings.topics, *(topic for topic, _ in self._settings.partitions)):
            if name not in topics:
                return name, self._kafka.KafkaError(self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
            if topics[name].error is not None:
                return name, topics[name].error
        if self._settings.pattern is not None:
            # Such a topic is listed without its partitions, and a bounded source would never look for them again.
            for name, topic in topics.items():
                if topic.error is not None and not client.is_gone(topic.error) and self._settings.wants(name, 0):
                    return name, topic.error
        return None

    def offsets(self, pairs: Sequence[Partition], rule: OffsetRule, what: str) -> dict[Partition, int]:
        """Return the offset of each partition by a rule."""
        if not pairs:
            return {}
        spec = self._kafka.admin.OffsetSpec
        low, high = self._list(pairs, spec.earliest()), self._list(pairs, spec.latest())
        match rule.kind:
            case OffsetKind.EARLIEST:
                return low
            case OffsetKind.LATEST:
                return high
            case OffsetKind.TIMESTAMP:
                found = self._list(pairs, spec.for_timestamp(rule.timestamp))
                return {pair: offset if offset >= 0 else high[pair] for pair, offset in found.items()}
        given = {(topic, number): offset for topic, number, offset in rule.offsets}
        unknown = [pair for pair in pairs if pair not in given]
        if unknown and self._settings.group is not None:
            given.update(self._committed(unknown))
        result = {}
        for pair in pairs:
            offset = given.get(pair)
            if offset is not None and (low[pair] <= offset <= high[pair] or (what != "the starting offset" and offset >= 0)):
                result[pair] = offset
            elif rule.reset is KafkaOffsetResetStrategy.NONE:
                raise self._no_offset(pair, offset, low[pair], high[pair], what)
            else:
                result[pair] = low[pair] if rule.reset is KafkaOffsetResetStrategy.EARLIEST else high[pair]
                if offset is not None:
                    _log.warning(
                        "%s: %s: %s %d does not exist (there are %d to %d); it is %d, by the reset strategy %s.",
                        WHO, split_id(*pair), what, offset, low[pair], high[pair], result[pair], rule.reset.name,
                    )  # fmt: skip
        return result

    def _no_offset(self, pair: Partition, offset: int | None, low: int, high: int, what: str) -> SourceError:
        if offset is None:
            group = "there is no group" if self._settings.group is None else f"the group {self._settings.group!r} has none"
            return SourceError(
                f"{WHO}: {split_id(*pair)}: {what} is to be the committed one, but {group}",
                hint="give a KafkaOffsetResetStrategy, such as committed_offsets(KafkaOffsetResetStrategy.EARLIEST).",
            )
        return SourceError(
            f"{WHO}: {split_id(*pair)}: {what} {offset} does not exist; there are {low} to {high}",
            hint="give a KafkaOffsetResetStrategy of EARLIEST or LATEST to begin elsewhere.",
        )

    def _committed(self, pairs: Sequence[Partition]) -> dict[Partition, int]:
        try:
            found = self._group_client().committed([self._kafka.TopicPartition(*pair) for pair in pairs], timeout=self._timeout)
        except self._kafka.KafkaException as error:
            what = f"{WHO}: the offsets of the group {self._settings.group!r} cannot be read"
            raise client.described(SourceError, what, error) from None
        for each in found:
            if each.error is not None:
                raise client.described(SourceError, f"{WHO}: {each.topic}-{each.partition}: no committed offset", each.error)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _list(self, pairs: Iterable[Partition], spec: Any) -> dict[Partition, int]:
        ends = self._listed(pairs, spec)
        deadline = self._clock.monotonic() + self._settings.timeout
        while ends.errors and all(client.is_passing(error) for error in ends.errors.values()):
            if self._clock.monotonic() > deadline or not self._wait(100):
                break
            ends = self._listed(pairs, spec)
        for pair, error in ends.errors.items():
            kind = _PassingError if client.is_passing(error) else SourceError
            raise client.described(kind, f"{WHO}: {split_id(*pair)}: its offsets cannot be read", error)
        return ends.offsets

    def _listed(self, pairs: Iterable[Partition], spec: Any) -> client.Ends:
        committed = self._settings.isolation == "read_committed"
        try:
            return client.list_offsets(self._admin_client(), pairs, spec, committed=committed, timeout=min(self._timeout, 10.0))
        except self._kafka.KafkaException as error:
            self._check_access()
            return client.Ends({}, dict.fromkeys(pairs, error.args[0]))

    # -- ends, again and again -----------------------------------------------------------------------------------------------

    def look(self, reading: Mapping[Partition, int | None]) -> _Ends | None:
        """Wait at most a second until the ends of some partitions have moved, and return them; None = none has moved."""
        until = self._clock.monotonic() + _LOOKS
        while self.watched is reading:
            seen = self._listed(reading, self._kafka.admin.OffsetSpec.latest())
            gone = self._judge(seen.errors)
            if gone:
                return _Ends({}, gone)
            if seen.errors or any(end < self._ends.get(pair, 0) for pair, end in seen.offsets.items()):
                self._same_topics = None
            # This comes after the request for the ends, so that they belong to the same topics.
            self._check_topics({topic for topic, _ in seen.offsets})
            moved = {pair: end for pair, end in seen.offsets.items() if self._ends.get(pair) != end}
            self._ends.update(moved)
            if moved:
                self._pause = _SHORTEST_LOOK
                self._wait(self._pause)
                return _Ends(moved)
            self._pause = min(_LONGEST_LOOK, 2 * self._pause)
            if self._clock.monotonic() >= until or not self._wait(self._pause):
                return None
        return None

    def _check_topics(self, topics: set[str]) -> None:
        """Raise SourceError if a topic is not the one whose offsets are known, but another one of the same name."""
        now = self._clock.monotonic()
        if not topics or (self._same_topics is not None and now - self._same_topics < _SAME_TOPICS):
            return
        try:
            found = client.topic_ids(self._admin_client(), topics, timeout=min(self._timeout, 10.0))
        except self._kafka.KafkaException as error:
            # The next request shows the reason.
            client.log.debug("The ids of topics are not known: %s", client.text_of(error.args[0]))
            return
        for topic, topic_id in found.items():
            if self.topic_ids.setdefault(topic, topic_id) != topic_id:
                raise SourceError(
                    f"{WHO}: topic {topic!r} was deleted and created again: its offsets are not those that were read",
                    hint="start the source under another uid, so that it starts again from its starting offsets.",
                )
        self._same_topics = now

    def _judge(self, errors: Mapping[Partition, Any]) -> tuple[Partition, ...]:
        """Raise SourceError for an error that is not temporary; return the partitions that no longer exist."""
        now = self._clock.monotonic()
        for pair, error in errors.items():
            if client.is_gone(error):
                self._gone_since.setdefault(pair, now)
            elif not client.is_passing(error):
                raise client.described(SourceError, f"{WHO}: {split_id(*pair)}: its end cannot be read", error)
        self._gone_since = {pair: since for pair, since in self._gone_since.items() if pair in errors}
        if errors:
            self._check_access()
            if now - self._renewed >= _RENEW:
                # After a restart of a broker, librdkafka 2.16 keeps asking with the old leader epoch: FENCED_LEADER_EPOCH.
                self._admin, self._renewed = None, now
        if not errors:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = self._reminded = now
        elif now - self._reminded >= _REMIND:
            self._reminded = now
            _log.warning(
                "%s: the brokers have not said for %d s how far the partitions go: %s",
                WHO,
                (now - self._silent_since) // 1000,
                client.text_of(next(iter(errors.values()))),
            )
        return tuple(pair for pair, since in self._gone_since.items() if now - since >= _GONE_FOR)

    def _wait(self, milliseconds: int) -> bool:
        """Wait; return False if the source was closed."""
        with self._closed:
            if not self._is_closed:
                self._clock.wait(self._closed, milliseconds)
            return not self._is_closed

    # -- the group -----------------------------------------------------------------------------------------------------------

    def commit(self, positions: Mapping[Partition, int]) -> None:
        """Commit offsets to the group without waiting for the answer: they inform others, and recovery does not use them.

        Only one request runs at a time, because the client may repeat one, which would then undo a later one.
        """
        self._uncommitted.update(positions)
        self._send_commit()

    def _send_commit(self) -> None:
        consumer = self._group_client()
        try:
            consumer.poll(0)  # calls _note_commit
            if self._uncommitted and not self._committing:
                offsets = [self._kafka.TopicPartition(*pair, offset) for pair, offset in self._uncommitted.items()]
                self._uncommitted = {}
                self._committing = True
                consumer.commit(offsets=offsets, asynchronous=True)
        except self._kafka.KafkaException as error:
            self._committing = False
            _log.warning("%s: offsets were not committed: %s", WHO, client.text_of(error.args[0]))

    def _note_commit(self, error: Any, partitions: Any) -> None:
        self._committing = False
        if error is not None:
            _log.warning("%s: offsets were not committed: %s", WHO, client.text_of(error))

    def _finish_commits(self) -> None:
        """Wait a few seconds for offsets that are not committed yet."""
        deadline = self._clock.monotonic() + _LAST_COMMIT
        while (self._uncommitted or self._committing) and self._clock.monotonic() < deadline:
            self._send_commit()
            if self._committing:
                self._consumer.poll(0.01)

    def close(self) -> None:
        """Wait for the last commit and stop; open requests are left to end by themselves."""
        with self._closed:
            self._is_closed = True
            self._closed.notify_all()
        self.watched = {}
        if self._consumer is not None:
            self._finish_commits()
            self._consumer.close()
            self._consumer = None
