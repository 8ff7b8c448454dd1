"""Writers of KafkaSink: one writes directly to the brokers, one into the checkpoint, for the committer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from flinkish.common import options
from flinkish.common.errors import RecordRefusedError, SinkError, TargetRefusedError, TypeMismatchError
from flinkish.common.ids import IdSource
from flinkish.datastream.connectors._row_buffer import RowBuffer, bytes_state
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.limits import TopicLimits, ask
from flinkish.datastream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from flinkish.datastream.connectors.kafka.sink_settings import (
    WHO,
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

#: Messages between two checks of the producer's delivery reports.
_LOOK_EVERY: Final = 1_000
#: Messages that wait at most for an answer of the brokers, if those that they refuse become dead letters.
_MOST_SENT: Final = 100_000
#: Seconds of one wait for room in the client's full queue, and of a request for a topic's partitions.
_ROOM: Final = 0.1
_TOPIC_TIMEOUT: Final = 30.0
#: Messages of at most this size in total go into the checkpoint itself. A file costs 10-20 ms to make durable.
_INLINE_BYTES: Final = 64 * 1024
#: Maximum number of bytes that Kafka adds to a message, approximately.
_OVERHEAD: Final = 512


class _Topics:
    """Numbers of partitions by topic."""

    def __init__(self, producer: Callable[[], Any], servers: str) -> None:
        self._producer = producer
        self._servers = servers
        self._partitions: dict[str, int] = {}

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, as at the first call; raises SinkError if the topic cannot be written to."""
        known = self._partitions.get(topic)
        if known is None:
            kafka = client.library()
            what = f"{WHO}: topic {topic!r} cannot be written to at {self._servers}"
            try:
                found = self._producer().list_topics(topic, timeout=_TOPIC_TIMEOUT).topics[topic]
            except kafka.KafkaException as error:
                raise client.described(SinkError, what, error) from None
            if found.error is not None:
                raise client.described(SinkError, what, found.error)
            known = self._partitions[topic] = len(found.partitions)
        return known


def message_function(
    settings: KafkaSinkSettings, topics: _Topics, note_limits: Callable[[TopicLimits], None] = lambda limits: None
) -> Callable[[Any, int | None], Message]:
    """Return a function that converts a record and its timestamp to a message.

    `note_limits` is called with the limits of each new topic. The function raises RecordRefusedError for a message beyond them.
    """
    schema: KafkaRecordSerializationSchema = settings.serializer
    schema.open()
    fixed, selector = schema._topic, schema._topic_selector
    serialize = schema._value_schema.serialize
    serialize_key = None if schema._key_schema is None else schema._key_schema.serialize
    partitioner, headers_of = schema._partitioner, schema._header_provider
    with_time, partitions = settings.write_timestamp, topics.partitions
    limits: dict[str, TopicLimits] = {}

    def message_of(record: Any, timestamp: int | None) -> Message:
        topic = fixed
        if topic is None:
            assert selector is not None
            topic = selector.apply(record)
        limit = limits.get(topic)
        if limit is None:
            if not isinstance(topic, str) or not topic:
                raise TypeMismatchError(f"{WHO}: the topic selector must return the name of a topic; got {topic!r}")
            partitions(topic)
            limit = limits[topic] = TopicLimits() if settings.log_failures_only else ask(settings, topic)
            note_limits(limit)
        value = serialize(record)
        key = None if serialize_key is None else serialize_key(record)
        partition = -1
        if partitioner is not None:
            there = partitions(topic)
            partition = partitioner(record, key, value, topic, there)
            if not isinstance(partition, int) or not 0 <= partition < there:
                raise SinkError(
                    f"{WHO}: the partitioner chose {partition!r} for {topic!r}, which has partitions 0 to {there - 1}"
                )
        headers = None if headers_of is None else _checked_headers(headers_of(record), topic)
        time = timestamp if with_time and timestamp is not None and timestamp >= 0 else -1
        message = topic, partition, key, value, time, headers
        limit.check(message)
        return message

    return message_of


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
            f"{WHO}: the header provider must return pairs of a name and bytes for a message for {topic!r}; got {headers!r}",
            hint='for example [("source", b"sensor")], or [] for none.',
        ) from None
    return result


def produce(producer: Any, message: Message, kafka: Any, on_delivery: Callable[[Any, Any], None] | None = None) -> None:
    """Give a message to a producer, waiting for room in its queue; raises SinkError if the producer does not take it.

    It is RecordRefusedError if the producer would never take it. `on_delivery` replaces the producer's own callback.
    """
    topic, partition, key, value, time, headers = message
    more: dict[str, Any] = {}
    if partition >= 0:
        more["partition"] = partition
    if time >= 0:
        more["timestamp"] = max(1, time)  # 0 would be the time of writing
    if headers:
        more["headers"] = headers
    if on_delivery is not None:
        more["on_delivery"] = on_delivery
    while True:
        try:
            producer.produce(topic, value, key, **more)
            return
        except BufferError:
            producer.poll(_ROOM)
        except kafka.KafkaException as error:
            kind = RecordRefusedError if client.is_refusal(error.args[0]) else SinkError
            raise client.described(kind, f"{WHO}: a message for topic {topic!r} was not taken", error) from None


class DirectWriter(SinkWriter[Any, KafkaCommittable]):
    """Writes to the brokers immediately.

    With AT_LEAST_ONCE, or if the job keeps dead letters, an epoch ends when they have answered to all its messages.
    """

    def __init__(self, settings: KafkaSinkSettings, context: SinkWriterContext) -> None:
        self._settings = settings
        self._kafka = client.library()
        self._error: Any = None
        self._failed = 0
        configuration = settings.producer(str(context.subtask_index))
        configuration |= {"on_delivery": self._report, "delivery.report.only.error": True}
        self._configuration = configuration
        self._batch_size = settings.batch_size
        self._producer = client.make_producer(configuration, WHO)
        self._message = message_function(settings, _Topics(lambda: self._producer, settings.servers), self._keep_within)
        self._context = context
        self._keeps = context.configuration.contains(options.DEAD_LETTERS_DIR)
        self._waits = self._keeps or settings.guarantee is not DeliveryGuarantee.NONE
        self._count = 0
        #: The records since the last answer of the brokers to all messages, and their messages; none without dead letters.
        self._sent: list[tuple[Any, Message]] = []

    def _keep_within(self, limits: TopicLimits) -> None:
        """Send no larger batches than a topic takes; a batch is refused even if each of its messages would be taken."""
        if limits.batch_bytes is not None and limits.batch_bytes < self._batch_size:
            self._batch_size = limits.batch_bytes
            self._producer.flush()
            self._producer = client.make_producer({**self._configuration, "batch.size": str(self._batch_size)}, WHO)

    def _report(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed += 1
            if self._error is None or client.is_refusal(self._error[0]):
                self._error = error, message.topic()

    def write(self, value: Any, context: WriteContext) -> None:
        message = self._message(value, context.timestamp)  # may replace the producer
        produce(self._producer, message, self._kafka)
        if self._keeps:
            self._sent.append((value, message))
            if len(self._sent) >= _MOST_SENT:
                self._settle()
        self._count += 1
        if self._count >= _LOOK_EVERY:
            self._count = 0
            self._producer.poll(0)
            if not self._keeps:
                self._check()

    def end_epoch(self) -> None:
        self._settle()

    def flush(self, end_of_input: bool) -> None:
        self._settle(wait=end_of_input)

    def _settle(self, *, wait: bool = False) -> None:
        """Have the brokers answer to all messages, unless the sink does not wait for them."""
        if not self._waits and not wait:
            self._producer.poll(0)
        else:
            self._producer.flush()
        if self._error is not None and self._keeps and client.is_refusal(self._error[0]):
            self._send_alone()
        self._check()
        self._sent.clear()

    def _send_alone(self) -> None:
        """Send the messages again, each in a batch of its own, and put those aside that the brokers refuse.

        They refuse whole batches. All messages are sent again, because otherwise those of a refused batch would come after later
        ones.
        """
        self._error, self._failed = None, 0
        alone = {**self._configuration, "batch.size": str(self._batch_size), "batch.num.messages": "1"}
        producer = client.make_producer(alone, WHO)
        refused: dict[int, str] = {}

        def report(index: int, error: Any, message: Any) -> None:
            if error is not None and client.is_refusal(error):
                refused[index] = f"{WHO}: topic {message.topic()!r}: {client.text_of(error)}"
            else:
                self._report(error, message)

        for index, (_, message) in enumerate(self._sent):
            produce(producer, message, self._kafka, partial(report, index))
        producer.flush()
        for index, reason in refused.items():
            self._context.put_aside(self._sent[index][0], reason)

    def _check(self) -> None:
        if self._error is None:
            return
        (error, topic), self._error = self._error, None
        failed, self._failed = self._failed, 0
        if self._settings.log_failures_only:
            _log.error("%s: %d messages were lost, one for topic %r: %s", WHO, failed, topic, client.text_of(error))
            return
        kind = TargetRefusedError if client.is_refusal(error) else SinkError
        raise client.described(kind, f"{WHO}: {failed} messages were not written, one for topic {topic!r}", error)

    def close(self) -> None:
        if not self._waits:
            self._producer.flush(_TOPIC_TIMEOUT)
        self._producer.purge()


class StagingWriter(SinkWriter[Any, KafkaCommittable]):
    """Puts messages into the checkpoint; the committer writes them when the checkpoint is complete."""

    def __init__(self, settings: KafkaSinkSettings, context: SinkWriterContext, ids: IdSource) -> None:
        self._settings = settings
        self._context = context
        self._ids = ids
        self._producer: Any = None
        self._message = message_function(settings, _Topics(self._asking, settings.servers), self._note_limits)
        self._batch_bytes: int | None = None
        self._largest = settings.largest
        root = staging_root(context.configuration, context.job_id)
        self._root = None if root is None else str(root)
        self._staging = None if root is None else Staging(root, digest_of(context.lineage, context.sink_uid))
        self._encoder = msgspec.msgpack.Encoder()
        self._buffer: RowBuffer[tuple[()]] = RowBuffer(context, "flinkish.kafka-sink.messages", tuple[()], self._encoder.encode)
        self._open: list[Message] | None = None
        self._open_bytes = 0
        self._file_state = context.get_list_state(bytes_state("flinkish.kafka-sink.files"))
        decoder = msgspec.msgpack.Decoder(StagedFile)
        self._files = [decoder.decode(item) for item in self._file_state.get()]

    def _note_limits(self, limits: TopicLimits) -> None:
        if limits.batch_bytes is not None and (self._batch_bytes is None or limits.batch_bytes < self._batch_bytes):
            self._batch_bytes = limits.batch_bytes

    def _asking(self) -> Any:
        """Return a client for requests about topics."""
        if self._producer is None:
            self._producer = client.make_producer(self._settings.producer(str(self._context.subtask_index)), WHO)
        return self._producer

    def write(self, value: Any, context: WriteContext) -> None:
        message = self._message(value, context.timestamp)
        _, _, key, content, _, headers = message
        size = len(content or b"") + len(key or b"")
        if headers:
            size += sum(len(name) + len(header or b"") for name, header in headers)
        if size + _OVERHEAD > self._largest:
            # If only the committer noticed it, the checkpoint could never be written.
            raise RecordRefusedError(
                f"{WHO}: a message for topic {message[0]!r} has {size} bytes; the client takes {self._largest - _OVERHEAD}",
                hint=f"set message.max.bytes (Java's max.request.size), and max.message.bytes of the topic; or {REFUSED_HINT}",
            )
        if self._open is None:
            self._open = self._buffer.group(())
        self._open.append(message)
        self._open_bytes += size

    def buffered_bytes(self) -> int:
        return self._open_bytes

    def end_epoch(self) -> None:
        self._seal()
        if self._buffer.is_full and self._staging is not None:
            self._stage(self._take())

    def _seal(self) -> None:
        self._buffer.seal()
        self._open, self._open_bytes = None, 0

    def _take(self) -> list[bytes]:
        return self._buffer.take().get((), [])

    def _stage(self, chunks: Sequence[bytes]) -> None:
        assert self._staging is not None
        self._files.append(self._staging.write(chunks, self._ids, self._context.subtask_index))
        self._file_state.update([self._encoder.encode(file) for file in self._files])

    def prepare_commit(self) -> Sequence[KafkaCommittable]:
        self._seal()
        chunks = self._take()
        if self._staging is not None and sum(map(len, chunks)) > _INLINE_BYTES:
            self._stage(chunks)
            chunks = []
        if not chunks and not self._files:
            return ()
        committable = KafkaCommittable(
            root=self._root,
            files=tuple(self._files),
            chunks=tuple(chunks),
            prepared=self._context.processing_time(),
            batch_bytes=self._batch_bytes,
        )
        if self._files:
            self._files = []
            self._file_state.clear()
        return (committable,)
