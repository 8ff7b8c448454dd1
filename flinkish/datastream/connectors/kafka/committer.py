"""The committer of KafkaSink: writes a completed checkpoint's messages, and the checkpoint's id, in one transaction.

The transaction commits an offset of a consumer group of its own (KafkaSinkSettings.application), whose metadata holds the
checkpoint's id. So the brokers know after any crash whether a checkpoint was written, and a repeated commit is recognized. A new
committer initializes the same transactional id. This aborts the open transaction and fences the committers of earlier attempts:
the brokers refuse whatever they still send.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, Final

import msgspec

from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, RecordRefusedError, SinkError, TargetRefusedError
from flinkish.common.files.schemes import root_of
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.limits import TopicLimits, ask
from flinkish.datastream.connectors.kafka.sink_settings import WHO, KafkaCommittable, KafkaSinkSettings, Message, digest_of
from flinkish.datastream.connectors.kafka.staging import Staging, read, remove_staged
from flinkish.datastream.connectors.kafka.writers import produce
from flinkish.program.refused_records import RefusedRecord
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT, CommitRequest, Committer, RestoredCheckpoint, checkpoint_name

_log = logging.getLogger("flinkish.kafka")

#: Timeout in seconds of requests whose duration does not depend on the amount of data, and of a single try.
_TIMEOUT: Final = 60.0
_RETRY: Final = 10.0
#: Milliseconds between two log lines about brokers that do not answer.
_REMIND: Final = 10_000
#: Milliseconds after which the offset is committed again although nothing was written: brokers forget it after a week.
_REFRESH: Final = 3_600_000
#: Milliseconds after which the brokers may have forgotten it (offsets.retention.minutes is 7 days by default).
_FORGOTTEN: Final = 86_400_000
#: Messages between two checks of the producer's delivery reports.
_LOOK_EVERY: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitterState:
    """The state that a committer passes from one attempt to the next."""

    #: Applications (see KafkaSinkSettings.application) of the lineages that the job was restored from and whose markers it has
    #: not moved yet; see `commit`.
    origins: tuple[str, ...]


class _Marker(msgspec.Struct, kw_only=True):
    """The metadata of the committed offset."""

    checkpoint: int
    #: Digest of the written messages, because two jobs may continue from copies of one checkpoint.
    digest: str


class KafkaCommitter(Committer[KafkaCommittable]):
    """See the module."""

    def __init__(self, settings: KafkaSinkSettings, configuration: Configuration, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._kafka = client.library()
        self._producer: Any = None
        self._error: Any = None
        #: Limits of the topic, if there is only one.
        self._limits: TopicLimits | None = None
        self._origins: tuple[str, ...] = ()
        self._restored = False
        #: The checkpoint that was last written, by application.
        self._markers: dict[str, _Marker | None] = {}
        #: The last commit: application, topic, marker, and its time in milliseconds.
        self._last: tuple[str, str, _Marker, int] | None = None

    def snapshot_state(self) -> bytes:
        return msgspec.msgpack.encode(_CommitterState(origins=self._origins))

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        # This comes first, so that transactions of an earlier attempt are over when the markers are read.
        self._begin(checkpoint.sink_uid)
        self._restored = True
        application = self._settings.application(checkpoint.lineage, checkpoint.sink_uid)
        if checkpoint.state is not None:
            self._origins = msgspec.msgpack.decode(checkpoint.state, type=_CommitterState).origins
        if not checkpoint.own and application not in self._origins:
            self._origins = (*self._origins, application)
        marker = self._marker(application)
        ours = self._marker(self._settings.application(checkpoint.job_lineage, checkpoint.sink_uid))
        if marker is not None and marker.checkpoint > checkpoint.checkpoint_id and (checkpoint.own or ours is None):
            raise ForeignCheckpointError(
                f"{WHO}: Kafka is ahead of checkpoint {checkpoint.checkpoint_id}, which the job starts from: the messages of "
                f"{checkpoint_name(marker.checkpoint)} are written already, so those in between would be written a second time",
                hint="start from the newest checkpoint, or, to write them a second time on purpose, give the sink another uid "
                "with execution.state-recovery.ignore-unclaimed-state.",
            )

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[KafkaCommittable]]) -> None:
        if not requests:
            self._refresh()
            return
        lineage, uid = requests[0].lineage, requests[0].sink_uid
        application = self._settings.application(lineage, uid)
        digest = _digest(requests)
        self._begin(uid)
        marker = self._marker(application) or self._noted(requests, lineage, uid)
        if self._restored and (marker is None or marker.checkpoint < checkpoint_id):
            marker = self._beside(requests, application) or marker
        if marker is not None and marker.checkpoint >= checkpoint_id:
            self._check_same(marker, checkpoint_id, digest, application)
        else:
            if marker is None and self._restored:
                self._check_age(checkpoint_id, requests)
            topic = next((message[0] for message in _messages(requests)), "")
            marker = _Marker(checkpoint=checkpoint_id, digest=digest)
            try:
                self._write(marker, requests, topic, application)
            except TargetRefusedError:
                self._write_without_refused(marker, requests, topic, application)
        if application not in self._origins:
            self._origins = ()
        self._clean(checkpoint_id, requests, lineage, uid)

    # -- what was written ----------------------------------------------------------------------------------------------------

    def _marker(self, application: str) -> _Marker | None:
        """Return the last checkpoint that the brokers know; requested only once, as this is the only committer from then on."""
        if application not in self._markers:
            self._markers[application] = self._ask(application)
        return self._markers[application]

    def _beside(self, requests: Sequence[CommitRequest[KafkaCommittable]], application: str) -> _Marker | None:
        """Return the marker on the topic that the marker of these messages is written to.

        `_ask` without topics depends on the list of topics of a broker, which lacks some while the broker starts.
        """
        topic = next((message[0] for message in _messages(requests)), None)
        return None if topic is None else self._ask(application, [topic])

    def _ask(self, application: str, topics: Sequence[str] | None = None) -> _Marker | None:
        reader = client.GroupReader(self._settings.admin("committer"), application, WHO)
        deadline = self._clock.monotonic() + _TIMEOUT * 1000
        try:
            while True:
                try:
                    found = reader.committed(_RETRY, topics)
                    break
                except self._kafka.KafkaException as error:
                    refused = reader.refusal()
                    if refused is not None or not client.is_passing(error.args[0]) or self._clock.monotonic() > deadline:
                        what = f"{WHO}: the offsets of the group {application!r}, which say what was written, cannot be read"
                        raise client.described(SinkError, what, refused or error) from None
        finally:
            reader.client.close()
        markers = [msgspec.json.decode(each.metadata, type=_Marker) for each in found if each.metadata]
        return max(markers, key=lambda marker: marker.checkpoint, default=None)

    def _noted(self, requests: Sequence[CommitRequest[KafkaCommittable]], lineage: str, uid: str) -> _Marker | None:
        """Return the marker that is stored with the checkpoints, for the case that the brokers have forgotten theirs."""
        if not self._restored:
            return None
        notes = [Staging(root, digest_of(lineage, uid)).noted() for root in _roots(requests)]
        found = [note for note in notes if note is not None]
        return _Marker(checkpoint=max(found), digest="") if found else None

    def _check_same(self, marker: _Marker, checkpoint_id: int, digest: str, application: str) -> None:
        if marker.checkpoint > checkpoint_id:
            if application in self._origins:
                return  # this job moved it, see _write
            raise SinkError(
                f"{WHO} cannot write {checkpoint_name(checkpoint_id)}: {checkpoint_name(marker.checkpoint)} is written already",
                hint="another driver process runs the same job, or a copy of its checkpoint folder; stop all but one.",
            )
        # At the end of the input of a job without checkpoints, the marker may come from an earlier attempt of this job.
        if checkpoint_id != END_OF_INPUT_CHECKPOINT and marker.digest not in ("", digest):
            raise SinkError(
                f"{WHO} cannot write {checkpoint_name(checkpoint_id)}: another job has written other messages under the same id",
                hint="it continues from a copy of this job's checkpoint folder; let one of them start from a savepoint instead.",
            )

    def _check_age(self, checkpoint_id: int, requests: Sequence[CommitRequest[KafkaCommittable]]) -> None:
        """Raise SinkError if the brokers may have forgotten that these messages were written."""
        age = self._clock.wall_time() - min(request.committable.prepared for request in requests)
        if age > _FORGOTTEN:
            raise SinkError(
                f"{WHO}: it is not known whether the messages of {checkpoint_name(checkpoint_id)} were written: they were "
                f"prepared {age // 3_600_000} hours ago, and the brokers do not remember a commit (offsets.retention.minutes)",
                hint="look at the topic. If they are there, start with another uid for the sink and "
                "execution.state-recovery.ignore-unclaimed-state.",
            )

    # -- writing -------------------------------------------------------------------------------------------------------------

    def _begin(self, uid: str, *, alone: bool = False) -> None:
        """Make the producer; from then on, committers of earlier attempts cannot write.

        `alone`: it sends each message in a batch of its own, because brokers take or refuse whole batches.
        """
        if self._producer is not None:
            return
        topic = self._settings.serializer._topic
        if topic is not None and self._limits is None:
            self._limits = ask(self._settings, topic)
        name = self._settings.transactional_id(uid)
        configuration = self._settings.transactional("committer", name)
        configuration |= {"on_delivery": self._report, "delivery.report.only.error": True}
        if self._limits is not None and self._limits.batch_bytes is not None:
            # A larger batch is refused, even if each of its messages would be taken.
            configuration["batch.size"] = str(min(self._limits.batch_bytes, self._settings.batch_size))
        if alone:
            configuration["batch.num.messages"] = "1"
        producer = client.make_producer(configuration, WHO)
        self._retrying("its transactions cannot be used", lambda: producer.init_transactions(_RETRY))
        self._producer = producer

    def _report(self, error: Any, message: Any) -> None:
        if error is not None and self._error is None and error.name() not in ("_PURGE_QUEUE", "_PURGE_INFLIGHT"):
            self._error = (error, message.topic())

    def _write_without_refused(
        self, marker: _Marker, requests: Sequence[CommitRequest[KafkaCommittable]], topic: str, application: str
    ) -> None:
        """Put the messages aside that the brokers refuse, and write the others.

        A refusal ends its transaction, so there is one transaction for each few refused messages, until one succeeds.
        """
        refused: dict[int, str] = {}
        while True:
            known = len(refused)
            self._begin(requests[0].sink_uid, alone=True)
            try:
                self._write(marker, requests, topic, application, refused)
            except TargetRefusedError:
                if len(refused) > known:
                    continue
                raise
            finally:
                self._producer = None  # the next commit sends batches again
            return

    def _put_aside(
        self, checkpoint_id: int, requests: Sequence[CommitRequest[KafkaCommittable]], refused: dict[int, str]
    ) -> None:
        while self._error is None and self._producer.flush(_RETRY):
            pass  # which messages are refused must be known first
        if self._error is not None or not refused:
            return
        records = [
            RefusedRecord(
                reason=refused[index],
                subtask=request.subtask_index,
                raw=value,
                topic=topic,
                key=key,
                headers=None if headers is None else tuple(headers),
                timestamp=time if time >= 0 else None,
            )
            for index, (request, (topic, _, key, value, time, headers)) in enumerate(_messages_of(requests))
            if index in refused
        ]
        self.refused_records.put_aside(checkpoint_id, requests, records)

    def _note_refusal(self, refused: dict[int, str], index: int, error: Any, message: Any) -> None:
        if error is not None and client.is_refusal(error):
            refused[index] = client.text_of(error)
        self._report(error, message)

    def _write(
        self,
        marker: _Marker,
        requests: Sequence[CommitRequest[KafkaCommittable]],
        topic: str,
        application: str,
        refused: dict[int, str] | None = None,
    ) -> None:
        """Write messages and the marker, which `topic` carries; without a topic there is nothing to write.

        `refused`: the messages to put aside, by their number, with the reason; refusals of others are noted there. None: the
        messages travel in batches, in which a refusal says nothing about single messages.
        """
        producer, kafka, self._error = self._producer, self._kafka, None
        # A job that was started from another job's savepoint also moves that job's marker: a second start from the savepoint
        # then finds a marker that is ahead of it.
        origins = () if application in self._origins else self._origins
        try:
            producer.begin_transaction()
            for index, (_, message) in enumerate(_messages_of(requests)):
                if refused is None:
                    produce(producer, message, kafka)
                elif index not in refused:
                    try:
                        produce(producer, message, kafka, partial(self._note_refusal, refused, index))
                    except RecordRefusedError as error:
                        refused[index] = str(error)
                if index % _LOOK_EVERY == 0:
                    producer.poll(0)
                    if self._error is not None:
                        break
            if refused is not None:
                self._put_aside(marker.checkpoint, requests, refused)
            if self._error is None and topic:
                for name in (application, *origins):
                    self._send_marker(name, topic, marker)
                self._retrying("the transaction was not committed", lambda: producer.commit_transaction(_RETRY), writing=True)
        except BaseException as error:
            self._abort()
            if isinstance(error, kafka.KafkaException):
                # If a message was not written, that is the reason why the transaction failed.
                cause = error if self._error is None else self._error[0]
                raise self._described(marker.checkpoint, cause) from None
            raise
        if self._error is not None:
            self._abort()
            raise self._described(marker.checkpoint, self._error[0])
        for name in (application, *origins):
            self._markers[name] = marker
        self._last = (application, topic, marker, self._clock.monotonic())

    def _send_marker(self, application: str, topic: str, marker: _Marker) -> None:
        kafka = self._kafka
        configuration = {**self._settings.admin("committer"), "group.id": application}
        consumer = client.make_consumer(configuration, WHO)
        try:
            group = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        offset = kafka.TopicPartition(topic, 0, 0, msgspec.json.encode(marker).decode())
        what = "what was written cannot be noted"
        self._retrying(what, lambda: self._producer.send_offsets_to_transaction([offset], group, _RETRY), writing=True)

    def _retrying(self, what: str, call: Any, *, writing: bool = False) -> None:
        """Repeat a call while its errors are temporary, for at most a minute; with `writing`, the caller handles other errors."""
        kafka = self._kafka
        now = self._clock.monotonic()
        deadline, remind = now + _TIMEOUT * 1000, now + _REMIND
        while True:
            try:
                call()
                return
            except kafka.KafkaException as error:
                inner, now = error.args[0], self._clock.monotonic()
                if inner.retriable() and now < deadline:
                    # The job waits in the meantime, so the log says why.
                    if now >= remind:
                        remind = now + _REMIND
                        _log.warning("%s: %s; it is tried again: %s", WHO, what, client.text_of(inner))
                    continue
                if writing:
                    raise
                raise client.described(SinkError, f"{WHO}: {what}", error) from None

    def _abort(self) -> None:
        """Abort the transaction; if that fails, the next committer aborts it."""
        producer, self._producer = self._producer, None
        self._markers.clear()
        try:
            producer.abort_transaction(_RETRY)
        except self._kafka.KafkaException as error:
            _log.debug("The transaction was not aborted: %s", client.text_of(error.args[0]))

    def _described(self, checkpoint_id: int, error: Any) -> SinkError:
        inner = error.args[0] if isinstance(error, BaseException) else error
        what = f"{WHO}: the messages of {checkpoint_name(checkpoint_id)} were not written"
        if inner.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
            return SinkError(
                f"{what}: another producer uses the transactional id, {client.text_of(inner)}",
                hint="a newer attempt of this job is running, or another job has the same set_transactional_id_prefix(): each "
                "job needs one of its own. It also happens to a transaction that takes longer than transaction.timeout.ms.",
            )
        described = client.described(TargetRefusedError if client.is_refusal(inner) else SinkError, what, inner)
        assert isinstance(described, SinkError)
        return described

    # -- afterwards ----------------------------------------------------------------------------------------------------------

    def _clean(self, checkpoint_id: int, requests: Sequence[CommitRequest[KafkaCommittable]], lineage: str, uid: str) -> None:
        """Store the commit with the checkpoints as well, and remove staged files that are no longer needed."""
        for root in _roots(requests):
            staging = Staging(root, digest_of(lineage, uid))
            staging.note_committed(checkpoint_id)
            if self._restored:
                # No task of this attempt has written anything yet.
                staging.remove_all_but(())
        self._restored = False
        for request in requests:
            for file in request.committable.files:
                assert request.committable.root is not None
                remove_staged(root_of(request.committable.root), file)

    def _refresh(self) -> None:
        """Commit the marker of an idle sink again."""
        self._restored = False
        if self._last is None or self._clock.monotonic() - self._last[3] < _REFRESH:
            return
        application, topic, marker, _ = self._last
        try:
            self._producer.begin_transaction()
            self._send_marker(application, topic, marker)
            self._producer.commit_transaction(_RETRY)
        except self._kafka.KafkaException as error:
            self._abort()
            raise self._described(marker.checkpoint, error) from None
        self._last = (application, topic, marker, self._clock.monotonic())

    def close(self) -> None:
        self._producer = None


def _messages(requests: Sequence[CommitRequest[KafkaCommittable]]) -> Iterator[Message]:
    return (message for _, message in _messages_of(requests))


def _messages_of(
    requests: Sequence[CommitRequest[KafkaCommittable]],
) -> Iterator[tuple[CommitRequest[KafkaCommittable], Message]]:
    decoder = msgspec.msgpack.Decoder(list[Message])
    for request in requests:
        committable = request.committable
        for file in committable.files:
            assert committable.root is not None
            for chunk in read(root_of(committable.root), file):
                yield from ((request, message) for message in decoder.decode(chunk))
        for chunk in committable.chunks:
            yield from ((request, message) for message in decoder.decode(chunk))


def _roots(requests: Sequence[CommitRequest[KafkaCommittable]]) -> list[PurePath]:
    return [root_of(root) for root in {request.committable.root for request in requests} if root is not None]


def _digest(requests: Sequence[CommitRequest[KafkaCommittable]]) -> str:
    """Return a digest of the messages: of the random names of staged files, and of the content of the other messages."""
    digest = hashlib.sha256()
    for request in requests:
        for file in request.committable.files:
            digest.update(file.path.encode())
        for chunk in request.committable.chunks:
            digest.update(chunk)
    return digest.hexdigest()[:32]
