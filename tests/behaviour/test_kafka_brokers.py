"""KafkaSource with brokers that use TLS and passwords, are killed, or lose data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.common.errors import JobExecutionError, SourceError
from tests.conftest import MakeEnvironment, locally
from tests.kit.kafka_broker import Broker, own_broker
from tests.kit.kafka_sources import LATEST, NO_WATERMARKS, read, reader_at, source_of, split_at
from tests.unit.datastream.connectors.fakes import FakeOutput


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that uses TLS and requires a password, and that tests may kill."""
    with own_broker(tmp_path_factory.mktemp("secure") / "broker", secure=True) as broker:
        yield broker


@locally
def test_a_wrong_password_fails_the_job_and_is_not_shown(secure: Broker, make_env: MakeEnvironment) -> None:
    topic = secure.create_topic(1)
    builder = source_of(secure, topic).set_bounded(LATEST).set_property("sasl.password", "wrong-secret")
    with pytest.raises(JobExecutionError, match=r"check security\.protocol") as raised:
        read(make_env(1), builder)
    assert "wrong-secret" not in str(raised.value)
    builder.set_property("sasl.password", "right")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="tester" password="right";'
    del builder._properties["sasl.username"], builder._properties["sasl.password"]
    assert read(make_env(1), builder.set_property("sasl.jaas.config", jaas)) == []


@locally
def test_a_broker_whose_certificate_is_not_trusted_is_refused_by_name(secure: Broker, make_env: MakeEnvironment) -> None:
    topic = secure.create_topic(1)
    secure.produce(topic, ["a"])
    builder = source_of(secure, topic).set_bounded(LATEST)
    certificate = builder._properties.pop("ssl.ca.location")
    with pytest.raises(JobExecutionError, match=r"check security\.protocol, sasl\.\* and ssl\.\*"):
        read(make_env(1), builder)
    # Java's names, with the file and with its text.
    builder.set_property("ssl.truststore.type", "PEM").set_property("ssl.truststore.location", certificate)
    assert read(make_env(1), builder) == ["a"]
    del builder._properties["ssl.truststore.location"]
    assert read(make_env(1), builder.set_property("ssl.truststore.certificates", Path(certificate).read_text())) == ["a"]


@locally
def test_a_job_survives_a_broker_that_is_killed_and_started_again(secure: Broker, make_env: MakeEnvironment) -> None:
    topic = secure.create_topic(2)
    secure.produce(topic, [f"{number}" for number in range(500)])
    env = make_env(2, {"execution.epoch.max-records": 20})
    stream = env.from_source(source_of(secure, topic).build(), NO_WATERMARKS, "kafka")
    with stream.execute_and_collect() as results:
        found = [next(results) for _ in range(100)]
        secure.kill()
        secure.start(os.getpid())
        secure.produce(topic, [f"{number}" for number in range(500, 600)])
        while len(found) < 600:
            found.append(next(results))
    assert sorted(found, key=int) == [f"{number}" for number in range(600)]


def cut_off(broker: Broker, topic: str, batches: int) -> None:
    """Remove the batches of a topic after the first ones, which a broker may lose if the machine crashes."""
    folder = broker.folder / "data" / f"{topic}-0"
    (log,) = folder.glob("*.log")
    data, end = log.read_bytes(), 0
    for _ in range(batches):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    log.write_bytes(data[:end])
    for index in [*folder.glob("*index"), *folder.glob("*.snapshot")]:
        index.unlink()


def test_a_log_that_was_cut_off_and_has_grown_again_is_an_error(secure: Broker) -> None:
    topic = secure.create_topic(1)
    for number in range(10):
        secure.produce(topic, [f"old {number}"])
    running = reader_at(source_of(secure, topic), split_at(topic, 0), end=10)
    output = FakeOutput(100)
    running.poll_next(output)
    assert len(output.values) == 10
    (split,) = running.snapshot_state()
    assert (split.offset, split.leader_epoch) == (10, 0)
    secure.kill()
    cut_off(secure, topic, 4)
    secure.start(os.getpid())
    secure.produce(topic, [f"new {number}" for number in range(10)])
    restored = reader_at(source_of(secure, topic), split, end=14)
    running.set_split_limits({split.split_id: 14})
    for reader in (running, restored):
        with pytest.raises(SourceError, match=r"the messages before offset 10, .*, are not those that were read"):
            reader.poll_next(FakeOutput(100))
        reader.close()
