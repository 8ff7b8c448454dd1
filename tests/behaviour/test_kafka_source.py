"""KafkaSource in whole jobs, against a real broker."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flinkish.common import Duration, Row, Time, Types, WatermarkStrategy
from flinkish.common.column_layout import Layout
from flinkish.common.errors import JobExecutionError, SourceError
from flinkish.common.serialization import DeserializationSchema
from flinkish.datastream import StreamExecutionEnvironment, aggregates
from flinkish.datastream.connectors.hybrid_source import HybridSource
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaTopicPartition,
    brokers,
)
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flinkish.datastream.formats.json import JsonRowDeserializationSchema
from flinkish.datastream.functions import ProcessFunction
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.program.sources import InputStatus
from tests.conftest import MakeEnvironment, locally
from tests.kit.kafka_broker import Broker
from tests.kit.kafka_sources import LATEST, NO_WATERMARKS, committed, read, reader_at, source_of, split_at
from tests.kit.results import collect
from tests.kit.waiting import completed, wait_for_checkpoints, wait_until
from tests.unit.datastream.connectors.fakes import FakeOutput, FakeReaderContext

BOTH_FORMS = pytest.mark.parametrize("by_columns", [False, True])


class Everything(KafkaRecordDeserializationSchema):
    """Returns all parts of a message."""

    def deserialize(self, message: KafkaRecord) -> Any:
        return (message.partition, message.offset, message.key, message.value, message.timestamp, message.headers)


class Times(ProcessFunction):
    """Returns each record with its time and the watermark before it."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


@BOTH_FORMS
def test_a_bounded_source_gives_every_message_once_and_keeps_the_order_of_partitions(
    kafka: Broker, env: StreamExecutionEnvironment, by_columns: bool
) -> None:
    topic, empty = kafka.create_topic(3), kafka.create_topic(2)
    values = [f"{number:04}" for number in range(3000)]
    kafka.produce(topic, values)
    results = read(env, source_of(kafka, topic, empty).set_bounded(LATEST), by_columns=by_columns)
    assert sorted(results) == values
    for partition in range(3):
        own = [value for value in results if int(value) % 3 == partition]
        assert own == sorted(own)


@locally
def test_a_record_deserializer_sees_the_whole_message(kafka: Broker, env: StreamExecutionEnvironment) -> None:
    topic = kafka.create_topic(1)
    kafka.produce(
        topic,
        [
            {"key": b"k", "value": b"v", "timestamp": 1234, "headers": [("h", b"1"), ("h", None)]},
            {"key": b"k", "value": None, "timestamp": 1235},
        ],
    )
    builder = source_of(kafka, topic).set_deserializer(Everything()).set_bounded(LATEST)
    assert read(env, builder) == [(0, 0, b"k", b"v", 1234, (("h", b"1"), ("h", None))), (0, 1, b"k", None, 1235, ())]


@locally
def test_a_source_begins_where_its_initializer_says(kafka: Broker, make_env: MakeEnvironment) -> None:
    topic = kafka.create_topic(2)
    # Offsets 0 to 4 in both partitions, at times 1000, 1010, ...
    kafka.produce(topic, [{"value": f"{p}{n}", "partition": p, "timestamp": 1000 + 10 * n} for n in range(5) for p in range(2)])
    begin = KafkaOffsetsInitializer
    group = f"group-{topic}"
    strategy = KafkaOffsetResetStrategy

    def got(start: KafkaOffsetsInitializer, group: str | None = None) -> list[int]:
        builder = source_of(kafka, topic).set_starting_offsets(start).set_bounded(LATEST)
        results = read(make_env(2), builder if group is None else builder.set_group_id(group))
        return [sum(value[0] == str(partition) for value in results) for partition in range(2)]

    first = KafkaTopicPartition(topic, 0)
    assert got(begin.earliest()) == [5, 5]
    assert got(begin.latest()) == [0, 0]
    assert got(begin.timestamp(1031)) == [1, 1]
    assert got(begin.timestamp(1041)) == [0, 0]
    assert got(begin.offsets({first: 2})) == [3, 5]
    assert got(begin.offsets({first: 2}, strategy.LATEST)) == [3, 0]
    assert got(begin.offsets({first: 99}, strategy.EARLIEST)) == [5, 5]
    assert got(begin.committed_offsets(strategy.EARLIEST), group) == [5, 5]
    for start in (begin.committed_offsets(), begin.offsets({first: 99}, strategy.NONE)):
        with pytest.raises(JobExecutionError, match="KafkaOffsetResetStrategy"):
            got(start, group)
    stop = source_of(kafka, topic).set_unbounded(begin.offsets({first: 3, KafkaTopicPartition(topic, 1): 0}))
    assert read(make_env(1), stop) == ["00", "01", "02"]
    assert read(make_env(2), source_of(kafka).set_partitions({first}).set_bounded(LATEST)) == ["00", "01", "02", "03", "04"]


@locally
@BOTH_FORMS
def test_a_source_that_reads_committed_messages_passes_over_what_was_aborted_and_waits_for_what_is_open(
    kafka: Broker, make_env: MakeEnvironment, by_columns: bool
) -> None:
    topic = kafka.create_topic(1)
    kafka.produce(topic, ["a", "b"], transaction=f"1-{topic}")
    kafka.produce(topic, ["aborted"] * 5, transaction=f"2-{topic}", commit=False)
    kafka.produce(topic, ["c"], transaction=f"3-{topic}")
    kafka.produce(topic, ["aborted", "aborted"], transaction=f"4-{topic}", commit=False)
    builder = source_of(kafka, topic).set_bounded(LATEST)
    assert read(make_env(1), builder, by_columns=by_columns) == ["a", "b", *["aborted"] * 5, "c", "aborted", "aborted"]
    builder.set_property("isolation.level", "read_committed")
    assert read(make_env(1), builder, by_columns=by_columns) == ["a", "b", "c"]


@locally
def test_a_running_source_finds_new_topics_and_commits_the_offsets_of_checkpoints(
    kafka: Broker, make_env: MakeEnvironment, tmp_path: Path
) -> None:
    prefix = kafka.create_topic(1)
    env = make_env(2, {"execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": tmp_path})
    builder = source_of(kafka).set_topic_pattern(f"{prefix}.*").set_group_id(f"group-{prefix}")
    builder.set_property("partition.discovery.interval.ms", "50").set_starting_offsets(LATEST)
    kafka.produce(prefix, ["before the job"])
    stream = env.from_source(builder.build(), NO_WATERMARKS, "kafka")
    with stream.execute_and_collect() as results:
        # The source reads what is written after it has looked up the end of the topic, which it does after the job has started.
        wait_until("the source has a position", lambda: committed(kafka, f"group-{prefix}", prefix) == 1)
        later = f"{prefix}-later"
        for number in itertools.count():
            kafka.produce(prefix, [f"m{number}"])
            if number == 3:
                kafka.create_topic(2, later)
                # Messages that were written before the source found the topic: it is read from the beginning.
                kafka.produce(later, ["n0", "n1"])
            if number == 10:
                break
        found: set[str] = set()
        while not {"m10", "n0", "n1"} <= found:
            found.add(next(results))
        assert "before the job" not in found
        wait_until("the offset is committed", lambda: committed(kafka, f"group-{prefix}", prefix) == 12)
    # Another job of the group goes on from there.
    kafka.produce(prefix, ["for the next"])
    builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).set_bounded(LATEST)
    assert read(make_env(1), builder) == ["for the next"]


@locally
def test_each_partition_has_a_watermark_of_its_own(kafka: Broker, make_env: MakeEnvironment) -> None:
    topic = kafka.create_topic(2)
    # The second partition is far behind: it holds back the watermark, and no record of either is late.
    kafka.produce(topic, [{"value": "a", "partition": 0, "timestamp": 10_000 + n} for n in range(50)])
    kafka.produce(topic, [{"value": "b", "partition": 1, "timestamp": 1_000 + n} for n in range(50)])
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = make_env(1, {"pipeline.auto-watermark-interval": 1, "execution.epoch.max-records": 10}).from_source(
        source_of(kafka, topic).set_bounded(LATEST).build(), strategy, "kafka"
    )
    results = collect(stream.process(Times()))
    assert sorted(time for _, time, _ in results) == [*range(1_000, 1_050), *range(10_000, 10_050)]
    assert all(time > watermark for _, time, watermark in results)
    assert max(watermark for _, _, watermark in results) >= 1_040


@locally
def test_a_partition_without_messages_holds_back_the_watermark_until_it_is_idle(kafka: Broker, make_env: MakeEnvironment) -> None:
    def watermarks(strategy: WatermarkStrategy) -> Iterator[int]:
        topic = kafka.create_topic(2)
        env = make_env(1, {"pipeline.auto-watermark-interval": 1})
        stream = env.from_source(source_of(kafka, topic).build(), strategy, "kafka").process(Times())
        with stream.execute_and_collect() as results:
            for number in itertools.count():
                kafka.produce(topic, [{"value": "a", "partition": 0, "timestamp": 1_000 + number}])
                yield next(results)[2]

    silent = WatermarkStrategy.for_monotonous_timestamps()
    assert set(itertools.islice(watermarks(silent), 30)) == {-(2**63)}
    idle = silent.with_idleness(Duration.of_millis(50))
    assert any(watermark >= 1_000 for watermark in itertools.islice(watermarks(idle), 1_000))


@locally
@BOTH_FORMS
def test_partitions_take_turns_however_few_messages_an_epoch_reads(
    kafka: Broker, make_env: MakeEnvironment, by_columns: bool
) -> None:
    topic = kafka.create_topic(3)
    kafka.produce(topic, [f"{number}" for number in range(60)])
    env = make_env(1, {"execution.epoch.max-records": 1})
    results = read(env, source_of(kafka, topic).set_bounded(LATEST), by_columns=by_columns)
    assert results == [f"{number}" for number in range(60)]


@locally
@pytest.mark.parametrize("parallelism", [2, 1])
def test_alignment_holds_a_partition_back_that_is_ahead_of_the_others(
    kafka: Broker, make_env: MakeEnvironment, tmp_path: Path, parallelism: int
) -> None:
    topic, group = kafka.create_topic(2), f"group-{kafka.create_topic(1)}"
    kafka.produce(topic, [{"value": f"{n}", "partition": 0, "timestamp": 100 * n} for n in range(1, 1000)])
    kafka.produce(topic, [{"value": "-", "partition": 1, "timestamp": n} for n in range(1, 11)])
    settings = {"execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": tmp_path}
    env = make_env(parallelism, {**settings, "pipeline.auto-watermark-interval": 1, "execution.epoch.max-records": 20})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("all", Duration.of_seconds(2))
    stream = env.from_source(source_of(kafka, topic).set_group_id(group).build(), strategy, "kafka")
    with stream.execute_and_collect() as results:
        wait_until("both were read", lambda: min(committed(kafka, group, topic, number) for number in (0, 1)) >= 10)
        # Up to time 2,010, and the part that is read before the next look at the watermark.
        wait_until("the part was read", lambda: committed(kafka, group, topic) >= 20)
        wait_for_checkpoints(results.client, completed(results.client) + 20)
        assert 20 <= committed(kafka, group, topic) < 100
        kafka.produce(topic, [{"value": "end", "partition": 1, "timestamp": 200_000}])
        found = [next(results) for _ in range(999 + 11)]
    assert sorted(value for value in found if value.isdigit()) == sorted(f"{number}" for number in range(1, 1000))


@locally
def test_a_partition_that_is_added_to_a_topic_is_read_from_its_beginning(kafka: Broker, make_env: MakeEnvironment) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = kafka.create_topic(1)
    kafka.produce(topic, ["before the job"])
    builder = source_of(kafka, topic).set_starting_offsets(LATEST).set_property("partition.discovery.interval.ms", "50")
    with make_env(2).from_source(builder.build(), NO_WATERMARKS, "kafka").execute_and_collect() as results:
        # Only messages after the start are read, and only a message that was read shows that the source has started.
        first = threading.Event()
        writer = threading.Thread(target=write_until, args=(first, kafka, topic))
        writer.start()
        assert next(results) == "first"
        first.set()
        writer.join()
        admin = kafka.admin()
        for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
            future.result(120)
        wait_until("it is there", lambda: len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == 2)
        kafka.produce(topic, [{"value": value, "partition": 1} for value in ("new 0", "new 1")])
        later = (value for value in results if value != "first")
        assert list(itertools.islice(later, 2)) == ["new 0", "new 1"]


def write_until(over: threading.Event, broker: Broker, topic: str) -> None:
    while not over.wait(0.02):
        broker.produce(topic, ["first"])


def test_metrics_tell_how_far_a_reader_is_behind(kafka: Broker) -> None:
    topic = kafka.create_topic(2)
    kafka.produce(topic, [f"{number}" for number in range(20)])
    context = FakeReaderContext()
    reader = reader_at(source_of(kafka, topic), split_at(topic, 0), split_at(topic, 4, 1), end=10, context=context)
    gauges = context.metric_group.gauges
    try:
        assert (gauges["pendingRecords"](), gauges["records-lag-max"]()) == (16, 10)
        reader.poll_next(FakeOutput(7))
        assert (gauges["pendingRecords"](), gauges["records-lag-max"]()) == (9, 6)
        reader.poll_next(FakeOutput(7))
        # Of partition 1, whose gauges came last.
        assert (gauges["pendingRecords"](), gauges["recordsLag"](), gauges["currentOffset"]()) == (3, 0, 9)
    finally:
        reader.close()


@locally
def test_kafka_is_the_last_part_of_a_hybrid_source(kafka: Broker, make_env: MakeEnvironment) -> None:
    topics = [kafka.create_topic(2) for _ in range(2)]
    for topic in topics:
        kafka.produce(topic, [f"{topic}-{number}" for number in range(50)])
    history = source_of(kafka, topics[0]).set_bounded(LATEST).build()
    rest = source_of(kafka, topics[1]).set_bounded(LATEST).build()
    env = make_env(2, {"execution.epoch.max-records": 7})
    hybrid = HybridSource.builder(history).add_source(rest).build()
    results = collect(env.from_source(hybrid, NO_WATERMARKS, "hybrid"))
    assert sorted(results) == sorted(f"{topic}-{number}" for topic in topics for number in range(50))
    assert all(value.startswith(topics[0]) for value in results[:50])


@locally
@BOTH_FORMS
def test_messages_that_are_no_records_go_by_the_policy(kafka: Broker, make_env: MakeEnvironment, by_columns: bool) -> None:
    topic = kafka.create_topic(1)
    kafka.produce(topic, [{"value": b"good"}, {"value": b"\xff"}, {"value": None}])
    builder = source_of(kafka, topic).set_bounded(LATEST)
    with pytest.raises(JobExecutionError, match=f"{topic}-0, offset 1: .*utf-8"):
        read(make_env(1), builder, by_columns=by_columns)
    assert read(make_env(1), builder.on_record_error(RecordErrorPolicy.skip()), by_columns=by_columns) == ["good"]
    kafka.produce(topic, [{"value": None}])
    begin = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 2})
    with pytest.raises(JobExecutionError, match="offset 2: the message has no value"):
        read(make_env(1), source_of(kafka, topic).set_bounded(LATEST).set_starting_offsets(begin), by_columns=by_columns)


@locally
@BOTH_FORMS
def test_messages_that_are_no_records_are_dead_letters_with_all_that_they_have(
    kafka: Broker, make_env: MakeEnvironment, tmp_path: Path, by_columns: bool
) -> None:
    topic = kafka.create_topic(1)
    kafka.produce(topic, [{"value": b"good"}, {"value": b"\xff", "key": b"k", "headers": [("h", b"v")]}, {"value": None}])
    settings = {"pipeline.dead-letters.dir": tmp_path / "dead"}
    assert read(make_env(1, settings), source_of(kafka, topic).set_bounded(LATEST), by_columns=by_columns) == ["good"]
    columns = ["source", "position", "position_unit", "message_key", "headers", "raw"]
    found = DeltaTable(tmp_path / "dead").to_pyarrow_table().sort_by("position").select([*columns, "event_time"]).to_pylist()
    assert all(row.pop("event_time") > 0 for row in found)
    assert [tuple(row.values()) for row in found] == [
        (f"{topic}-0", 1, "offset", b"k", [{"key": "h", "value": b"v"}], b"\xff"),
        (f"{topic}-0", 2, "offset", None, [], None),
    ]


@pytest.mark.parametrize(("reset", "expected"), [(None, None), ("earliest", ["8", "9"]), ("latest", [])])
def test_messages_that_are_gone_fail_the_job_unless_the_program_says_otherwise(
    kafka: Broker, reset: str | None, expected: list[str] | None
) -> None:
    from confluent_kafka import TopicPartition

    topic = kafka.create_topic(1)
    kafka.produce(topic, [f"{number}" for number in range(10)])
    admin = kafka.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, 8)]).values():
        future.result(120)
    builder = source_of(kafka, topic)
    reader = reader_at(builder if reset is None else builder.set_property("auto.offset.reset", reset), split_at(topic, 2), end=10)
    output = FakeOutput(100)
    try:
        if expected is None:
            with pytest.raises(
                SourceError, match="-0: offsets 2 to 7 are to be read next, but are gone: the first one there is 8"
            ):
                reader.poll_next(output)
            return
        reader.poll_next(output)
        assert output.values == expected
        assert [split.offset for split in reader.snapshot_state()] == [10]
    finally:
        reader.close()


@locally
def test_a_topic_that_is_not_there_or_goes_away_fails_the_job(
    kafka: Broker, make_env: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "_GONE_FOR", 300)
    with pytest.raises(JobExecutionError, match=r"topic 'no-such-topic' at 127\.0\.0\.1:\d+ cannot be read"):
        read(make_env(1), source_of(kafka, "no-such-topic").set_bounded(LATEST))
    topic = kafka.create_topic(1)
    kafka.produce(topic, ["a"])
    stream = make_env(1).from_source(source_of(kafka, topic).build(), NO_WATERMARKS, "kafka")
    with stream.execute_and_collect() as results:
        assert next(results) == "a"
        admin = kafka.admin()
        for future in admin.delete_topics([topic]).values():
            future.result(120)
        with pytest.raises(JobExecutionError, match=f"know nothing of {topic}-0 any more"):
            next(results)


def json_messages(count: int) -> tuple[list[Any], DeserializationSchema]:
    """Return messages, two of them bad, and the schema by which they are read."""
    texts = [f'{{"user": "u{number % 11}", "at": {number * 10}, "amount": {number / 4}, "more": [1]}}' for number in range(count)]
    texts[500] = texts[2_000] = "no object"
    texts[700] = '{"user": "u7", "at": "7000", "amount": 175}'  # which columns leave to the path of records
    rows = Types.ROW_NAMED(["user", "at", "amount"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
    return texts, JsonRowDeserializationSchema.builder().type_info(rows).build()


def avro_messages(count: int) -> tuple[list[Any], DeserializationSchema]:
    """Return the same as JSON."""
    fields = [{"name": "user", "type": ["null", "string"]}, {"name": "at", "type": "long"}, {"name": "amount", "type": "double"}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    serialize = AvroRowSerializationSchema(avro_schema_string=schema).serialize
    messages = [{"value": serialize(Row(f"u{number % 11}", number * 10, number / 4))} for number in range(count)]
    messages[500] = messages[2_000] = {"value": b"\x04"}
    return messages, AvroRowDeserializationSchema(avro_schema_string=schema)


@BOTH_FORMS
@pytest.mark.parametrize("made", [json_messages, avro_messages])
def test_rows_are_counted_in_windows_in_both_forms(
    kafka: Broker, make_env: MakeEnvironment, made: Callable[[int], tuple[list[Any], DeserializationSchema]], by_columns: bool
) -> None:
    topic = kafka.create_topic(3)
    messages, schema = made(3_000)
    kafka.produce(topic, messages)
    assert schema.why_records is None
    source = source_of(kafka, topic).set_bounded(LATEST).set_value_only_deserializer(schema)
    source.on_record_error(RecordErrorPolicy.skip())
    out_of_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(30))
    times = "at" if by_columns else lambda value, _: int(value.at)
    stream = make_env(2, {"execution.epoch.max-records": 700}).from_source(
        source.build(), out_of_order.with_timestamp_assigner(times), "kafka"
    )
    windows = stream.key_by("user").window(TumblingEventTimeWindows.of(Time.seconds(10)))
    found = collect(
        windows.aggregate(
            user=aggregates.key(), start=aggregates.window_start(), n=aggregates.count(), total=aggregates.sum("amount")
        )
    )
    wanted: dict[tuple[str, int], list[float]] = {}
    for number in range(3_000):
        if number not in (500, 2_000):
            one = wanted.setdefault((f"u{number % 11}", number // 1_000 * 10_000), [0, 0.0])
            one[0] += 1
            one[1] += number / 4
    assert {(row.user, row.start): [row.n, row.total] for row in found} == wanted


@pytest.mark.parametrize("bad", [False, True])
def test_a_block_becomes_columns_unless_one_of_its_messages_is_bad(kafka: Broker, bad: bool) -> None:
    topic = kafka.create_topic(1)
    texts = [f"{number}" for number in range(1_000)]
    kafka.produce(topic, [*texts, {"value": b"\xff"}] if bad else texts)
    source = source_of(kafka, topic).on_record_error(RecordErrorPolicy.skip())
    reader = reader_at(source, split_at(topic, 0), end=len(texts) + bad)
    output: Any = FakeOutput(10_000, Layout(Types.STRING()))
    while reader.poll_next(output) is InputStatus.MORE_AVAILABLE:
        pass
    reader.close()
    assert output.values == texts
    # Blocks are what has arrived, so the first ones may have had no bad message.
    assert output.from_columns == len(texts) if not bad else output.from_columns < len(texts)
