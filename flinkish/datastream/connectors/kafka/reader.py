"""Reads partitions in a task, from offset to offset, always in the same order.

One consumer serves all partitions of the reader and is kept from epoch to epoch. Fetched messages wait here by partition. Which
partition is read next, and how much of it, depends on positions, limits and credit alone, and never on which broker was faster.
Messages after a limit wait for a later epoch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import lt
from typing import TYPE_CHECKING, Any, Final

from flinkish.common.clock import Clock
from flinkish.common.errors import SourceError
from flinkish.datastream.connectors.kafka import client
from flinkish.datastream.connectors.kafka.client import Partition
from flinkish.datastream.connectors.kafka.serialization import KafkaRecord, ValueOnly
from flinkish.datastream.connectors.kafka.settings import SOURCE, KafkaPartitionSplit, KafkaSourceSettings
from flinkish.datastream.connectors.record_errors import Message, RecordErrors
from flinkish.program.sources import InputStatus, ReaderOutput, SourceReader, SourceReaderContext

if TYPE_CHECKING:
    import pyarrow as pa

#: Messages to take from the client in one call.
_CHUNK: Final = 4096
#: Messages of a partition that may wait here while another one is fetched; beyond that, the client pauses the partition.
_MOST_WAITING: Final = 50_000
#: Number of messages that become columns in one call. If one of them is bad, all of them are decoded one by one.
_BLOCK: Final = 1 << 14
#: Seconds between two checks of the deadline of a wait.
_WAIT: Final = 1.0
_NO_TIMESTAMP: Final = 0


class _Progress:
    """Where the reader is in a partition."""

    __slots__ = ("doubted", "end", "fetched", "leader_epoch", "messages", "offset", "paused", "split")

    def __init__(self, split: KafkaPartitionSplit) -> None:
        self.split = split
        #: The next offset to emit, and the next one to fetch: messages between the two are in `messages` or do not exist.
        self.offset = split.offset
        self.fetched = split.offset
        #: The end of the offsets to read in this epoch.
        self.end = split.offset
        self.messages: deque[Any] = deque()
        self.paused = False
        #: The leader epoch of the message before `offset`; None if there is none, such as after the end of a transaction.
        self.leader_epoch = split.leader_epoch
        #: The offset that the brokers refused although it exists.
        self.doubted: int | None = None

    def pass_gap(self, end: int) -> None:
        """Skip to an offset; there are no messages before it."""
        self.offset = end
        self.leader_epoch = None

    @property
    def fetched_epoch(self) -> int | None:
        """The leader epoch of the message before `fetched`, if it is known."""
        if self.messages:
            last = self.messages[-1]
            return last.leader_epoch() if last.offset() + 1 == self.fetched else None
        return self.leader_epoch if self.fetched == self.offset else None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.offset)

    @property
    def finished(self) -> bool:
        return self.split.stop is not None and self.offset >= self.split.stop


def _take_before(progress: _Progress, most: int) -> list[Any]:
    """Take up to `most` waiting messages that belong to this epoch, and advance the position past them."""
    messages, end = progress.messages, progress.end
    count = bisect_left(messages, end, hi=min(most, len(messages)), key=lambda message: message.offset())
    taken = [messages.popleft() for _ in range(count)]
    if taken:
        last = taken[-1]
        progress.offset, progress.leader_epoch = last.offset() + 1, last.leader_epoch()
    if count < most and messages and progress.offset < end:
        progress.pass_gap(end)
    return taken


class KafkaReader(SourceReader[Any, KafkaPartitionSplit]):
    """See the module."""

    def __init__(self, settings: KafkaSourceSettings, context: SourceReaderContext, errors: RecordErrors, clock: Clock) -> None:
        self._settings = settings
        self._context = context
        self._errors = errors
        self._clock = clock
        self._kafka = client.library()
        self._eof = self._kafka.KafkaError._PARTITION_EOF
        self._lost = {self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE}
        self._consumer: Any = None
        self._progress: dict[Partition, _Progress] = {}
        #: Partitions in the order of their turns in this epoch.
        self._turns: deque[_Progress] | None = None
        #: Ids of the splits that are ahead of their alignment group.
        self._ahead: set[str] = set()
        self._no_more = False
        schema = settings.deserializer
        self._whole = not isinstance(schema, ValueOnly)
        self._schema: Any = schema.schema if isinstance(schema, ValueOnly) else schema

    def start(self) -> None:
        self._settings.deserializer.open()
        group = self._context.metric_group
        group.gauge("pendingRecords", lambda: sum(each.lag for each in self._progress.values()))
        group.gauge("records-lag-max", lambda: max((each.lag for each in self._progress.values()), default=0))

    def add_splits(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        for split in splits:
            progress = self._progress[split.pair] = _Progress(split)
            if self._settings.partition_metrics:
                self._register(progress)
        if self._consumer is None:
            self._connect()
        self._begin_fetching()

    def _connect(self) -> None:
        self._consumer = client.make("Consumer", self._settings.consumer(str(self._context.subtask_index)), SOURCE)

    def _begin_fetching(self) -> None:
        """Let the client fetch all partitions from their positions; it drops messages that it has fetched already."""
        assigned = []
        for pair, each in self._progress.items():
            epoch = -1 if each.fetched_epoch is None else each.fetched_epoch
            assigned.append(self._kafka.TopicPartition(*pair, each.fetched, leader_epoch=epoch))
            each.paused = False
        self._consumer.assign(assigned)

    def _register(self, progress: _Progress) -> None:
        group = self._context.metric_group.add_group("KafkaSourceReader")
        group = group.add_group("topic", progress.split.topic).add_group("partition", str(progress.split.partition))
        # Of the last message that was emitted, as in Flink.
        group.gauge("currentOffset", lambda: progress.offset - 1)
        group.gauge("recordsLag", lambda: progress.lag)

    def set_split_limits(self, limits: Mapping[str, int]) -> None:
        for progress in self._progress.values():
            limit = limits.get(progress.split.split_id, progress.offset)
            stop = progress.split.stop
            progress.end = max(progress.offset, limit if stop is None else min(limit, stop))
        self._turns = None

    def pause_or_resume_splits(self, splits_to_pause: Collection[str], splits_to_resume: Collection[str]) -> None:
        self._ahead = (self._ahead | set(splits_to_pause)) - set(splits_to_resume)

    def notify_no_more_splits(self) -> None:
        self._no_more = True

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        if self._turns is None:
            self._turns = deque(self._progress.values())
        turns, ahead = self._turns, self._ahead
        for _ in range(len(turns)):
            progress = turns[0]
            if progress.finished:
                turns.popleft()
                self._finish(progress, output)
            elif progress.offset >= progress.end:
                turns.popleft()
            elif progress.split.split_id in ahead:
                turns.rotate(-1)
            else:
                self._emit(progress, max(1, output.credit), output)
                turns.rotate(-1)
                # The order of the splits decides whose turn is next, in later epochs, too. So no partition, nor its watermark,
                # falls behind, even if each epoch reads only a few messages.
                pair = progress.split.pair
                self._progress[pair] = self._progress.pop(pair)
                break
        if any(each.finished or (each.offset < each.end and each.split.split_id not in ahead) for each in turns):
            return InputStatus.MORE_AVAILABLE
        if self._no_more and not self._progress:
            return InputStatus.END_OF_INPUT
        return InputStatus.NOTHING_AVAILABLE

    def _finish(self, progress: _Progress, output: ReaderOutput[Any]) -> None:
        pair = progress.split.pair
        del self._progress[pair]
        self._consumer.pause([self._kafka.TopicPartition(*pair)])
        output.split_finished(progress.split.split_id)

    def _emit(self, progress: _Progress, most: int, output: ReaderOutput[Any]) -> None:
        """Emit at most `most` messages of a partition, and none beyond its end for this epoch."""
        output.select_split(progress.split.split_id)
        end, messages = progress.end, progress.messages
        while most > 0 and progress.offset < end:
            if progress.paused and len(messages) < _MOST_WAITING // 2:
                progress.paused = False
                self._consumer.resume([self._kafka.TopicPartition(*progress.split.pair)])
            if progress.fetched < end and len(messages) < (min(most, _BLOCK) if output.wants_columns else 1):
                self._fetch(progress)
            elif messages:
                most -= self._emit_waiting(progress, most, output)
            else:
                progress.pass_gap(end)  # only the end of a transaction, or aborted messages, lie before it

    def _emit_waiting(self, progress: _Progress, most: int, output: ReaderOutput[Any]) -> int:
        """Emit messages that were fetched already; return how many were taken."""
        taken = _take_before(progress, min(most, _BLOCK) if output.wants_columns else most)
        if not (output.wants_columns and self._emit_columns(taken, output)):
            self._emit_records(progress.split, taken, output)
        return len(taken)

    def _emit_columns(self, messages: Sequence[Any], output: ReaderOutput[Any]) -> bool:
        """Emit messages as columns; return whether that was possible."""
        values = list(map(self._kafka.Message.value, messages))
        batch = None if not values or None in values else self._schema.deserialize_batch(values)
        if batch is None:
            return False
        output.collect_columns(batch, partial(_times, messages))
        return True

    def _emit_records(self, split: KafkaPartitionSplit, messages: Sequence[Any], output: ReaderOutput[Any]) -> None:
        collect, deserialize, whole = output.collect, self._schema.deserialize, self._whole
        for message in messages:
            kind, timestamp = message.timestamp()
            time = None if kind == _NO_TIMESTAMP else timestamp
            content = _record(message, time) if whole else message.value()
            try:
                if content is None:
                    raise ValueError("the message has no value (it is a tombstone)")
                record = deserialize(content)
            except ValueError as error:
                record = self._handle(split, message, time, str(error))
            except Exception as error:
                # Without dead letters, any other error is an error of the program.
                if not self._errors.keeps:
                    raise
                record = self._handle(split, message, time, f"{type(error).__name__}: {error}")
            if record is not None:
                collect(record, time)

    def _handle(self, split: KafkaPartitionSplit, message: Any, time: int | None, reason: str) -> Any:
        return self._errors.handle(
            path=split.split_id,
            line=message.offset(),
            reason=reason,
            record="" if message.value() is None else message.value(),
            unit="offset",
            message=Message(key=message.key(), headers=_headers(message), timestamp=time),
        )

    def _fetch(self, progress: _Progress) -> None:
        """Take messages from the client until one more of this partition has arrived, or its end.

        Raises SourceError after the timeout.
        """
        deadline = self._clock.monotonic() + self._settings.timeout
        fetched, end = progress.fetched, progress.end
        while progress.fetched == fetched:
            message = self._consumer.poll(_WAIT)
            if message is not None:
                self._take([message])
                self._take(self._consumer.consume(_CHUNK, 0))
            elif self._clock.monotonic() > deadline:
                raise SourceError(
                    f"{SOURCE}: {progress.split.split_id}: offsets {fetched} to {end - 1} did not come within "
                    f"{self._settings.timeout} ms",
                    hint="are the brokers running and reached from this machine? default.api.timeout.ms sets the time.",
                )

    def _take(self, messages: Sequence[Any]) -> None:
        """Put messages from the client into the queues of their partitions."""
        kind = self._kafka.Message
        if any(map(kind.error, messages)):
            for message in messages:
                if (error := message.error()) is not None:
                    self._judge(message, error)
                else:
                    self._take([message])
            return
        # One by one they would take twice the time.
        for partition, run in groupby(messages, kind.partition):
            for topic, same in groupby(run, kind.topic):
                if progress := self._progress.get((topic, partition)):
                    self._put(progress, list(same))

    def _put(self, progress: _Progress, messages: Sequence[Any]) -> None:
        """Put messages into the queue of their partition, except for those that were fetched before."""
        offsets = list(map(self._kafka.Message.offset, messages))
        if not all(map(lt, offsets, offsets[1:])):  # after an assignment the client may begin again in the middle
            for message in messages:
                self._put(progress, [message])
            return
        new = bisect_left(offsets, progress.fetched)
        if new == len(offsets):
            return
        progress.messages.extend(messages[new:])
        progress.fetched = offsets[-1] + 1
        if len(progress.messages) > _MOST_WAITING and not progress.paused:
            progress.paused = True
            self._consumer.pause([self._kafka.TopicPartition(*progress.split.pair)])

    def _judge(self, message: Any, error: Any) -> None:
        progress = self._progress.get((message.topic(), message.partition()))
        code = error.code()
        if progress is None and (code == self._eof or code in self._lost):
            return
        if progress is not None and code == self._eof:
            progress.fetched = max(progress.fetched, message.offset())
        elif progress is not None and code in self._lost:
            self._lose(progress, error)
        elif client.is_gone(error) or not client.is_passing(error):
            where = SOURCE if progress is None else f"{SOURCE}: {progress.split.split_id} at offset {progress.fetched}"
            raise client.described(SourceError, where, error)
        else:
            client.log.debug("A passing error: %s", client.text_of(error))

    def _lose(self, progress: _Progress, error: Any) -> None:
        """Handle the loss of messages that were to be read next: fail, or continue where auto.offset.reset says."""
        split, wanted = progress.split, progress.fetched
        try:
            low, high = self._consumer.get_watermark_offsets(
                self._kafka.TopicPartition(*split.pair), timeout=self._settings.timeout / 1000
            )
        except self._kafka.KafkaException as failure:
            raise client.described(SourceError, f"{SOURCE}: {split.split_id} at offset {wanted}", failure) from None
        if low <= wanted <= high:
            if progress.doubted == wanted:
                raise SourceError(
                    f"{SOURCE}: {split.split_id}: the messages before offset {wanted}, which is to be read next, are not those "
                    f"that were read ({client.text_of(error)})",
                    hint="its log was cut off and has grown again (unclean leader election, or a broker that lost data). Start "
                    "the source under another uid, so that it starts again from its starting offsets.",
                )
            # Either the broker was briefly out of date, or the log was cut off and has grown again. A client compares leader
            # epochs only when it learns a partition's leader, so a new client finds out.
            progress.doubted = wanted
            self._consumer.close()
            self._connect()
            self._begin_fetching()
            return
        reset = self._settings.reset
        if reset == "none" or wanted > high:
            raise lost_messages(split.split_id, wanted, low, high, client.text_of(error))
        # The messages of this epoch may all have been fetched before, so its end may lie before what is gone.
        progress.fetched = max(low, progress.end) if reset == "latest" else low
        text = "%s: %s: offsets %d to %d are left out, as those before %d are gone (auto.offset.reset=%s)."
        client.log.warning(text, SOURCE, split.split_id, wanted, progress.fetched - 1, low, reset)
        self._begin_fetching()

    def snapshot_state(self) -> Sequence[KafkaPartitionSplit]:
        # Each epoch begins with the first split, so that a kept reader and a restored one read in the same order.
        self._turns = None
        return [replace(each.split, offset=each.offset, leader_epoch=each.leader_epoch) for each in self._progress.values()]

    def close(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            consumer.close()


def lost_messages(split: str, wanted: int, low: int, high: int, reason: str | None = None) -> SourceError:
    """Return the error for a partition that lacks the offset to read next."""
    detail = "" if reason is None else f" ({reason})"
    if wanted < low:
        return SourceError(
            f"{SOURCE}: {split}: offsets {wanted} to {low - 1} are to be read next, but are gone: the first one there is "
            f"{low}{detail}",
            hint="retention deleted them before they were read. To go on without them, set the property auto.offset.reset to "
            "earliest or latest, or start the source under another uid.",
        )
    return SourceError(
        f"{SOURCE}: {split}: offset {wanted} is to be read next, but the partition ends at {high}{detail}",
        hint="was the topic deleted and created again, or its log cut off (unclean leader election)? Start the source under "
        "another uid, so that it starts again from its starting offsets.",
    )


def _times(messages: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    times = [None if kind == _NO_TIMESTAMP else time for kind, time in [message.timestamp() for message in messages]]
    return pa.array(times, pa.int64())


def _record(message: Any, timestamp: int | None) -> KafkaRecord:
    return KafkaRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        timestamp=timestamp,
        headers=_headers(message),
    )


def _headers(message: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(message.headers() or ())
