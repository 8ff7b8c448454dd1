"""The committer of KafkaSink: writes a completed checkpoint's messages, and the checkpoint's id, in one transaction.

The transaction commits an offset of a consumer group of its own (KafkaSinkSettings.application), whose metadata holds the
checkpoint's id. So the brokers know after any crash whether a checkpoint was written, and a repeated commit is recognized. A new
committer initializes the same transactional id. This aborts the open transaction and fences the committers of earlier attempts:
the brokers refuse whatever they still send. Each transaction reads the last id again once its messages are written: brokers that
do not know it have lost the topic, or its last messages.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import PurePath
from typing import Any, Final

import msgspec

from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import FlinkishError, ForeignCheckpointError, SinkError, TargetRefusedError
from flinkish.common.files.schemes import root_of
from flinkish.datastream.connectors._commits import lost_commits
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.limits import ask_retention
from flinkish.datastream.connectors.kafka.settings import SINK, KafkaCommittable, KafkaSinkSettings, Message, digest_of
from flinkish.datastream.connectors.kafka.staging import Staging, read, remove_staged, staging_root
from flinkish.datastream.connectors.kafka.writers import Outbox
from flinkish.program.refused_records import RefusedRecord
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT, CommitRequest, Committer, RestoredCheckpoint, checkpoint_name

Requests = Sequence[CommitRequest[KafkaCommittable]]

_log = logging.getLogger("flinkish.kafka")

#: Timeout in seconds of requests whose duration does not depend on the amount of data, and of a single try.
_TIMEOUT: Final = 60.0
_RETRY: Final = 10.0
#: Timeouts in seconds of one try to commit and to flush. The client sends nothing more once a message was refused, so a longer
#: one would only pass the time.
_COMMIT_RETRY: Final = 1.0
_FLUSH_RETRY: Final = 0.1
#: Timeout in seconds of aborting a transaction, which sometimes never ends after a refused message (librdkafka 2.16).
_ABORT: Final = 1.0
#: Milliseconds between two log lines about brokers that do not answer.
_REMIND: Final = 10_000
#: Milliseconds after which the offset is committed again although nothing was written: brokers forget it after a week.
_REFRESH: Final = 3_600_000
#: Milliseconds after which the brokers may have forgotten it, if they do not tell how long they keep it.
_FORGOTTEN: Final = 86_400_000
#: Messages between two checks of the producer's delivery reports.
_LOOK_EVERY: Final = 10_000


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of the committed offset."""

    checkpoint: int
    #: Digest of the written messages, because two jobs may continue from copies of one checkpoint.
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """A marker that the brokers know, and its place."""

    #: See KafkaSinkSettings.application.
    application: str
    topic: str
    marker: _Marker
    #: When the marker was written, or earlier, in milliseconds since 1970.
    time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitterState:
    """The state that a committer passes from one attempt to the next."""

    #: Applications (see KafkaSinkSettings.application) of the lineages that the job was restored from and whose markers it has
    #: not moved yet; see `commit`.
    origins: tuple[str, ...]
    #: The last commit, and the sink's brokers and prefix at that time; None before the first commit.
    last: _Commit | None
    servers: str
    prefix: str


class KafkaCommitter(Committer[KafkaCommittable]):
    """See the module."""

    def __init__(self, settings: KafkaSinkSettings, configuration: Configuration, clock: Clock) -> None:
        self._settings = settings
        self._configuration = configuration
        self._clock = clock
        self._kafka = client.library()
        self._producer: Outbox | None = None
        #: A larger batch is refused, even if each of its messages would be taken.
        self._batch_size = settings.batch_size
        self._origins: tuple[str, ...] = ()
        self._restored = False
        self._uid = ""
        #: Lineage of the other job from whose savepoint this one was started.
        self._origin: str | None = None
        #: The staged files of the job's earlier attempts, until a new checkpoint is written.
        self._leftovers: list[tuple[PurePath, str]] = []
        #: Clients that read offsets of groups, by application and whether they wait for open transactions.
        self._readers: dict[tuple[str, bool], client.GroupReader] = {}
        #: The commit of the checkpoint that was last written, by application.
        self._markers: dict[str, _Commit | None] = {}
        #: The last commit, which the brokers must know at the next one.
        self._last: _Commit | None = None

    def snapshot_state(self) -> bytes:
        settings = self._settings
        return msgspec.msgpack.encode(
            _CommitterState(origins=self._origins, last=self._last, servers=settings.servers, prefix=settings.prefix)
        )

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        # This comes first, so that transactions of an earlier attempt are over when the markers are read.
        self._uid = checkpoint.sink_uid
        self._begin()
        self._restored = True
        root = staging_root(self._configuration, checkpoint.job_id)
        if root is not None:
            staging = Staging(root, digest_of(checkpoint.job_lineage, self._uid))
            self._leftovers = [(root, path) for path in staging.names()]
        self._origin = None if checkpoint.own else checkpoint.lineage
        application = self._settings.application(checkpoint.lineage, checkpoint.sink_uid)
        if checkpoint.state is not None:
            state = msgspec.msgpack.decode(checkpoint.state, type=_CommitterState)
            self._origins, self._last = state.origins, self._of_this_target(state)
        if not checkpoint.own and application not in self._origins:
            self._origins = (*self._origins, application)
        found = self._marker(application)
        ours = self._marker(self._settings.application(checkpoint.job_lineage, checkpoint.sink_uid))
        if found is not None and found.marker.checkpoint > checkpoint.checkpoint_id and (checkpoint.own or ours is None):
            raise ForeignCheckpointError(
                f"{SINK}: Kafka is ahead of checkpoint {checkpoint.checkpoint_id}, which the job starts from: the messages of "
                f"{checkpoint_name(found.marker.checkpoint)} are written already, so those in between would be written a second "
                "time",
                hint="start from the newest checkpoint, or, to write them a second time on purpose, give the sink another uid "
                "with execution.state-recovery.ignore-unclaimed-state.",
            )
        self._check_last()

    def commit(self, checkpoint_id: int, requests: Requests) -> None:
        if not requests:
            self._restored = False
            last = self._last
            if last is not None and self._clock.wall_time() - last.time >= _REFRESH:
                # The sink is idle: its marker is committed again.
                self._write(last.marker, (), last.topic, last.application)
            return
        lineage, self._uid = requests[0].lineage, requests[0].sink_uid
        application, digest = self._settings.application(lineage, self._uid), _digest(requests)
        self._send_no_more_than(requests)
        self._begin()
        found, topic = self._marker(application), ""
        marker = self._noted(requests, lineage) if found is None else found.marker
        if marker is None or marker.checkpoint < checkpoint_id:
            topic = next(message[0] for _, message in _messages(requests))
            # A broker that has just started does not list all topics.
            beside = self._ask(application, [topic]) if self._restored else None
            if beside is not None:
                found, marker = beside, beside.marker
        if marker is not None and marker.checkpoint >= checkpoint_id:
            self._check_same(marker, checkpoint_id, digest, application)
            if found is not None:
                self._last = replace(found, time=_prepared(requests))
        else:
            if marker is None and self._restored:
                self._check_age(checkpoint_id, requests)
            marker = _Marker(checkpoint=checkpoint_id, digest=digest)
            try:
                self._write(marker, requests, topic, application)
            except TargetRefusedError:
                self._write_without_refused(marker, requests, topic, application)
        if application not in self._origins:
            self._origins = ()
        self._clean(checkpoint_id, requests, lineage)

    def _of_this_target(self, state: _CommitterState) -> _Commit | None:
        """Return the last commit of a state; None if the sink now has another target or prefix, which misses nothing."""
        settings, last = self._settings, state.last
        same = (state.servers, state.prefix) == (settings.servers, settings.prefix)
        topic = settings.serializer.topic
        return last if same and last is not None and (not isinstance(topic, str) or topic == last.topic) else None

    def _check_last(self, *, writing: bool = False) -> None:
        """Raise SinkChangedError if the brokers do not know the last commit, although they cannot have forgotten it.

        `writing`: a transaction is open, which has sent its own marker. The one before is then complete.
        """
        last = self._last
        if last is None:
            return
        found = self._ask(last.application, [last.topic], waits=not writing)
        if found is not None and found.marker.checkpoint >= last.marker.checkpoint:
            self._last = replace(found, time=last.time)  # at a restore, the checkpoint itself may be written
        elif found is not None or not self._may_have_forgotten(last.time):
            raise lost_commits(
                SINK,
                f"topic {last.topic!r} at {self._settings.servers}",
                last=last.marker.checkpoint,
                found=None if found is None else found.marker.checkpoint,
                content="messages",
                advice=f" If only the consumer group {last.application!r} was deleted, no message is lost: give the sink another "
                "prefix (set_transactional_id_prefix), and start the job again.",
            )

    def _may_have_forgotten(self, since: int) -> bool:
        """Return whether the brokers may have dropped a marker that was written at the time `since` or later."""
        retention = ask_retention(self._settings)
        return self._clock.wall_time() - since > (_FORGOTTEN if retention is None else retention)

    def _marker(self, application: str) -> _Commit | None:
        """Return the last checkpoint that the brokers know; requested only once, as this is the only committer from then on."""
        if application not in self._markers:
            self._markers[application] = self._ask(application)
        return self._markers[application]

    def _ask(self, application: str, topics: Sequence[str] | None = None, *, waits: bool = True) -> _Commit | None:
        reader = self._reader(application, waits=waits)
        deadline = self._clock.monotonic() + _TIMEOUT * 1000
        while True:
            try:
                found = reader.committed(_RETRY, topics)
                break
            except self._kafka.KafkaException as error:
                refused = reader.refusal()
                if refused is not None or not client.is_passing(error.args[0]) or self._clock.monotonic() > deadline:
                    what = f"{SINK}: the offsets of the group {application!r}, which say what was written, cannot be read"
                    raise client.described(SinkError, what, refused or error) from None
        commits = [
            _Commit(application=application, topic=each.topic, marker=msgspec.json.decode(each.metadata, type=_Marker))
            for each in found
            if each.metadata
        ]
        return max(commits, key=lambda commit: commit.marker.checkpoint, default=None)

    def _reader(self, application: str, *, waits: bool) -> client.GroupReader:
        key = application, waits
        if key not in self._readers:
            self._readers[key] = client.GroupReader(self._settings.admin("committer"), application, SINK, waits=waits)
        return self._readers[key]

    def _noted(self, requests: Requests, lineage: str) -> _Marker | None:
        """Return the marker that is stored with the checkpoints, for the case that the brokers have forgotten theirs."""
        if not self._restored:
            return None
        notes = [Staging(root, digest_of(lineage, self._uid)).noted(self._settings.servers) for root in _roots(requests)]
        found = [note for note in notes if note is not None]
        return _Marker(checkpoint=max(found), digest="") if found else None

    def _check_same(self, marker: _Marker, checkpoint_id: int, digest: str, application: str) -> None:
        if marker.checkpoint > checkpoint_id:
            if application in self._origins:
                return  # this job moved it, see _write
            # Without a restore, the next one decides: it knows whether this attempt is only a late one.
            kind = ForeignCheckpointError if self._restored else SinkError
            raise kind(
                f"{SINK} cannot write {checkpoint_name(checkpoint_id)}: {checkpoint_name(marker.checkpoint)} is written already",
                hint="another driver process runs the same job, or a copy of its checkpoint folder; stop all but one.",
            )
        # At the end of the input of a job without checkpoints, the marker may come from an earlier attempt of this job.
        if checkpoint_id != END_OF_INPUT_CHECKPOINT and marker.digest not in ("", digest):
            raise ForeignCheckpointError(
                f"{SINK} cannot write {checkpoint_name(checkpoint_id)}: another job has written other messages under the same id",
                hint="it continues from a copy of this job's checkpoint folder; let one of them start from a savepoint instead.",
            )

    def _check_age(self, checkpoint_id: int, requests: Requests) -> None:
        """Raise ForeignCheckpointError if the brokers may have forgotten that these messages were written."""
        prepared = _prepared(requests)
        if self._may_have_forgotten(prepared):
            age = self._clock.wall_time() - prepared
            raise ForeignCheckpointError(
                f"{SINK}: it is not known whether the messages of {checkpoint_name(checkpoint_id)} were written: they were "
                f"prepared {age // 3_600_000} hours ago, and the brokers do not remember a commit (offsets.retention.minutes)",
                hint="look at the topic. If they are there, start with another uid for the sink and "
                "execution.state-recovery.ignore-unclaimed-state.",
            )

    def _send_no_more_than(self, requests: Requests) -> None:
        """Discard a producer whose batches are larger than the topics of these messages take."""
        limits = [limit for request in requests if (limit := request.committable.batch_bytes) is not None]
        limit = min(limits, default=self._batch_size)
        if limit < self._batch_size:
            self._batch_size, self._producer = limit, None

    def _begin(self, refused: dict[int, str] | None = None) -> Outbox:
        """Make the producer, unless there is one; from then on, committers of earlier attempts cannot write.

        `refused` takes the messages that it refuses; see Outbox.
        """
        if self._producer is None:
            name = self._settings.transactional_id(self._uid)
            producer = Outbox(self._settings.transactional("committer", name), self._batch_size, refused)
            self._retrying("its transactions cannot be used", lambda: producer.client.init_transactions(_RETRY))
            self._producer = producer
        return self._producer

    def _write_without_refused(self, marker: _Marker, requests: Requests, topic: str, application: str) -> None:
        """Put the messages aside that the brokers refuse, and write the others.

        A refusal ends its transaction, so there is one transaction for each few refused messages, until one succeeds.
        """
        refused: dict[int, str] = {}
        while True:
            known = len(refused)
            try:
                return self._write(marker, requests, topic, application, refused)
            except TargetRefusedError:
                if len(refused) == known:
                    raise
            finally:
                self._producer = None  # the next commit sends batches again

    def _put_aside(self, checkpoint_id: int, requests: Requests, refused: dict[int, str]) -> None:
        records = [
            RefusedRecord(
                reason=refused[number],
                subtask=request.subtask_index,
                raw=value,
                topic=topic,
                key=key,
                headers=None if headers is None else tuple(headers),
                timestamp=time if time >= 0 else None,
            )
            for number, (request, (topic, _, key, value, time, headers)) in enumerate(_messages(requests))
            if number in refused
        ]
        self.refused_records.put_aside(checkpoint_id, requests, records)

    def _write(
        self, marker: _Marker, requests: Requests, topic: str, application: str, refused: dict[int, str] | None = None
    ) -> None:
        """Write messages, and the marker on a topic, in one transaction.

        `refused`: the messages to put aside, by their number, with the reason.
        """
        kafka, outbox = self._kafka, self._begin(refused)
        producer = outbox.client
        # A job that was started from another job's savepoint also moves that job's marker: a second start from the savepoint
        # then finds a marker that is ahead of it.
        origins = () if application in self._origins else self._origins
        try:
            producer.begin_transaction()
            number = 0
            for _, messages in _runs(requests):
                if refused is None:
                    outbox.send_all(messages)
                else:
                    for each, message in enumerate(messages, number):
                        if each not in refused:
                            outbox.send(message, each)
                number += len(messages)
                producer.poll(0)
                if outbox.failure is not None:
                    break
            while outbox.failure is None and producer.flush(_FLUSH_RETRY):
                pass
            if outbox.failure is not None:
                raise kafka.KafkaException(outbox.failure)
            if refused:
                self._put_aside(marker.checkpoint, requests, refused)
            for name in (application, *origins):
                self._send_marker(name, topic, marker)
            # Not earlier: if the topic was deleted while the client waited to send all this, it is in a new one.
            self._check_last(writing=True)
            what = "the transaction was not committed"
            self._retrying(what, lambda: producer.commit_transaction(_COMMIT_RETRY), writing=True)
        except BaseException as error:
            # If a message was not written, that is the reason why the transaction failed.
            failure = outbox.failure
            self._abort()
            if isinstance(error, kafka.KafkaException):
                raise self._described(marker.checkpoint, error.args[0] if failure is None else failure) from None
            raise
        self._last = _Commit(application=application, topic=topic, marker=marker, time=self._clock.wall_time())
        for name in (application, *origins):
            self._markers[name] = replace(self._last, application=name)

    def _send_marker(self, application: str, topic: str, marker: _Marker) -> None:
        group = self._reader(application, waits=False).client.consumer_group_metadata()
        offset = self._kafka.TopicPartition(topic, 0, 0, msgspec.json.encode(marker).decode())
        what = "what was written cannot be noted"
        producer = self._begin().client
        self._retrying(what, lambda: producer.send_offsets_to_transaction([offset], group, _RETRY), writing=True)

    def _retrying(self, what: str, call: Callable[[], object], *, writing: bool = False) -> None:
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
                        _log.warning("%s: %s; it is tried again: %s", SINK, what, client.text_of(inner))
                    continue
                if writing:
                    raise
                raise client.described(SinkError, f"{SINK}: {what}", error) from None

    def _abort(self) -> None:
        """Abort the transaction and discard the producer; if that fails, the next producer aborts it.

        A producer that met a refused message sometimes sends nothing in its next transaction (librdkafka 2.16).
        """
        outbox, self._producer = self._producer, None
        self._markers.clear()
        try:
            if outbox is not None:
                outbox.client.abort_transaction(_ABORT)
        except self._kafka.KafkaException as error:
            _log.debug("The transaction was not aborted: %s", client.text_of(error.args[0]))

    def _described(self, checkpoint_id: int, error: Any) -> FlinkishError:
        what = f"{SINK}: the messages of {checkpoint_name(checkpoint_id)} were not written"
        if error.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
            return SinkError(
                f"{what}: another producer uses the transactional id, {client.text_of(error)}",
                hint="a newer attempt of this job is running, or another job has the same set_transactional_id_prefix(): each "
                "job needs one of its own. It also happens to a transaction that takes longer than transaction.timeout.ms.",
            )
        return client.described(TargetRefusedError if client.is_refusal(error) else SinkError, what, error)

    def _clean(self, checkpoint_id: int, requests: Requests, lineage: str) -> None:
        """Store the commit with the checkpoints as well, and remove staged files that are no longer needed.

        Files of another job, from whose savepoint this one was started, stay: that job, or others like this one, may need them.
        """
        for root in _roots(requests):
            Staging(root, digest_of(lineage, self._uid)).note_committed(checkpoint_id, self._settings.servers)
        if lineage != self._origin:
            remove_staged(
                (root_of(request.committable.root or ""), file.path) for request in requests for file in request.committable.files
            )
            if not self._restored:
                # A savepoint may name the leftovers. Kafka is ahead of it now, so nothing can start from it.
                remove_staged(self._leftovers)
                self._leftovers = []
        self._restored = False

    def close(self) -> None:
        self._producer = None
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.client.close()


def _runs(requests: Requests) -> Iterator[tuple[CommitRequest[KafkaCommittable], Sequence[Message]]]:
    """Return runs of the messages of each request, at most as many as are sent between two checks."""
    decoder = msgspec.msgpack.Decoder(list[Message])
    for request in requests:
        committable = request.committable
        staged = (read(root_of(committable.root or ""), file) for file in committable.files)
        for chunk in chain.from_iterable(chain(staged, [committable.chunks])):
            messages = decoder.decode(chunk)
            for start in range(0, len(messages), _LOOK_EVERY):
                yield request, messages[start : start + _LOOK_EVERY]


def _messages(requests: Requests) -> Iterator[tuple[CommitRequest[KafkaCommittable], Message]]:
    return ((request, message) for request, run in _runs(requests) for message in run)


def _prepared(requests: Requests) -> int:
    """Return when the first of these messages were prepared, in milliseconds since 1970; none was written earlier."""
    return min(request.committable.prepared for request in requests)


def _roots(requests: Requests) -> list[PurePath]:
    return [root_of(root) for root in {request.committable.root for request in requests} if root is not None]


def _digest(requests: Requests) -> str:
    """Return a digest of the messages: of the random names of staged files, and of the content of the other messages."""
    digest = hashlib.sha256()
    for request in requests:
        for file in request.committable.files:
            digest.update(file.path.encode())
        for chunk in request.committable.chunks:
            digest.update(chunk)
    return digest.hexdigest()[:32]
