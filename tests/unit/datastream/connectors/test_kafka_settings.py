"""What builders of the Kafka connector take and refuse; no broker."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.common import Configuration
from flinkish.common.clock import ManualClock
from flinkish.common.errors import (
    ConfigurationError,
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    MissingPackageError,
    SourceError,
    UnsupportedError,
)
from flinkish.common.serialization import SimpleStringSchema
from flinkish.common.typeinfo import Types
from flinkish.datastream.connectors.base import DeliveryGuarantee
from flinkish.datastream.connectors.file_system.json_values import JsonConverters
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    client,
    enumerator,
)
from flinkish.datastream.connectors.kafka.brokers import Brokers, PassingError
from flinkish.datastream.connectors.kafka.client import client_configuration
from flinkish.datastream.connectors.kafka.committer import KafkaCommitter
from flinkish.datastream.connectors.kafka.offsets import OffsetKind
from flinkish.datastream.connectors.kafka.settings import KafkaEnumeratorState, KafkaPartitionSplit
from flinkish.datastream.formats.json import JsonRowDeserializationSchema
from tests.unit.datastream.connectors.fakes import FakeEnumeratorContext

JAAS = 'org.apache.kafka.common.security.{}LoginModule required username="me" password="a \\"b\\";c";'


def builder(**properties: str) -> KafkaSourceBuilder:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers("nowhere:9092")
        .set_topics("t")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_properties({key.replace("_", "."): value for key, value in properties.items()})
    )


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({"fetch.max.wait.ms": "7"}, {"fetch.wait.max.ms": "7"}),
        ({"buffer.memory": "2048"}, {"queue.buffering.max.kbytes": "2"}),
        ({"sasl.jaas.config": JAAS.format("Plain")}, {"sasl.username": "me", "sasl.password": 'a "b";c'}),
        ({"sasl.jaas.config": JAAS.format("scram.Scram")}, {"sasl.username": "me", "sasl.password": 'a "b";c'}),
        ({"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "ca.pem"}),
        ({"ssl.keystore.location": "me.p12"}, {"ssl.keystore.location": "me.p12"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer"}, {}),
        ({"enable.auto.commit": "false"}, {}),
        ({"fetch.min.bytes": "1"}, {"fetch.min.bytes": "1"}),
    ],
)
def test_properties_of_java_become_those_of_librdkafka(java: dict[str, str], expected: dict[str, str]) -> None:
    assert client_configuration(java, "x") == expected


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer", "schema with the builder"),
        ("ssl.truststore.location", "trust.jks", r"ssl\.ca\.location=ca\.pem"),
        ("ssl.truststore.password", "geheim", r"ssl\.ca\.location=ca\.pem"),
        ("ssl.keystore.location", "me.jks", "deststoretype PKCS12"),
        ("sasl.jaas.config", 'com.sun.security.auth.module.Krb5LoginModule required keyTab="geheim";', r"sasl\.kerberos\.keytab"),
        ("sasl.jaas.config", "x.PlainLoginModule required password=geheim;", r"sasl\.username and sasl\.password"),
        ("enable.auto.commit", "true", r"execution\.checkpointing\.interval"),
        ("max.poll.records", "10", r"execution\.epoch\.max-bytes"),
        ("interceptor.classes", "a.B", "map"),
        ("no.such.property", "1", "librdkafka"),
        ("fetch.wait.max.ms", "soon", "librdkafka"),
        ("auto.offset.reset", "sometimes", "earliest, latest or none"),
        ("isolation.level", "open", "read_committed or"),
        ("partition.discovery.interval.ms", "often", "milliseconds"),
        ("commit.offsets.on.checkpoint", "maybe", "true or false"),
        ("commit.offsets.on.checkpoint", "true", "set_group_id"),
        ("group.id", "", "name a group"),  # librdkafka would abort the process
        ("enable.partition.eof", "false", "always sets it to true"),
        ("enable.auto.offset.store", "True", "always sets it to false"),
        ("default.api.timeout.ms", "-1", "at least 1"),
    ],
)
def test_a_property_that_cannot_be_used_is_refused_by_name_and_shows_no_secret(key: str, value: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint) as raised:
        builder().set_property(key, value).build().validate()
    assert key in str(raised.value)
    assert "geheim" not in str(raised.value)


def test_secrets_show_in_no_text_of_a_source() -> None:
    source = builder(sasl_password="geheim", sasl_jaas_config="geheim", ssl_key_pem="geheim", ssl_key_password="geheim").build()
    assert "geheim" not in repr(source)
    assert "geheim" not in repr(source._settings)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: KafkaSource.builder().build(), "needs brokers"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("a:1").build(), "needs topics"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("a:1").set_topics("t").build(), "needs a deserializer"),
        (lambda: builder().set_topic_pattern("t.*"), "set_topics"),
        (lambda: builder().set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(), "set_group_id"),
        (lambda: builder().set_starting_offsets("earliest"), "KafkaOffsetsInitializer"),  # type: ignore[arg-type]
        (lambda: builder().set_deserializer(SimpleStringSchema()), "set_value_only"),  # type: ignore[arg-type]
        (lambda: KafkaSource.builder().set_topic_pattern("("), "regular expression"),
        (lambda: KafkaSource.builder().set_partitions({("t", 0)}), "KafkaTopicPartition"),  # type: ignore[arg-type]
        (lambda: KafkaTopicPartition("t", -1), "at least 0"),
        (lambda: KafkaOffsetsInitializer.timestamp("now"), "at least 0"),  # type: ignore[arg-type]
        (lambda: KafkaOffsetsInitializer.offsets({"t": 0}), "KafkaTopicPartition"),  # type: ignore[dict-item]
        (lambda: builder().set_property("a", []), "must be text"),  # type: ignore[arg-type]
        (lambda: builder().set_bootstrap_servers(9092), r"got 9092 of type int\.\nHint: 'host:9092'"),  # type: ignore[arg-type]
        (lambda: KafkaSink.builder().set_bootstrap_servers(["a:1"]), r"got \['a:1'\]"),  # type: ignore[arg-type]
        (lambda: KafkaSource.builder().set_topics(["a"]), r"Hint: set_topics\('a', 'b'\)"),  # type: ignore[arg-type]
    ],
)
def test_a_builder_refuses_what_cannot_work(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        wrong()


def test_a_schema_that_ends_the_stream_is_refused() -> None:
    class Ending(SimpleStringSchema):
        def is_end_of_stream(self, next_element: Any) -> bool:
            return bool(next_element == "end")

    with pytest.raises(UnsupportedError, match="set_bounded"):
        builder().set_value_only_deserializer(Ending())


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingPackageError, match="flinkish\\[kafka\\]"):
        builder().build().validate()


def test_a_checkpoint_with_a_topic_that_is_not_read_is_refused() -> None:
    def split(topic: str) -> KafkaPartitionSplit:
        return KafkaPartitionSplit(split_id=f"{topic}-0", topic=topic, partition=0, offset=7)

    source = builder().build()
    source.check_restored([split("t")], None, trusted=True)
    with pytest.raises(ForeignCheckpointError, match="offset 7 of other-0"):
        source.check_restored([split("other")], None, trusted=True)


def test_a_source_and_what_it_consists_of_can_be_pickled_and_compared() -> None:
    source = pickle.loads(pickle.dumps(builder(group_id="g").build()))
    assert source._settings.group == "g"
    assert KafkaTopicPartition("a", 1) == pickle.loads(pickle.dumps(KafkaTopicPartition("a", 1)))
    assert KafkaTopicPartition("a", 1) != KafkaTopicPartition("a", 2)


def test_a_source_that_stops_looks_for_no_new_partitions() -> None:
    latest = KafkaOffsetsInitializer.latest()
    assert builder().build()._settings.discovery_interval == 300_000
    assert builder().set_bounded(latest).build()._settings.discovery_interval is None
    assert builder().set_unbounded(latest).build()._settings.discovery_interval is None
    assert builder(partition_discovery_interval_ms="-1").build()._settings.discovery_interval is None


@pytest.mark.parametrize("key", ["transaction.timeout.ms", "message.timeout.ms", "delivery.timeout.ms"])
def test_a_time_that_is_no_number_is_refused_by_name(key: str) -> None:
    schema = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema()).build()
    sink = KafkaSink.builder().set_bootstrap_servers("nowhere:9092").set_record_serializer(schema)
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("p")
    sink.set_property(key, "30000").build().validate(Types.STRING())
    with pytest.raises(ConfigurationError, match=r"(transaction|message)\.timeout\.ms"):
        sink.set_property(key, "soon").build().validate(Types.STRING())


@pytest.mark.parametrize("value", ["none", "error", "Error"])
def test_none_has_the_name_of_java_or_of_librdkafka(value: str) -> None:
    assert builder(auto_offset_reset=value).build()._settings.reset == "none"


def test_properties_that_need_an_idempotent_producer_are_for_no_other_client() -> None:
    schema = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema()).build()
    sink = KafkaSink.builder().set_bootstrap_servers("nowhere:9092").set_record_serializer(schema)
    settings = sink.set_property("enable.gapless.guarantee", "true").set_property("acks", "all").build()._settings
    client.make("Producer", settings.producer("0"), "KafkaSink")
    client.make("AdminClient", settings.admin("0"), "KafkaSink")


def test_transactions_without_an_idempotent_producer_are_refused() -> None:
    schema = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema()).build()
    sink = KafkaSink.builder().set_bootstrap_servers("nowhere:9092").set_record_serializer(schema)
    sink.set_property("enable.idempotence", "false").build().validate(Types.STRING())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("p")
    with pytest.raises(InvalidProgramError, match=r"enable\.idempotence = 'false'(.|\n)*AT_LEAST_ONCE"):
        sink.build()


def test_properties_of_another_kind_of_client_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    schema = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema()).build()
    sink = KafkaSink.builder().set_bootstrap_servers("nowhere:9092").set_record_serializer(schema)
    builder(group_id="g", fetch_min_bytes="1").build().validate()
    sink.build().validate(Types.STRING())
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    builder(linger_ms="7", acks="all").build().validate()
    sink.set_property("fetch.min.bytes", "1").build().validate(Types.STRING())
    first, second = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert first.startswith("KafkaSource: these properties have no effect on it: ")
    assert "request.required.acks (of a producer)" in first  # librdkafka's own name of acks
    assert second == "KafkaSink: these properties have no effect on it: fetch.min.bytes (of a consumer)."


def test_records_are_new_only_if_the_schema_is_known_to_make_them() -> None:
    class Own(JsonRowDeserializationSchema):
        """May keep what it returns."""

    row = Types.ROW_NAMED(["a"], [Types.LONG()])
    kept: Any = Own(row, JsonConverters())
    made = JsonRowDeserializationSchema.builder().type_info(row).build()
    for schema, new in ((made, True), (kept, False), (SimpleStringSchema(), False)):
        source = KafkaSource.builder().set_bootstrap_servers("x:1").set_topics("t").set_value_only_deserializer(schema).build()
        assert source.makes_new_records is new


def test_wrong_kinds_of_arguments_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="builder"):
        KafkaSource("java object")  # type: ignore[arg-type]


def test_the_ends_of_partitions_are_looked_at_by_one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Brokers, "look", lambda self, reading: {})
    context = FakeEnumeratorContext()
    state = KafkaEnumeratorState(known=("t-0",), pending=(), discovered=True)
    found = builder().build().restore_enumerator(context, state)  # type: ignore[arg-type]
    assert isinstance(found, enumerator.KafkaEnumerator)
    split = KafkaPartitionSplit(split_id="t-0", topic="t", partition=0, offset=7)
    found.add_splits_back([split], 0)
    found.start()
    # Partitions that are found later are looked at together with the others: of two looks that end, one begins another.
    found._take(([KafkaPartitionSplit(split_id="t-1", topic="t", partition=1, offset=0)], {("t", 1): 5}), None)
    # The new ones can be read at once.
    assert found.split_limits() == {"t-1": 5}
    looks = [call for call in context.calls if call[2] is None]
    assert len(looks) == 2
    context.calls.clear()
    for work, handler, _ in looks:
        handler(work(), None)
    assert len(context.calls) == 1
    found.close()


def test_a_topic_that_was_made_again_is_noticed_also_if_a_new_one_was_found_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def described(asked: Any, request_timeout: float) -> dict[str, Future[Any]]:
        found: dict[str, Future[Any]] = {name: Future() for name in asked.topic_names}
        for name, future in found.items():
            future.set_result(SimpleNamespace(topic_id=f"id of {name}"))
        return found

    monkeypatch.setattr(Brokers, "_listed", lambda self, pairs, spec: (dict.fromkeys(pairs, 500), {}))
    monkeypatch.setattr(Brokers, "_admin_client", lambda self: SimpleNamespace(describe_topics=described))
    settings: Any = SimpleNamespace(timeout=1_000)
    brokers = Brokers(settings, ManualClock(), {"old": "another id"})
    assert brokers.moved([("new", 0)]) == {("new", 0): 500}
    with pytest.raises(SourceError, match="'old' was deleted and created again"):
        brokers.moved([("old", 0)])


@pytest.mark.parametrize("bounded", [False, True])
def test_partitions_that_were_added_are_found_at_each_start_also_without_discovery(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offsets(self: Any, pairs: Any, rule: KafkaOffsetsInitializer, what: str) -> dict[Any, int]:
        return dict.fromkeys(pairs, 0 if rule.kind is OffsetKind.EARLIEST else 9)

    answers: list[Any] = [PassingError("they are silent"), [("t", 0), ("t", 1)]]

    def partitions(self: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Brokers, "look", lambda self, reading: {})
    monkeypatch.setattr(Brokers, "moved", lambda self, pairs: dict.fromkeys(pairs, 9))
    monkeypatch.setattr(Brokers, "offsets", offsets)
    monkeypatch.setattr(Brokers, "partitions", partitions)
    source = builder(partition_discovery_interval_ms="-1").set_starting_offsets(KafkaOffsetsInitializer.latest())
    if bounded:
        source.set_bounded(KafkaOffsetsInitializer.latest())
    context = FakeEnumeratorContext()
    state = KafkaEnumeratorState(known=("t-0",), pending=(), discovered=True)
    found = source.build().restore_enumerator(context, state)  # type: ignore[arg-type]
    found.start()
    context.run_calls()
    # Brokers that do not answer are asked again; until then, nobody knows whether there are more partitions.
    assert (context.assigned, context.no_more) == ({}, set())
    context.calls.pop(0)
    context.run_calls()
    ((split,),) = context.assigned.values()
    assert (split.split_id, split.offset, split.stop) == ("t-1", 0, 9 if bounded else None)
    assert split.records_left == split.stop
    assert found.split_limits() == {"t-1": 9}
    assert context.no_more == {0}
    assert found.snapshot_state(2).known == ("t-0", "t-1")
    found.close()


@pytest.mark.parametrize("choose", ["topics", "pattern"])
def test_a_topic_whose_leaders_are_not_known_yet_is_waited_for(choose: str) -> None:
    kafka = client.library()
    source = KafkaSource.builder().set_bootstrap_servers("nowhere:9092").set_value_only_deserializer(SimpleStringSchema())
    source = source.set_topics("new") if choose == "topics" else source.set_topic_pattern("n.*")
    waiting, gone = (
        SimpleNamespace(error=kafka.KafkaError(code), partitions={})
        for code in (kafka.KafkaError.LEADER_NOT_AVAILABLE, kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
    )
    there = SimpleNamespace(error=None, partitions={0: None, 1: None})
    answers = [{"new": waiting}, {"new": waiting}, {"new": there, "not any more": gone}]
    admin = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=answers.pop(0)))
    clock = ManualClock()

    class Impatient(Brokers):
        def _admin_client(self) -> Any:
            return admin

        def _wait(self, milliseconds: int) -> bool:
            clock.advance(milliseconds)
            return True

    brokers = Impatient(source.build()._settings, clock, {})
    assert brokers.partitions() == [("new", 0), ("new", 1)]
    answers += [{"new": waiting}] * 1000
    with pytest.raises(PassingError, match="topic 'new' at nowhere:9092 cannot be read"):
        brokers.partitions()


def test_a_commit_that_waits_for_the_brokers_says_so_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    kafka = client.library()
    clock = ManualClock()
    schema = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers("nowhere:9092").set_record_serializer(schema.build()).build()
    committer = KafkaCommitter(sink._settings, Configuration(), clock)
    tries = []

    def call() -> None:
        tries.append(clock.monotonic())
        clock.advance(4_000)
        if len(tries) < 7:
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT, "no answer", retriable=True))

    committer._retrying("the transaction was not committed", call)
    text = "KafkaSink: the transaction was not committed; it is tried again: no answer (_TIMED_OUT)"
    assert [record.getMessage() for record in caplog.records] == [text, text]


class Shouted(SimpleStringSchema):
    """A schema of the user's own, which columns would not go through."""

    def serialize(self, element: Any) -> bytes:
        return super().serialize(element).upper()

    def deserialize(self, message: bytes) -> str:
        return super().deserialize(message).upper()


def test_a_source_has_columns_if_its_schema_decodes_blocks_of_values() -> None:
    assert builder().build().why_records is None
    assert "one by one" in (builder().set_value_only_deserializer(Shouted()).build().why_records or "")


def test_a_sink_takes_columns_if_nothing_but_the_value_depends_on_the_record() -> None:
    def why(schema: KafkaRecordSerializationSchemaBuilder) -> str:
        sink = KafkaSink.builder().set_bootstrap_servers("localhost:1").set_record_serializer(schema.build()).build()
        return sink.why_records or ""

    def texts(schema: SimpleStringSchema | None = None) -> KafkaRecordSerializationSchemaBuilder:
        return (
            KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(schema or SimpleStringSchema())
        )

    assert why(texts(SimpleStringSchema())) == ""
    assert "one by one" in why(texts(Shouted()))
    chosen = (
        texts(SimpleStringSchema()).set_topic_selector(lambda record: "t"),
        texts(SimpleStringSchema()).set_key_serialization_schema(SimpleStringSchema()),
        texts(SimpleStringSchema()).set_partitioner(lambda *_: 0),
        texts(SimpleStringSchema()).set_header_provider(lambda record: []),
    )
    assert {why(schema) for schema in chosen} == {"topic, key, partition or headers are chosen for each record"}
