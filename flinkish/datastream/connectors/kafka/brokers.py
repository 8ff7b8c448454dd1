"""The requests of a source's enumerator to the brokers: for partitions, offsets and ends; and its commits to the group."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from flinkish.common.clock import Clock
from flinkish.common.errors import SourceError
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.client import Partition
from flinkish.datastream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, OffsetKind
from flinkish.datastream.connectors.kafka.settings import SOURCE, KafkaSourceSettings, split_id

_log = logging.getLogger("flinkish.kafka")

#: Milliseconds between two requests for the ends; doubled while no end moves. A request takes 1-2 ms.
_SHORTEST_LOOK: Final = 5
_LONGEST_LOOK: Final = 100
#: Milliseconds after which the requesting thread gives way to other work of the source, such as discovery.
_LOOKS: Final = 1_000
#: Milliseconds for which brokers may say that a partition does not exist: a broker that has just started says so briefly.
_GONE_FOR: Final = 5_000
#: Milliseconds between two tries of a request.
_AGAIN: Final = 200
#: Milliseconds between two checks that topics were not replaced. A check takes 1-2 ms.
_SAME_TOPICS: Final = 10_000
#: Milliseconds between two new clients while brokers do not answer.
_RENEW: Final = 1_000
#: Milliseconds to wait at the end for the brokers to take the last offsets of the group.
_LAST_COMMIT: Final = 3_000
#: Milliseconds between two log lines about brokers that do not answer.
_REMIND: Final = 30_000
#: The id that brokers without topic ids return: 16 zero bytes, in Base64.
_NO_ID: Final = "A" * 22


class PassingError(SourceError):
    """Brokers did not answer."""


class Brokers:
    """The brokers as the enumerator sees them; all methods but `commit` and `close` run in the source's background thread."""

    def __init__(self, settings: KafkaSourceSettings, clock: Clock, topic_ids: Mapping[str, str]) -> None:
        self._settings = settings
        self._clock = clock
        self._kafka = client.library()
        self._timeout = settings.timeout / 1000
        self._admin: client.Watched | None = None
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
        #: When each topic was last found to have this id; a topic that is absent is checked at once.
        self._same_topics: dict[str, int] = {}
        self._silent_since: int | None = None
        self._reminded = self._renewed = 0

    def _admin_client(self) -> Any:
        if self._admin is None:
            self._admin = client.Watched("AdminClient", self._settings.admin("enumerator"), SOURCE)
        return self._admin.client

    def _check_access(self) -> None:
        """Raise SourceError if the brokers do not answer because they refuse the client."""
        refusal = None if self._admin is None else self._admin.refusal()
        if refusal is not None:
            raise client.described(SourceError, f"{SOURCE}: the brokers at {self._settings.servers} refuse the client", refusal)

    def _group_client(self) -> Any:
        if self._consumer is None:
            configuration = {**self._settings.consumer("enumerator"), "on_commit": self._note_commit}
            self._consumer = client.make("Consumer", configuration, SOURCE)
        return self._consumer

    def _try_again(self, began: int, what: str, error: Any) -> None:
        """Wait before the next try of a request; raise SourceError if its error does not pass, or has not passed in time."""
        passing, took = client.is_passing(error), self._clock.monotonic() - began
        longest = self._settings.timeout if passing else _GONE_FOR if client.is_gone(error) else 0
        if took >= longest or not self._wait(_AGAIN):
            raise client.described(PassingError if passing else SourceError, f"{SOURCE}: {what}", error)

    def partitions(self) -> list[Partition]:
        """Return the partitions that the source reads, sorted; raises SourceError if a topic does not exist."""
        settings, began = self._settings, self._clock.monotonic()
        while True:
            try:
                topics = self._admin_client().list_topics(timeout=min(self._timeout, 1.0)).topics
                name, error = self._missing(topics)
                what = f"topic {name!r} at {settings.servers} cannot be read"
            except self._kafka.KafkaException as failure:
                self._check_access()
                what, error = f"the topics at {settings.servers} cannot be listed", failure.args[0]
            if error is None:
                break
            self._try_again(began, what, error)
        found = [(name, number) for name, topic in topics.items() for number in topic.partitions if settings.wants(name, number)]
        absent = [split_id(*pair) for pair in settings.partitions if pair not in found]
        if absent:
            raise SourceError(
                f"{SOURCE}: at {settings.servers} there are no partitions {', '.join(absent)}",
                hint="partitions are counted from 0; set_topics() reads all there are.",
            )
        return sorted(found)

    def _missing(self, topics: Mapping[str, Any]) -> tuple[str, Any]:
        """Return a topic that the source should read but cannot, with the error; None = it can read all."""
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
        return "", None

    def offsets(self, pairs: Sequence[Partition], rule: KafkaOffsetsInitializer, what: str) -> dict[Partition, int]:
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
                found = self._list(pairs, spec.for_timestamp(rule.time))
                return {pair: offset if offset >= 0 else high[pair] for pair, offset in found.items()}
        given = {(topic, number): offset for topic, number, offset in rule.given}
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
                        SOURCE, split_id(*pair), what, offset, low[pair], high[pair], result[pair], rule.reset.name,
                    )  # fmt: skip
        return result

    def _no_offset(self, pair: Partition, offset: int | None, low: int, high: int, what: str) -> SourceError:
        if offset is None:
            group = "there is no group" if self._settings.group is None else f"the group {self._settings.group!r} has none"
            return SourceError(
                f"{SOURCE}: {split_id(*pair)}: {what} is to be the committed one, but {group}",
                hint="give a KafkaOffsetResetStrategy, such as committed_offsets(KafkaOffsetResetStrategy.EARLIEST).",
            )
        return SourceError(
            f"{SOURCE}: {split_id(*pair)}: {what} {offset} does not exist; there are {low} to {high}",
            hint="give a KafkaOffsetResetStrategy of EARLIEST or LATEST to begin elsewhere.",
        )

    def _committed(self, pairs: Sequence[Partition]) -> dict[Partition, int]:
        try:
            found = self._group_client().committed([self._kafka.TopicPartition(*pair) for pair in pairs], timeout=self._timeout)
        except self._kafka.KafkaException as error:
            what = f"{SOURCE}: the offsets of the group {self._settings.group!r} cannot be read"
            raise client.described(SourceError, what, error) from None
        for each in found:
            if each.error is not None:
                raise client.described(SourceError, f"{SOURCE}: {each.topic}-{each.partition}: no committed offset", each.error)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _list(self, pairs: Iterable[Partition], spec: Any) -> dict[Partition, int]:
        began = self._clock.monotonic()
        while True:
            offsets, errors = self._listed(pairs, spec)
            if not errors:
                return offsets
            pair, error = min(errors.items(), key=lambda item: client.is_passing(item[1]))
            self._try_again(began, f"{split_id(*pair)}: its offsets cannot be read", error)

    def _listed(self, pairs: Iterable[Partition], spec: Any) -> tuple[dict[Partition, int], dict[Partition, Any]]:
        """Return the offsets of partitions by a spec (confluent_kafka.admin.OffsetSpec), and the errors of the others.

        An offset is -1 if the spec is a time and no message is that late. Readers of committed messages get at most the last
        stable offset.
        """
        kafka, timeout = self._kafka, min(self._timeout, 10.0)
        wanted = {kafka.TopicPartition(*pair): spec for pair in pairs}
        offsets: dict[Partition, int] = {}
        errors: dict[Partition, Any] = {}
        try:
            futures: dict[Any, Future[Any]] = self._admin_client().list_offsets(
                wanted, isolation_level=kafka.IsolationLevel[self._settings.isolation.upper()], request_timeout=timeout
            )
        except kafka.KafkaException as error:
            self._check_access()
            return {}, dict.fromkeys(pairs, error.args[0])
        for partition, future in futures.items():
            pair = partition.topic, partition.partition
            try:
                offset = future.result(timeout + 1).offset
                if offset >= -1:
                    offsets[pair] = offset
                else:  # a broker that is starting answers -1001, without an error
                    errors[pair] = kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE)
            except kafka.KafkaException as error:
                errors[pair] = error.args[0]
        return offsets, errors

    def look(self, reading: Mapping[Partition, int | None]) -> Mapping[Partition, int]:
        """Wait at most about a second until the ends of some partitions have moved, and return these."""
        until = self._clock.monotonic() + _LOOKS
        while self.watched is reading:
            moved = self.moved(reading)
            self._pause = _SHORTEST_LOOK if moved else min(_LONGEST_LOOK, 2 * self._pause)
            if not self._wait(self._pause) or moved or self._clock.monotonic() >= until:
                return moved
        return {}

    def moved(self, pairs: Collection[Partition]) -> dict[Partition, int]:
        """Return the ends of those partitions whose end has changed since they were asked last; those that answer."""
        ends, errors = self._listed(pairs, self._kafka.admin.OffsetSpec.latest())
        self._judge(pairs, errors)
        if errors or any(end < self._ends.get(pair, 0) for pair, end in ends.items()):
            self._same_topics = {}
        # This comes after the request for the ends, so that they belong to the same topics.
        self._check_topics({topic for topic, _ in ends})
        moved = {pair: end for pair, end in ends.items() if self._ends.get(pair) != end}
        self._ends |= moved
        return moved

    def _check_topics(self, topics: set[str]) -> None:
        """Raise SourceError if a topic is not the one whose offsets are known, but another one of the same name."""
        now, timeout = self._clock.monotonic(), min(self._timeout, 10.0)
        topics = {topic for topic in topics if now - self._same_topics.get(topic, now - _SAME_TOPICS) >= _SAME_TOPICS}
        if not topics:
            return
        asked = self._kafka.TopicCollection(list(topics))
        try:
            futures: dict[str, Future[Any]] = self._admin_client().describe_topics(asked, request_timeout=timeout)
            found = {topic: str(future.result(timeout + 1).topic_id) for topic, future in futures.items()}
        except self._kafka.KafkaException as error:
            # The next request shows the reason.
            client.log.debug("The ids of topics are not known: %s", client.text_of(error.args[0]))
            return
        for topic, topic_id in found.items():
            if topic_id != _NO_ID and self.topic_ids.setdefault(topic, topic_id) != topic_id:
                raise SourceError(
                    f"{SOURCE}: topic {topic!r} was deleted and created again: its offsets are not those that were read",
                    hint="start the source under another uid, so that it starts again from its starting offsets.",
                )
        self._same_topics.update(dict.fromkeys(topics, now))

    def _judge(self, asked: Collection[Partition], errors: Mapping[Partition, Any]) -> None:
        """Raise SourceError for an error that is not temporary, and for partitions that no longer exist."""
        now = self._clock.monotonic()
        for pair, error in errors.items():
            if client.is_gone(error):
                self._gone_since.setdefault(pair, now)
            elif not client.is_passing(error):
                raise client.described(SourceError, f"{SOURCE}: {split_id(*pair)}: its end cannot be read", error)
        self._gone_since = {pair: since for pair, since in self._gone_since.items() if pair in errors or pair not in asked}
        gone = [split_id(*pair) for pair, since in self._gone_since.items() if now - since >= _GONE_FOR]
        if gone:
            raise SourceError(
                f"{SOURCE}: the brokers know nothing of {', '.join(gone)} any more",
                hint="was the topic deleted? Start the source under another uid, or without that topic.",
            )
        if not errors:
            self._silent_since = None
            return
        self._check_access()
        if now - self._renewed >= _RENEW:
            # After a restart of a broker, librdkafka 2.16 keeps asking with the old leader epoch: FENCED_LEADER_EPOCH.
            self._admin, self._renewed = None, now
        if self._silent_since is None:
            self._silent_since = self._reminded = now
        elif now - self._reminded >= _REMIND:
            self._reminded = now
            text, silent = client.text_of(next(iter(errors.values()))), (now - self._silent_since) // 1000
            _log.warning("%s: the brokers have not said for %d s how far the partitions go: %s", SOURCE, silent, text)

    def _wait(self, milliseconds: int) -> bool:
        """Wait; return False if the source was closed."""
        with self._closed:
            if not self._is_closed:
                self._clock.wait(self._closed, milliseconds)
            return not self._is_closed

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
            self._note_commit(error.args[0], None)

    def _note_commit(self, error: Any, partitions: Any) -> None:
        self._committing = False
        if error is not None:
            _log.warning("%s: offsets were not committed: %s", SOURCE, client.text_of(error))

    def close(self) -> None:
        """Wait a few seconds for the last commit and stop; open requests are left to end by themselves."""
        with self._closed:
            self._is_closed = True
            self._closed.notify_all()
        self.watched = {}
        if self._consumer is None:
            return
        deadline = self._clock.monotonic() + _LAST_COMMIT
        while (self._uncommitted or self._committing) and self._clock.monotonic() < deadline:
            self._send_commit()
            if self._committing:
                self._consumer.poll(0.01)
        self._consumer.close()
        self._consumer = None
