"""KafkaSink in whole jobs, and its committer step by step, against a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from flinkish.common import Configuration, Row, Types, WatermarkStrategy
from flinkish.common.clock import Clock, ManualClock, SystemClock
from flinkish.common.errors import ForeignCheckpointError, JobExecutionError, SinkChangedError, SinkError, TargetRefusedError
from flinkish.common.ids import random_id
from flinkish.common.serialization import SerializationSchema, SimpleStringSchema
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.base import CommitRequest, DeliveryGuarantee, RestoredCheckpoint
from flinkish.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    Semantic,
)
from flinkish.datastream.connectors.kafka.client import GroupReader, is_passing
from flinkish.datastream.connectors.kafka.committer import KafkaCommitter
from flinkish.datastream.connectors.kafka.limits import TopicLimits, batch_bytes
from flinkish.datastream.connectors.kafka.settings import KafkaCommittable, KafkaSinkSettings, Message, digest_of
from flinkish.datastream.connectors.kafka.staging import Staging
from flinkish.datastream.formats.avro import AvroRowSerializationSchema
from flinkish.datastream.formats.json import JsonRowSerializationSchema
from flinkish.program.refused_records import RefusedRecord, RefusedRecords
from tests.conftest import MakeEnvironment, locally
from tests.kit.kafka_broker import Broker
from tests.kit.waiting import wait_until
from tests.unit.docs.pages import PAGES_FOLDER, blocks

BOTH_FORMS = pytest.mark.parametrize("by_columns", [False, True])
GUARANTEES = list(DeliveryGuarantee)


def serializer(topic: str | None = None) -> KafkaRecordSerializationSchemaBuilder:
    builder = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema())
    return builder if topic is None else builder.set_topic(topic)


def sink_to(
    broker: Broker, schema: KafkaRecordSerializationSchemaBuilder, guarantee: DeliveryGuarantee, prefix: str = ""
) -> KafkaSinkBuilder:
    builder = KafkaSink.builder().set_record_serializer(schema.build()).set_delivery_guarantee(guarantee)
    for key, value in broker.client.items():
        builder.set_property(key, value)
    return builder.set_transactional_id_prefix(prefix or f"p-{random_id()}")


def texts(env: StreamExecutionEnvironment, values: list[str], *, by_columns: bool) -> DataStream:
    """Return a stream of texts, which come to the sink as columns or one by one."""
    stream = env.from_collection(values, Types.STRING())
    return stream.filter(pc.field("value") != "-") if by_columns else stream


class FieldKey(SimpleStringSchema):
    def serialize(self, element: Any) -> bytes:
        return b"k" + str(int(element) % 3).encode()


def test_a_job_writes_keys_values_headers_and_times_to_the_topics_it_chooses(
    kafka: Broker, make_env: MakeEnvironment, tmp_path: Path
) -> None:
    topics = [kafka.create_topic(3), kafka.create_topic(1)]
    env = make_env(2, {"execution.checkpointing.interval": "50 ms", "execution.checkpointing.dir": tmp_path})
    numbers = [str(number) for number in range(200)]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: int(value) * 100)
    stream = env.from_collection(numbers, Types.STRING()).assign_timestamps_and_watermarks(strategy)
    schema = (
        serializer()
        .set_topic_selector(lambda value: topics[int(value) % 2])
        .set_key_serialization_schema(FieldKey())
        .set_partitioner(lambda record, key, value, topic, partitions: int(record) % partitions)
        .set_header_provider(lambda record: [("half", str(int(record) // 2).encode())])
    )
    stream.sink_to(sink_to(kafka, schema, DeliveryGuarantee.EXACTLY_ONCE).build())
    env.execute()
    found = [message for topic in topics for message in kafka.read(topic)]
    assert sorted(message.value().decode() for message in found) == sorted(numbers)
    for message in found:
        number = int(message.value())
        assert message.topic() == topics[number % 2]
        assert message.partition() == (number % 3 if number % 2 == 0 else 0)
        assert message.key() == b"k%d" % (number % 3)
        assert message.headers() == [("half", b"%d" % (number // 2))]
        # For the client, a timestamp of 0 means that there is none.
        assert message.timestamp()[1] == max(1, number * 100)


@locally
@BOTH_FORMS
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("checkpoints", [True, False])
def test_every_guarantee_writes_all_messages_of_a_job_that_ends(
    kafka: Broker, make_env: MakeEnvironment, tmp_path: Path, guarantee: DeliveryGuarantee, checkpoints: bool, by_columns: bool
) -> None:
    topic = kafka.create_topic(2)
    settings = {"execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": tmp_path} if checkpoints else {}
    env = make_env(2, {**settings, "execution.epoch.max-records": 100})
    numbers = [str(number) for number in range(1000)]
    texts(env, numbers, by_columns=by_columns).sink_to(sink_to(kafka, serializer(topic), guarantee).build())
    env.execute()
    assert sorted(kafka.values(topic)) == sorted(numbers)


def test_what_a_group_has_committed_is_found_on_any_topic(kafka: Broker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topics = [kafka.create_topic(2), kafka.create_topic(1)]
    expected: dict[str, list[Any]] = {"of-nobody": []}
    for number, topic in enumerate(topics):
        group, offset = f"of-{topic}", TopicPartition(topic, 0, number, f"note {number}")
        expected[group] = [(topic, number, f"note {number}")]
        consumer = Consumer({**kafka.client, "group.id": group})
        _once_it_answers(lambda consumer=consumer, offset=offset: consumer.commit(offsets=[offset], asynchronous=False))  # type: ignore[misc]
        consumer.close()
    for group, offsets in expected.items():
        reader = GroupReader(kafka.client, group, "a test")
        found = _once_it_answers(lambda reader=reader: reader.committed(10))  # type: ignore[misc]
        assert [(each.topic, each.offset, each.metadata) for each in found] == offsets
        reader.client.close()


def _once_it_answers(ask: Callable[[], Any]) -> Any:
    """A broker that has just started has no coordinators of groups yet."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except KafkaException as error:
            if not is_passing(error.args[0]) or time.monotonic() > deadline:
                raise


@locally
def test_messages_that_kafka_refuses_fail_the_job_in_the_task(kafka: Broker, make_env: MakeEnvironment) -> None:
    topic = kafka.create_topic(1)
    exactly_once = DeliveryGuarantee.EXACTLY_ONCE
    for builder, records, message in (
        (sink_to(kafka, serializer("no-such-topic"), exactly_once), ["a"], "topic 'no-such-topic' cannot be written to"),
        (sink_to(kafka, serializer(topic), exactly_once), ["a" * 1_000_001], "a message for topic .* has 1000001 bytes"),
        (sink_to(kafka, serializer(topic), DeliveryGuarantee.AT_LEAST_ONCE), ["a" * 1_000_001], "was not taken: .*too large"),
        (
            sink_to(kafka, serializer(topic).set_partitioner(lambda *_: 7), exactly_once),
            ["a"],
            "the partitioner chose 7 for .*, which has partitions 0 to 0",
        ),
        *(
            (
                sink_to(kafka, serializer(topic).set_header_provider(lambda record, wrong=wrong: wrong), exactly_once),
                ["a"],
                "the header provider must return pairs of a name and bytes",
            )
            for wrong in (None, {"name": b"x"}, [("name", 1)])
        ),
    ):
        env = make_env(1)
        env.from_collection(records, Types.STRING()).sink_to(builder.build())
        with pytest.raises(JobExecutionError, match=message):
            env.execute()
    assert kafka.values(topic) == []
    small = kafka.create_topic(1, max_message_bytes="2000")
    env = make_env(1)
    env.from_collection(["a" * 3000], Types.STRING()).sink_to(
        sink_to(kafka, serializer(small), DeliveryGuarantee.AT_LEAST_ONCE).build()
    )
    with pytest.raises(JobExecutionError, match=r"takes 30\d\d bytes; the topic takes 2000 "):
        env.execute()


@locally
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
@pytest.mark.parametrize(("selected", "by_columns"), [(False, False), (True, False), (False, True)])
def test_a_topic_with_a_small_limit_takes_many_messages_and_the_large_one_is_a_dead_letter(
    kafka: Broker,
    make_env: MakeEnvironment,
    tmp_path: Path,
    guarantee: DeliveryGuarantee,
    selected: bool,
    by_columns: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = kafka.create_topic(1, max_message_bytes="2000")
    env = make_env(1, {"pipeline.dead-letters.dir": tmp_path / "dead"})
    values = [str(number) * 100 for number in range(101)]
    schema = serializer().set_topic_selector(lambda value: topic) if selected else serializer(topic)
    # The brokers refuse nothing, as the batches are small enough.
    monkeypatch.delattr(KafkaCommitter, "_write_without_refused")
    stream = texts(env, [*values[:50], "a" * 3000, *values[50:]], by_columns=by_columns)
    stream.sink_to(sink_to(kafka, schema, guarantee).build())
    env.execute()
    assert kafka.values(topic) == values
    (letter,) = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
    assert (letter["kind"], letter["json"]) == ("refused", f'"{"a" * 3000}"')


@locally
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
@pytest.mark.parametrize("dead_letters", [False, True])
@BOTH_FORMS
def test_messages_that_only_the_brokers_can_refuse_are_dead_letters_of_a_sink_that_writes_directly(
    kafka: Broker,
    make_env: MakeEnvironment,
    tmp_path: Path,
    dead_letters: bool,
    guarantee: DeliveryGuarantee,
    by_columns: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = kafka.create_topic(1, max_message_bytes="2000")
    monkeypatch.setattr("flinkish.datastream.connectors.kafka.writers.ask", lambda settings, topic: TopicLimits(2000))
    monkeypatch.setattr("flinkish.datastream.connectors.kafka.writers._MOST_SENT", 40)
    env = make_env(1, {"pipeline.dead-letters.dir": tmp_path / "dead"} if dead_letters else {})
    values = [str(number) for number in range(101)]
    stream = texts(env, [*values[:30], "x" * 3000, *values[30:60], *["y" * 3000] * 6, *values[60:]], by_columns=by_columns)
    stream.sink_to(sink_to(kafka, serializer(topic), guarantee).build())
    if not dead_letters:
        refused = r"(?s)messages were not written, one for topic .*MSG_SIZE_TOO_LARGE.*pipeline\.dead-letters\.dir"
        with pytest.raises(JobExecutionError, match=refused):
            env.execute()
        return
    env.execute()
    written = kafka.values(topic)
    assert list(dict.fromkeys(reversed(written)))[::-1] == values  # the last of each, in their order
    letters = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
    assert sorted(letter["json"][1] for letter in letters) == sorted("xyyyyyy")
    assert {letter["kind"] for letter in letters} == {"refused"}
    assert "MSG_SIZE_TOO_LARGE" in letters[0]["reason"]


@locally
@pytest.mark.parametrize(("selected", "by_columns"), [(False, False), (True, False), (False, True)])
def test_a_message_without_a_key_for_a_compacted_topic_is_refused_in_the_task(
    kafka: Broker, make_env: MakeEnvironment, selected: bool, by_columns: bool
) -> None:
    topics = [kafka.create_topic(1), kafka.create_topic(1, cleanup_policy="compact")]
    schema = serializer().set_topic_selector(lambda value: topics[int(value)]) if selected else serializer(topics[1])
    env = make_env(1)
    stream = texts(env, ["0", "1"], by_columns=by_columns)
    stream.sink_to(sink_to(kafka, schema, DeliveryGuarantee.EXACTLY_ONCE).build())
    with pytest.raises(JobExecutionError, match="has no key, but the topic is compacted"):
        env.execute()


@locally
def test_the_largest_message_that_a_topic_takes_is_not_refused(kafka: Broker, make_env: MakeEnvironment) -> None:
    topic = kafka.create_topic(1, max_message_bytes="2000")
    largest = next(size for size in range(2000, 0, -1) if batch_bytes((topic, -1, None, b"a" * size, -1, [("h", b"1")])) <= 2000)
    schema = serializer(topic).set_header_provider(lambda record: [("h", b"1")])
    env = make_env(1)
    env.from_collection(["a" * largest], Types.STRING()).sink_to(sink_to(kafka, schema, DeliveryGuarantee.EXACTLY_ONCE).build())
    env.execute()
    assert kafka.values(topic) == ["a" * largest]


@locally
def test_the_old_names_read_and_write(kafka: Broker, make_env: MakeEnvironment) -> None:
    source, target = kafka.create_topic(2), kafka.create_topic(1)
    kafka.produce(source, [{"value": str(number), "timestamp": 1000} for number in range(50)])
    with pytest.warns(DeprecationWarning, match="Use KafkaSource"):
        consumer = FlinkKafkaConsumer(source, SimpleStringSchema(), {**kafka.client, "group.id": f"g-{source}"})
    consumer.set_start_from_earliest()
    env = make_env(2)
    producer = FlinkKafkaProducer(target, SimpleStringSchema(), kafka.client, semantic=Semantic.EXACTLY_ONCE)
    numbers = [str(number) for number in range(50)]
    env.from_collection(numbers, Types.STRING()).add_sink(producer)
    env.execute()
    written = kafka.read(target)
    assert sorted(message.value().decode() for message in written) == sorted(numbers)
    with make_env(2).add_source(consumer, type_info=Types.STRING()).execute_and_collect() as results:
        assert sorted(next(results) for _ in range(50)) == sorted(numbers)


# -- the committer step by step ----------------------------------------------------------------------------------------------

UID = "0123456789abcdef"


class Commits:
    """One sink's committers, one for each attempt of a job."""

    def __init__(self, broker: Broker, folder: Path, topic: str) -> None:
        self.broker = broker
        self.folder = folder
        self.topic = topic
        self.lineage = random_id()
        self.prefix = f"p-{random_id()}"
        self.clock: Clock = SystemClock()
        self.root = folder / "job"
        self.servers = broker.address

    @property
    def settings(self) -> KafkaSinkSettings:
        sink = sink_to(self.broker, serializer(self.topic), DeliveryGuarantee.EXACTLY_ONCE, self.prefix)
        return sink.set_bootstrap_servers(self.servers).build()._settings

    @property
    def application(self) -> str:
        return self.settings.application(self.lineage, UID)

    def committer(self) -> KafkaCommitter:
        configuration = Configuration.from_dict({"execution.checkpointing.dir": str(self.folder)})
        return KafkaCommitter(self.settings, configuration, self.clock)

    def restored(self, checkpoint_id: int, lineage: str | None = None, state: bytes | None = None) -> KafkaCommitter:
        committer = self.committer()
        committer.restore(
            RestoredCheckpoint(
                checkpoint_id=checkpoint_id,
                lineage=lineage or self.lineage,
                job_lineage=self.lineage,
                job_id="job",
                sink_uid=UID,
                state=state,
            )
        )
        return committer

    def requests(self, *values: str, age: int = 0, staged: bool = False) -> list[CommitRequest[KafkaCommittable]]:
        messages: list[Message] = [(self.topic, -1, None, value.encode(), -1, None) for value in values]
        chunk = encode(messages)
        files = ()
        if staged:
            files = (Staging(self.root, digest_of(self.lineage, UID)).write([chunk], random_id, 0),)
        prepared = self.clock.wall_time() - age
        committable = KafkaCommittable(
            root=str(self.root), files=files, chunks=() if staged else (chunk,), prepared=prepared, batch_bytes=None
        )
        return [CommitRequest(committable=committable, job_id="job", lineage=self.lineage, sink_uid=UID, subtask_index=0)]

    def staged_files(self) -> list[Path]:
        return sorted(self.root.rglob("*.messages"))


def encode(messages: Sequence[Message]) -> bytes:
    import msgspec

    return msgspec.msgpack.encode(messages)


@pytest.fixture
def commits(kafka: Broker, tmp_path: Path) -> Commits:
    return Commits(kafka, tmp_path, kafka.create_topic(1))


class Kept(RefusedRecords):
    def __init__(self) -> None:
        self.records: list[RefusedRecord] = []

    def put_aside(self, checkpoint_id: int, requests: Sequence[CommitRequest[Any]], records: Sequence[RefusedRecord]) -> None:
        self.records += records


def test_a_commit_writes_all_messages_but_those_that_the_brokers_refuse(kafka: Broker, tmp_path: Path) -> None:
    commits = Commits(kafka, tmp_path, kafka.create_topic(1, max_message_bytes="2000"))
    values = [f"{number}" for number in range(101)]
    poisoned = [*values[:30], "x" * 3000, *values[30:60], *["y" * 3000] * 6, *values[60:]]
    committer = commits.committer()
    with pytest.raises(TargetRefusedError, match=r"pipeline\.dead-letters\.dir"):
        committer.commit(1, commits.requests(*poisoned))
    assert kafka.values(commits.topic) == []
    committer.close()

    restored = commits.restored(1)
    restored.refused_records = kept = Kept()
    restored.commit(1, commits.requests(*poisoned))
    restored.commit(1, commits.requests(*poisoned))
    restored.commit(2, commits.requests("last"))

    assert kafka.values(commits.topic) == [*values, "last"]
    assert [(record.topic, record.raw) for record in kept.records] == [
        (commits.topic, letter.encode() * 3000) for letter in "xyyyyyy"
    ]


def test_a_commit_that_comes_again_has_no_effect(kafka: Broker, commits: Commits) -> None:
    first = commits.requests("a", "b", staged=True)
    committer = commits.committer()
    committer.commit(1, first)
    assert commits.staged_files() == []
    committer.commit(1, first)
    again = commits.restored(1)
    again.commit(1, first)
    again.commit(2, commits.requests("c"))
    assert kafka.values(commits.topic) == ["a", "b", "c"]


def test_an_attempt_that_is_over_can_write_nothing(kafka: Broker, commits: Commits) -> None:
    zombie = commits.committer()
    zombie.commit(1, commits.requests("a"))
    second = commits.requests("b")
    successor = commits.restored(1)
    with pytest.raises(SinkError, match="another producer uses the transactional id"):
        zombie.commit(2, second)
    successor.commit(2, second)
    assert kafka.values(commits.topic) == ["a", "b"]


def test_a_transaction_that_was_left_open_is_aborted_and_written_again(kafka: Broker, commits: Commits) -> None:
    dying = commits.committer()
    dying.commit(1, commits.requests("a"))
    second = commits.requests("b", staged=True)

    class Died(Exception):
        pass

    def die(*_: Any) -> None:
        assert dying._producer is not None
        dying._producer.client.flush()
        dying._abort = lambda: None  # type: ignore[method-assign]
        raise Died

    dying._send_marker = die  # type: ignore[method-assign]
    with pytest.raises(Died):
        dying.commit(2, second)
    orphan = Staging(commits.root, digest_of(commits.lineage, UID)).write([encode([])], random_id, 0)
    next_attempt = commits.restored(2)
    next_attempt.commit(2, second)
    assert kafka.values(commits.topic) == ["a", "b"]
    assert kafka.values(commits.topic, committed=False) == ["a", "b", "b"]
    assert commits.staged_files() == [commits.root / orphan.path]
    next_attempt.commit(3, commits.requests("c"))
    assert commits.staged_files() == []


def test_a_checkpoint_that_kafka_is_ahead_of_is_refused(kafka: Broker, commits: Commits) -> None:
    committer = commits.committer()
    for number in (1, 2, 3):
        committer.commit(number, commits.requests(str(number)))
    with pytest.raises(ForeignCheckpointError, match=r"Kafka is ahead of checkpoint 1.*checkpoint 3"):
        commits.restored(1)


def test_a_commit_is_known_although_the_brokers_did_not_list_its_topic(
    kafka: Broker, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = commits.requests("a"), commits.requests("b")
    committer = commits.committer()
    committer.commit(1, first)
    committer.commit(2, second)
    # The process ended before the note with the checkpoints.
    for note in commits.root.rglob("committed-*"):
        note.unlink()
    committed = GroupReader.committed

    def incomplete(self: GroupReader, timeout: float, topics: Iterable[str] | None = None) -> list[Any]:
        return [each for each in committed(self, timeout, topics) if topics is not None or each.topic != commits.topic]

    monkeypatch.setattr(GroupReader, "committed", incomplete)
    again = commits.restored(2)
    again.commit(2, second)
    again.commit(3, commits.requests("c"))
    assert kafka.values(commits.topic) == ["a", "b", "c"]


def test_a_copy_of_a_job_that_writes_other_messages_under_the_same_id_is_refused(commits: Commits) -> None:
    commits.committer().commit(1, commits.requests("a"))
    with pytest.raises(ForeignCheckpointError, match="another job has written other messages under the same id"):
        commits.committer().commit(1, commits.requests("b"))


def test_a_savepoint_that_is_started_from_twice_is_committed_once(kafka: Broker, commits: Commits) -> None:
    former = commits.lineage
    shared = commits.requests("a")
    commits.lineage = random_id()
    first = commits.restored(5, former)
    first.commit(5, shared)
    # A job that starts from it before the first one has gone on meets the same.
    other = commits.lineage
    commits.lineage = random_id()
    commits.restored(5, former).commit(5, shared)
    commits.lineage = other
    commits.restored(5, former).commit(6, commits.requests("b"))
    commits.lineage = random_id()
    with pytest.raises(ForeignCheckpointError, match="Kafka is ahead of checkpoint 5"):
        commits.restored(5, former)
    assert kafka.values(commits.topic) == ["a", "b"]


def test_staged_files_of_earlier_attempts_stay_until_kafka_is_ahead_of_a_savepoint_that_names_them(
    kafka: Broker, commits: Commits
) -> None:
    savepoint = commits.requests("of the savepoint", staged=True)
    again = commits.restored(1)
    again.commit(1, commits.requests("a", staged=True))
    again = commits.restored(1)
    again.commit(1, [])
    again.commit(2, [])
    own, servers = commits.lineage, commits.servers
    for prefix in ("p", "q"):  # each writes to brokers of its own, as far as it can tell
        other = Commits(kafka, commits.folder, commits.topic)
        other.servers, other.prefix = f"{servers},{commits.servers}", f"{prefix}-{random_id()}"
        servers = other.servers
        other.restored(2, own).commit(2, savepoint)
        assert len(commits.staged_files()) == 1
    again.commit(3, commits.requests("b"))
    assert commits.staged_files() == []
    assert kafka.values(commits.topic) == ["a", "of the savepoint", "of the savepoint", "b"]


def forget(broker: Broker, commits: Commits) -> None:
    """Make the broker forget the committed offset, as it does after a week."""
    admin = broker.admin()
    for future in admin.delete_consumer_groups([commits.application]).values():
        future.result(120)


def test_a_commit_that_the_brokers_forgot_is_known_from_the_folder_of_the_checkpoints(kafka: Broker, commits: Commits) -> None:
    first = commits.requests("a", age=10**9)
    commits.committer().commit(1, first)
    forget(kafka, commits)
    commits.restored(1).commit(1, first)
    assert kafka.values(commits.topic) == ["a"]
    for note in commits.root.rglob("committed-*"):
        note.unlink()
    with pytest.raises(ForeignCheckpointError, match="it is not known whether the messages of checkpoint 1 were written"):
        commits.restored(1).commit(1, first)
    assert kafka.values(commits.topic) == ["a"]


def create_again(broker: Broker, commits: Commits) -> None:
    """Delete the topic and create it again; the broker then removes the offsets that groups have committed for it."""
    broker.delete_topic(commits.topic)
    broker.create_topic(1, commits.topic)
    reader = GroupReader(broker.client, commits.application, "a test")
    wait_until("the offsets are removed", lambda: not reader.committed(10, [commits.topic]))
    reader.client.close()


def put_back(broker: Broker, commits: Commits, checkpoint_id: int) -> None:
    """Let the broker know the commit of an earlier checkpoint only, as after the restore of a backup."""
    from confluent_kafka import Consumer, TopicPartition

    note = json.dumps({"checkpoint": checkpoint_id, "digest": ""})
    consumer = Consumer({**broker.client, "group.id": commits.application})
    consumer.commit(offsets=[TopicPartition(commits.topic, 0, 0, note)], asynchronous=False)
    consumer.close()


ALL_LOST = (
    r"had committed checkpoint 1 to topic 't-.*, which knows of none of its commits: all messages that it wrote there are lost"
)


def test_a_topic_that_is_created_again_ends_the_job_at_its_next_commit_and_at_its_start(kafka: Broker, commits: Commits) -> None:
    committer = commits.committer()
    committer.commit(1, commits.requests("a"))
    state = committer.snapshot_state()
    create_again(kafka, commits)
    with pytest.raises(SinkChangedError, match=ALL_LOST):
        committer.commit(2, commits.requests("b"))
    with pytest.raises(SinkChangedError, match=ALL_LOST):
        commits.restored(2, state=state)
    assert kafka.values(commits.topic) == []


def test_brokers_that_lost_commits_are_named_with_what_is_lost(kafka: Broker, commits: Commits) -> None:
    committer = commits.committer()
    for number in (1, 2, 3):
        committer.commit(number, commits.requests(str(number)))
    put_back(kafka, commits, 1)
    expected = (
        r"had committed checkpoint 3 to .* knows of checkpoint 1: the messages of all later checkpoints, up to checkpoint 3,"
    )
    with pytest.raises(SinkChangedError, match=expected):
        committer.commit(4, commits.requests("4"))
    with pytest.raises(SinkChangedError, match=expected):
        commits.restored(4, state=committer.snapshot_state())


def test_a_commit_that_the_state_does_not_know_of_is_no_loss_but_may_be_lost_later(kafka: Broker, commits: Commits) -> None:
    committer = commits.committer()
    committer.commit(1, commits.requests("a"))
    state, second = committer.snapshot_state(), commits.requests("b")
    committer.commit(2, second)
    again = commits.restored(2, state=state)
    again.commit(2, second)
    put_back(kafka, commits, 1)
    with pytest.raises(SinkChangedError, match=r"had committed checkpoint 2 .* knows of checkpoint 1"):
        again.commit(3, commits.requests("c"))
    assert kafka.values(commits.topic) == ["a", "b"]


def test_a_savepoint_of_another_job_tells_what_is_lost(kafka: Broker, commits: Commits) -> None:
    former, committer = commits.lineage, commits.committer()
    committer.commit(1, commits.requests("a"))
    state = committer.snapshot_state()
    create_again(kafka, commits)
    commits.lineage = random_id()
    with pytest.raises(SinkChangedError, match=ALL_LOST):
        commits.restored(2, former, state)


def test_a_deleted_group_is_a_loss_until_brokers_may_have_forgotten_it(kafka: Broker, commits: Commits) -> None:
    commits.clock = clock = ManualClock(int(time.time() * 1000))
    committer, first = commits.committer(), commits.requests("a")
    committer.commit(1, first)
    state, group = committer.snapshot_state(), commits.application
    forget(kafka, commits)
    clock.advance(6 * 86_400_000)  # the broker keeps offsets for seven days
    with pytest.raises(SinkChangedError, match=f"(?s)If only the consumer group '{group}' was deleted, no message is lost"):
        commits.restored(1, state=state)
    prefix, commits.prefix = commits.prefix, f"p-{random_id()}"
    commits.restored(1, state=state).commit(1, first)
    commits.prefix = prefix
    clock.advance(2 * 86_400_000)
    commits.restored(1, state=state).commit(1, first)
    assert kafka.values(commits.topic) == ["a"]


def test_a_sink_with_another_topic_misses_nothing_on_the_old_one(kafka: Broker, commits: Commits) -> None:
    committer = commits.committer()
    committer.commit(1, commits.requests("a"))
    kafka.delete_topic(commits.topic)
    commits.topic = kafka.create_topic(1)
    commits.restored(2, state=committer.snapshot_state()).commit(2, commits.requests("b"))
    assert kafka.values(commits.topic) == ["b"]


def test_an_idle_sink_renews_its_commit_but_not_on_a_topic_that_lost_it(kafka: Broker, commits: Commits) -> None:
    commits.clock = clock = ManualClock(int(time.time() * 1000))
    committer, first = commits.committer(), commits.requests("a")
    committer.commit(1, first)
    times: list[int] = []
    restored = commits.restored(1, state=committer.snapshot_state())
    send = restored._send_marker

    def count(*marker: Any) -> None:
        times.append(clock.wall_time())
        send(*marker)

    restored._send_marker = count  # type: ignore[method-assign]
    restored.commit(1, first)
    for number in range(2, 6):
        clock.advance(1_800_000)
        restored.commit(number, [])
    assert len(times) == 2
    create_again(kafka, commits)
    clock.advance(3_600_000)
    with pytest.raises(SinkChangedError, match=ALL_LOST):
        restored.commit(6, [])
    with pytest.raises(SinkChangedError, match=ALL_LOST):
        restored.commit(7, commits.requests("b"))


def test_a_missing_or_changed_file_of_messages_fails_the_commit(commits: Commits) -> None:
    requests = commits.requests("a", staged=True)
    (file,) = commits.staged_files()
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"x")
    with pytest.raises(ForeignCheckpointError, match="is not what was written"):
        commits.committer().commit(1, requests)
    file.unlink()
    with pytest.raises(ForeignCheckpointError, match="is gone, whose messages were not written to Kafka yet"):
        commits.committer().commit(1, requests)


@locally
@BOTH_FORMS
def test_large_checkpoints_go_through_files(
    kafka: Broker, make_env: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_columns: bool
) -> None:
    topic = kafka.create_topic(1)
    env = make_env(2, {"execution.checkpointing.interval": "1 h", "execution.checkpointing.dir": tmp_path})
    values = [f"{number:0200}" for number in range(2000)]
    stream = texts(env, values, by_columns=by_columns)
    stream.sink_to(sink_to(kafka, serializer(topic), DeliveryGuarantee.EXACTLY_ONCE).build())
    written: list[Any] = []
    write = Staging.write
    monkeypatch.setattr(Staging, "write", lambda self, *arguments: written.append(1) or write(self, *arguments))
    env.execute()
    assert sorted(kafka.values(topic)) == values
    assert written
    assert list(tmp_path.rglob("*.messages")) == []


def test_the_example_of_the_documentation_prints_what_it_says(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create_topic(1, "words")
    monkeypatch.setenv("BROKERS", kafka.address)
    monkeypatch.setenv("FLINKISH_PROPERTIES", "-Dexecution.engine=local")
    (block,) = blocks(PAGES_FOLDER / "connectors" / "kafka.md", "python")
    exec(compile(block.content, "kafka.md", "exec", dont_inherit=True), {"__name__": "example"})
    assert capsys.readouterr().out == block.output


@locally
@BOTH_FORMS
@pytest.mark.parametrize("avro", [False, True])
def test_rows_of_columns_are_written_with_their_times(
    kafka: Broker, make_env: MakeEnvironment, avro: bool, by_columns: bool
) -> None:
    rows = Types.ROW_NAMED(["at", "name", "share"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
    kinds = {"share": "double", "at": "long", "name": ["null", "string"]}  # in another order
    record = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    values = [Row(at=n * 100, name=f"n\n{n} grün" if n % 5 else None, share=n / 3) for n in range(200)]
    schema: SerializationSchema = JsonRowSerializationSchema.builder().with_type_info(rows).build()
    if avro:
        schema = AvroRowSerializationSchema(avro_schema_string=json.dumps(record))
    assert schema.why_records is None
    topic = kafka.create_topic(1)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    stream = make_env(1).from_collection(values, rows).assign_timestamps_and_watermarks(by_time)
    if by_columns:
        stream = stream.filter(pc.field("at") >= 0)
    message = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(schema)
    stream.sink_to(sink_to(kafka, message, DeliveryGuarantee.EXACTLY_ONCE).build())
    stream.get_execution_environment().execute()
    found = [(message.value(), message.timestamp()[1]) for message in kafka.read(topic)]
    assert found == [(schema.serialize(row), max(1, row.at)) for row in values]
