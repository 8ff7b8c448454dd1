"""Writers of KafkaSink: one writes directly to the brokers, one into the checkpoint, for the committer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from typing import Any, Final

import msgspec

from flinkish.common import options
from flinkish.common.columns import Columns
from flinkish.common.errors import RecordRefusedError, SinkError, TargetRefusedError, TypeMismatchError
from flinkish.common.ids import IdSource
from flinkish.datastream.connectors._row_buffer import BufferedWriter
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.limits import TopicLimits, ask
from flinkish.datastream.connectors.kafka.settings import (
    SINK,
    KafkaCommittable,
    KafkaSinkSettings,
    Message,
    StagedFile,
    digest_of,
)
from flinkish.datastream.connectors.kafka.staging import Staging, staging_root
from flinkish.program.refused_records import REFUSED_HINT
from flinkish.program.sinks import DeliveryGuarantee, SinkWriter, SinkWriterContext, WriteContext

_log = logging.getLogger("flinkish.kafka")

#: Messages that wait at most for an answer of the brokers, if those that they refuse become dead letters.
_MOST_SENT: Final = 100_000
#: Seconds of one wait for room in the client's full queue, and of a request for a topic's partitions.
_ROOM: Final = 0.1
_TOPIC_TIMEOUT: Final = 30.0
#: Messages of at most this size in total go into the checkpoint itself. A file costs 10-20 ms to make durable.
_INLINE_BYTES: Final = 64 * 1024
#: Maximum number of bytes that Kafka adds to a message, approximately.
_OVERHEAD: Final = 512


class Outbox:
    """A producer that remembers the first error with which a message was not written."""

    def __init__(self, configuration: Mapping[str, Any], batch_size: int, refused: dict[int, str] | None = None) -> None:
        """`batch_size` is in bytes. With `refused`, each message has a batch of its own, as brokers refuse whole batches.

        Messages that they refuse, or the client, are noted in `refused` by their number, with the reason.
        """
        own = {"batch.size": str(batch_size), "on_delivery": self._report, "delivery.report.only.error": True}
        if refused is not None:
            own["batch.num.messages"] = "1"
        self.client = client.make("Producer", {**configuration, **own}, SINK)
        self.batch_size = batch_size
        self._refused = refused
        self._kafka = client.library()
        self.forget()

    def forget(self) -> None:
        """Forget the errors so far."""
        #: The first error of any message, and of one that is not noted in `refused`, with its topic.
        self.failure: Any = None
        self.error: tuple[Any, str] | None = None
        #: Number of messages that were not written, and are not noted in `refused`.
        self.failed = 0

    def send(self, message: Message, number: int = 0) -> None:
        """Give a message to the client, waiting for room in its queue; raises SinkError if the client does not take it.

        It is RecordRefusedError if the client would never take it.
        """
        topic, partition, key, value, time, headers = message
        report = None if self._refused is None else partial(self._note, self._refused, number)
        # 0 is the time of writing, and a partition of -1 the client's choice.
        timestamp = 0 if time < 0 else max(1, time)
        while True:
            try:
                # By position, which takes half of the time; the two after the partition are the callback and its other name.
                self.client.produce(topic, value, key, partition, report, None, timestamp, headers)
                return
            except BufferError:
                self.client.poll(_ROOM)
            except self._kafka.KafkaException as error:
                refusal = client.is_refusal(error.args[0])
                if refusal and self._refused is not None:
                    self._refused[number] = _reason(error.args[0], topic)
                    return
                kind = RecordRefusedError if refusal else SinkError
                raise client.described(kind, f"{SINK}: a message for topic {topic!r} was not taken", error) from None

    def send_all(self, messages: Iterable[Message]) -> None:
        """Do the same for many messages, which takes two thirds of the time; without `refused`."""
        produce, failed = self.client.produce, (BufferError, self._kafka.KafkaException)
        for message in messages:
            topic, partition, key, value, time, headers = message
            try:
                produce(topic, value, key, partition, None, None, (time or 1) if time >= 0 else 0, headers)
            except failed:
                self.send(message)

    def _report(self, error: Any, message: Any) -> None:
        if error is not None and error.name() not in ("_PURGE_QUEUE", "_PURGE_INFLIGHT"):
            self.failed += 1
            self.failure = self.failure or error
            self.error = self.error or (error, message.topic())

    def _note(self, refused: dict[int, str], number: int, error: Any, message: Any) -> None:
        if error is not None and client.is_refusal(error):
            refused[number] = _reason(error, message.topic())
            self.failure = self.failure or error
        else:
            self._report(error, message)


def _reason(error: Any, topic: str) -> str:
    return f"{SINK}: topic {topic!r}: {client.text_of(error)}"


def message_functions(
    settings: KafkaSinkSettings, producer: Callable[[], Any], note_limits: Callable[[TopicLimits], None]
) -> tuple[Callable[[Any, int | None], Message], Callable[[Columns], list[Message] | None]]:
    """Return a function that converts a record and its timestamp to a message, and one that converts columns.

    `producer` returns a client that can be asked about topics. `note_limits` is called with the limits of each new topic. The
    first function raises RecordRefusedError for a message beyond them, and both raise SinkError for a topic that cannot be
    written to. The second one returns None if records must be looked at one by one, such as if one would be refused.
    """
    schema = settings.serializer
    schema.open()
    select: Callable[[Any], str] | None = None if isinstance(schema.topic, str) else schema.topic
    fixed = schema.topic
    serialize = schema.value_schema.serialize
    serialize_key = None if schema.key_schema is None else schema.key_schema.serialize
    partitioner, headers_of, with_time = schema.partitioner, schema.header_provider, settings.write_timestamp
    limits: dict[Any, TopicLimits] = {}
    partitions = cache(lambda topic: _count_partitions(producer(), settings.servers, topic))

    def limits_of(topic: Any) -> TopicLimits:
        if not isinstance(topic, str) or not topic:
            raise TypeMismatchError(f"{SINK}: the topic selector must return the name of a topic; got {topic!r}")
        partitions(topic)
        limit = limits[topic] = TopicLimits() if settings.log_failures_only else ask(settings, topic)
        note_limits(limit)
        return limit

    def message_of(record: Any, timestamp: int | None) -> Message:
        topic: Any = fixed if select is None else select(record)
        limit = limits.get(topic) or limits_of(topic)
        value = serialize(record)
        key = None if serialize_key is None else serialize_key(record)
        partition = -1
        if partitioner is not None:
            there = partitions(topic)
            partition = partitioner(record, key, value, topic, there)
            if not isinstance(partition, int) or not 0 <= partition < there:
                raise SinkError(
                    f"{SINK}: the partitioner chose {partition!r} for {topic!r}, which has partitions 0 to {there - 1}"
                )
        headers = None if headers_of is None else _checked_headers(headers_of(record), topic)
        time = timestamp if with_time and timestamp is not None and timestamp >= 0 else -1
        message = topic, partition, key, value, time, headers
        limit.check(message)
        return message

    def messages_of(columns: Columns) -> list[Message] | None:
        topic: Any = fixed
        limit = limits.get(topic) or limits_of(topic)
        values = schema.value_schema.serialize_columns(columns)
        if values is None:
            return None
        times = (columns.times() if with_time else None) or repeat(None)
        pairs = zip(values, times, strict=False)
        messages: list[Message] = [
            (topic, -1, None, value, time if time is not None and time >= 0 else -1, None) for value, time in pairs
        ]
        try:
            for message in messages:
                limit.check(message)
        except RecordRefusedError:
            return None
        return messages

    return message_of, messages_of


def _count_partitions(producer: Any, servers: str, topic: str) -> int:
    kafka, what = client.library(), f"{SINK}: topic {topic!r} cannot be written to at {servers}"
    try:
        found = producer.list_topics(topic, timeout=_TOPIC_TIMEOUT).topics[topic]
    except kafka.KafkaException as error:
        raise client.described(SinkError, what, error) from None
    if found.error is not None:
        raise client.described(SinkError, what, found.error)
    return len(found.partitions)


def _checked_headers(headers: Any, topic: str) -> list[tuple[str, bytes | None]]:
    """Return headers as a list; raise TypeMismatchError unless they are pairs of a name and bytes (a str becomes UTF-8)."""
    result: list[tuple[str, bytes | None]] = []
    try:
        for name, value in headers:
            if not isinstance(name, str) or not isinstance(value, str | bytes | None):
                raise TypeError
            result.append((name, value.encode() if isinstance(value, str) else value))
    except (TypeError, ValueError):
        raise TypeMismatchError(
            f"{SINK}: the header provider must return pairs of a name and bytes for a message for {topic!r}; got {headers!r}",
            hint='for example [("source", b"sensor")], or [] for none.',
        ) from None
    return result


class DirectWriter(SinkWriter[Any, KafkaCommittable]):
    """Writes to the brokers immediately.

    With AT_LEAST_ONCE, or if the job keeps dead letters, an epoch ends when they have taken or refused all its messages.
    """

    def __init__(self, settings: KafkaSinkSettings, context: SinkWriterContext) -> None:
        self._settings = settings
        self._context = context
        self._configuration = settings.producer(str(context.subtask_index))
        self._outbox = Outbox(self._configuration, settings.batch_size)
        self._message, self._messages = message_functions(settings, lambda: self._outbox.client, self._keep_within)
        self._keeps = context.configuration.contains(options.DEAD_LETTERS_DIR)
        self._waits = self._keeps or settings.guarantee is not DeliveryGuarantee.NONE
        #: The records since the last wait, and their messages; empty if the job keeps no dead letters.
        self._sent: list[tuple[Any, Message]] = []

    def _keep_within(self, limits: TopicLimits) -> None:
        """Send no larger batches than a topic takes; a batch is refused even if each of its messages would be taken."""
        if limits.batch_bytes is not None and limits.batch_bytes < self._outbox.batch_size:
            self._settle(wait=True)
            self._outbox = Outbox(self._configuration, limits.batch_bytes)

    def write(self, value: Any, context: WriteContext) -> None:
        message = self._message(value, context.timestamp)  # may replace the outbox
        self._outbox.send(message)
        if self._keeps:
            self._sent.append((value, message))
            if len(self._sent) >= _MOST_SENT:
                self._settle()

    def write_columns(self, columns: Columns) -> bool:
        messages = None if self._keeps else self._messages(columns)
        self._outbox.send_all(messages or ())
        return messages is not None

    def end_epoch(self) -> None:
        self._settle()

    def flush(self, end_of_input: bool) -> None:
        self._settle(wait=end_of_input)

    def _settle(self, *, wait: bool = False) -> None:
        """Wait until the brokers have taken or refused all messages, if the sink waits for them."""
        outbox = self._outbox
        if not self._waits and not wait:
            outbox.client.poll(0)
        else:
            outbox.client.flush()
        if self._keeps and outbox.failure is not None and client.is_refusal(outbox.failure):
            self._send_alone()
        else:
            self._check(outbox)
        self._sent.clear()

    def _send_alone(self) -> None:
        """Send the messages again, each in a batch of its own, and put those aside that the brokers refuse.

        They refuse whole batches. All messages are sent again, because otherwise those of a refused batch would come after later
        ones.
        """
        refused: dict[int, str] = {}
        alone = Outbox(self._configuration, self._outbox.batch_size, refused)
        for number, (_, message) in enumerate(self._sent):
            alone.send(message, number)
        alone.client.flush()
        for number, reason in refused.items():
            self._context.put_aside(self._sent[number][0], reason)
        self._check(alone)
        self._outbox.forget()

    def _check(self, outbox: Outbox) -> None:
        """Raise SinkError, or log it, if messages were not written."""
        if outbox.error is None:
            return
        (error, topic), failed = outbox.error, outbox.failed
        if not self._settings.log_failures_only:
            kind = TargetRefusedError if client.is_refusal(error) else SinkError
            raise client.described(kind, f"{SINK}: {failed} messages were not written, one for topic {topic!r}", error)
        _log.error("%s: %d messages were lost, one for topic %r: %s", SINK, failed, topic, client.text_of(error))
        outbox.forget()

    def close(self) -> None:
        if not self._waits:
            self._outbox.client.flush(_TOPIC_TIMEOUT)
        self._outbox.client.purge()


class StagingWriter(BufferedWriter[KafkaCommittable, tuple[()], StagedFile]):
    """Puts messages into the checkpoint; the committer writes them when the checkpoint is complete."""

    def __init__(self, settings: KafkaSinkSettings, context: SinkWriterContext, ids: IdSource) -> None:
        self._context = context
        self._ids = ids
        producer = cache(lambda: client.make("Producer", settings.producer(str(context.subtask_index)), SINK))
        self._message, self._messages = message_functions(settings, producer, self._note_limits)
        self._batch_bytes: int | None = None
        self._largest = settings.largest
        root = staging_root(context.configuration, context.job_id)
        self._root = None if root is None else str(root)
        self._staging = None if root is None else Staging(root, digest_of(context.lineage, context.sink_uid))
        self._open: list[Message] | None = None
        self._open_bytes = 0
        encode = msgspec.msgpack.Encoder().encode
        super().__init__(context, "flinkish.kafka-sink", tuple[()], StagedFile, encode, self._stage, rows="messages")

    def _note_limits(self, limits: TopicLimits) -> None:
        if limits.batch_bytes is not None and (self._batch_bytes is None or limits.batch_bytes < self._batch_bytes):
            self._batch_bytes = limits.batch_bytes

    def write(self, value: Any, context: WriteContext) -> None:
        message = self._message(value, context.timestamp)
        _, _, key, content, _, headers = message
        size = len(content or b"") + len(key or b"")
        if headers:
            size += sum(len(name) + len(header or b"") for name, header in headers)
        if size + _OVERHEAD > self._largest:
            # If only the committer noticed it, the checkpoint could never be written.
            raise RecordRefusedError(
                f"{SINK}: a message for topic {message[0]!r} has {size} bytes; the client takes {self._largest - _OVERHEAD}",
                hint=f"set message.max.bytes (Java's max.request.size), and max.message.bytes of the topic; or {REFUSED_HINT}",
            )
        if self._open is None:
            self._open = self._buffer.group(())
        self._open.append(message)
        self._open_bytes += size

    def write_columns(self, columns: Columns) -> bool:
        messages = self._messages(columns)
        if messages is None:
            return False
        sizes = [len(message[3] or b"") for message in messages]
        if max(sizes, default=0) + _OVERHEAD > self._largest:
            return False
        self._buffer.group(()).extend(messages)
        self._open_bytes += sum(sizes)
        return True

    def buffered_bytes(self) -> int:
        return self._open_bytes

    def _seal(self) -> None:
        super()._seal()
        self._open, self._open_bytes = None, 0

    def _empty_buffer(self) -> None:
        # A full buffer always has more bytes.
        if self._staging is not None and sum(self._buffer.sizes().values()) > _INLINE_BYTES:
            super()._empty_buffer()

    def _stage(self, groups: dict[tuple[()], list[bytes]]) -> list[StagedFile]:
        assert self._staging is not None
        return [self._staging.write(groups[()], self._ids, self._context.subtask_index)]

    def prepare_commit(self) -> Sequence[KafkaCommittable]:
        chunks, files = self._buffer.take().get((), []), self._take_files()
        if not chunks and not files:
            return ()
        return (
            KafkaCommittable(
                root=self._root,
                files=tuple(files),
                chunks=tuple(chunks),
                prepared=self._context.processing_time(),
                batch_bytes=self._batch_bytes,
            ),
        )
