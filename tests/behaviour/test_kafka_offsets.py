"""Where KafkaSource begins and stops, and what it does when the messages there are not those that it should read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import JobExecutionError, SourceError
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from flinkish.datastream.connectors.kafka.settings import KafkaEnumeratorState, KafkaPartitionSplit
from tests.conftest import MakeEnvironment, locally
from tests.kit.kafka_broker import Broker
from tests.kit.kafka_sources import LATEST, NO_WATERMARKS, committed, read, source_of, split_at
from tests.kit.waiting import wait_until
from tests.unit.datastream.connectors.fakes import FakeEnumeratorContext

BEGIN = KafkaOffsetsInitializer
RESET = KafkaOffsetResetStrategy


def commit(broker: Broker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Commit offsets of a group, as another program does."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**broker.client, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(*pair, offset) for pair, offset in offsets.items()], asynchronous=False)
    finally:
        consumer.close()


def delete_before(broker: Broker, topic: str, offset: int) -> None:
    """Delete the messages of partition 0 before an offset, as retention does."""
    from confluent_kafka import TopicPartition

    admin = broker.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(120)


def create_again(broker: Broker, topic: str) -> None:
    admin = broker.admin()
    for future in admin.delete_topics([topic]).values():
        future.result(120)
    broker.create_topic(1, topic)


@locally
def test_a_source_stops_where_its_initializer_says(kafka: Broker, make_env: MakeEnvironment) -> None:
    topic, group = kafka.create_topic(2), f"group-{kafka.create_topic(1)}"
    # Offsets 0 to 4 in both partitions, at times 1000, 1010, ...
    kafka.produce(topic, [{"value": f"{p}{n}", "partition": p, "timestamp": 1000 + 10 * n} for n in range(5) for p in range(2)])
    commit(kafka, group, {(topic, 0): 2, (topic, 1): 5})

    def got(stop: KafkaOffsetsInitializer) -> list[int]:
        bounded = read(make_env(2), source_of(kafka, topic).set_group_id(group).set_bounded(stop))
        assert sorted(read(make_env(1), source_of(kafka, topic).set_group_id(group).set_unbounded(stop))) == sorted(bounded)
        return [sum(value[0] == str(partition) for value in bounded) for partition in range(2)]

    both = {KafkaTopicPartition(topic, 0): 0, KafkaTopicPartition(topic, 1): 4}
    assert got(LATEST) == [5, 5]
    assert got(BEGIN.earliest()) == [0, 0]
    assert got(BEGIN.timestamp(1011)) == [2, 2]
    assert got(BEGIN.timestamp(9000)) == [5, 5]
    assert got(BEGIN.offsets(both)) == [0, 4]
    assert got(BEGIN.committed_offsets()) == [2, 5]


@locally
def test_an_offset_that_the_group_committed_and_that_is_gone_goes_by_the_reset_strategy(
    kafka: Broker, make_env: MakeEnvironment
) -> None:
    topic = kafka.create_topic(1)
    group = f"group-{topic}"
    kafka.produce(topic, [f"{number}" for number in range(10)])

    def got(strategy: KafkaOffsetResetStrategy) -> list[str]:
        start = BEGIN.committed_offsets(strategy)
        return read(make_env(1), source_of(kafka, topic).set_group_id(group).set_starting_offsets(start).set_bounded(LATEST))

    commit(kafka, group, {(topic, 0): 7})
    for strategy in RESET:
        assert got(strategy) == ["7", "8", "9"]
    delete_before(kafka, topic, 8)
    for offset in (7, 11):
        commit(kafka, group, {(topic, 0): offset})
        assert got(RESET.EARLIEST) == ["8", "9"]
        assert got(RESET.LATEST) == []
        with pytest.raises(JobExecutionError, match=f"the starting offset {offset} does not exist; there are 8 to 10"):
            got(RESET.NONE)


@locally
def test_the_group_is_told_of_partitions_that_were_read_to_their_stops(
    kafka: Broker, make_env: MakeEnvironment, tmp_path: Path
) -> None:
    topic = kafka.create_topic(2)
    kafka.produce(topic, [{"value": f"{number}", "partition": number // 9} for number in range(10)])
    env = make_env(2, {"execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": tmp_path})
    assert len(read(env, source_of(kafka, topic).set_group_id(f"group-{topic}").set_bounded(LATEST))) == 10
    assert [committed(kafka, f"group-{topic}", topic, number) for number in range(2)] == [9, 1]


# -- other messages than those that were to be read --------------------------------------------------------------------------


@locally
def test_a_topic_that_is_created_again_and_has_grown_further_fails_the_job(kafka: Broker, make_env: MakeEnvironment) -> None:
    topic = kafka.create_topic(1)
    kafka.produce(topic, [f"old {number}" for number in range(5)])
    stream = make_env(1).from_source(source_of(kafka, topic).build(), NO_WATERMARKS, "kafka")
    with stream.execute_and_collect() as results:
        assert [next(results) for _ in range(5)] == [f"old {number}" for number in range(5)]
        create_again(kafka, topic)
        kafka.produce(topic, [f"new {number}" for number in range(9)])
        with pytest.raises(JobExecutionError, match=f"topic '{topic}' was deleted and created again"):
            list(results)


class Restored(FakeEnumeratorContext):
    """A job's context, with the partitions that its readers read when it was stopped."""

    def assigned_splits(self) -> list[Any]:
        return [split for splits in self.assigned.values() for split in splits]


def look(builder: KafkaSourceBuilder, state: KafkaEnumeratorState, split: KafkaPartitionSplit) -> KafkaEnumeratorState:
    """Continue from a checkpoint, ask the brokers once for the ends of the partitions, and return the next checkpoint."""
    context = Restored()
    enumerator = builder.build().restore_enumerator(context, state)  # type: ignore[arg-type]
    try:
        enumerator.add_splits_back([split], 0)
        enumerator.start()
        context.calls = [call for call in context.calls if call[2] is None]
        context.run_calls()
        return enumerator.snapshot_state(2)
    finally:
        enumerator.close()


def test_a_checkpoint_from_before_a_topic_was_created_again_is_refused(kafka: Broker) -> None:
    topic = kafka.create_topic(1)
    kafka.produce(topic, [f"old {number}" for number in range(5)])
    before = KafkaEnumeratorState(known=(f"{topic}-0",), pending=(), discovered=True)
    first = look(source_of(kafka, topic), before, split_at(topic, 5))
    assert first.topic_ids.keys() == {topic}
    assert look(source_of(kafka, topic), first, split_at(topic, 5)).topic_ids == first.topic_ids
    create_again(kafka, topic)
    kafka.produce(topic, ["new"])
    with pytest.raises(SourceError, match=f"topic '{topic}' was deleted and created again"):
        look(source_of(kafka, topic), first, split_at(topic, 5))
    # A checkpoint of a version that knew no ids.
    with pytest.raises(SourceError, match="offset 5 is to be read next, but the partition ends at 1"):
        look(source_of(kafka, topic), before, split_at(topic, 5))


@locally
def test_a_compacted_topic_is_read_over_its_gaps(kafka: Broker, make_env: MakeEnvironment) -> None:
    topic = kafka.create_topic(1, cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.01")
    for number in range(20):
        kafka.produce(topic, [{"key": b"%d" % (number % 3), "value": f"{number}"}])
    # The last message of each key, and the one of the segment that is still written.
    wait_until("it is compacted to its end", lambda: len(kafka.read(topic)) == 4)
    left = [(message.offset(), message.value().decode()) for message in kafka.read(topic)]
    assert left[0][0] > 0
    builder = source_of(kafka, topic).set_bounded(LATEST)
    assert read(make_env(1, {"execution.epoch.max-records": 1}), builder) == [value for _, value in left]
    # Before the first message that is left, and between two of them.
    builder.set_starting_offsets(BEGIN.offsets({KafkaTopicPartition(topic, 0): 1}))
    assert read(make_env(1), builder) == [value for _, value in left]
