"""Kafka to Kafka, killed with -9: consumers of committed messages see each one once, whatever was killed and when."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.kit.kafka_broker import Broker
from tests.kit.seeds import chosen_seed
from tests.kit.waiting import wait_until
from tests.recovery import kafka_job
from tests.recovery.processes import running

pytestmark = pytest.mark.kill

_SEED = chosen_seed()
_CYCLES = 20
_POINTS = ("P6", "P7", "P8", "P9", "P10", "P11", "P12", "P15")
_PLACES = ("produced", "marked", "committed")


def written_in(broker: Broker, topic: str) -> int:
    """Return about how many messages a topic holds: also those of open transactions, and their marks."""
    consumer = broker.consumer()
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)[1] for number in partitions)
    finally:
        consumer.close()


def command_of(broker: Broker, source: str, target: str, output: Path, parallelism: int, *more: str) -> list[str]:
    return [
        f"--brokers={broker.address}",
        f"--source={source}",
        f"--target={target}",
        f"--output={output}",
        f"--parallelism={parallelism}",
        "-Dhigh-availability.cluster-id=kafka",
        *more,
    ]


def assert_nothing_twice(seen: list[str], wanted: list[str]) -> None:
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(wanted)


def test_a_job_killed_in_and_around_its_commits_writes_every_message_once(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There must be work left at each kill, also if the disk is so busy that a commit takes as long as many epochs.
    records, options = 3_000, ["--engine=local", "--pause=0.02"]
    wanted = kafka_job.expected(records)
    source, target = kafka.create_topic(3), kafka.create_topic(2)
    kafka.produce(source, kafka_job.messages(records))
    for number, (place, fault) in enumerate(
        [
            ("marked:2", None),
            ("committed:2", None),
            ("", "P10:kill9:nth=2"),
            ("produced", None),
            ("", "P6:kill9:nth=9"),
        ]
    ):
        monkeypatch.setenv("KAFKA_KILL", place)
        command = command_of(kafka, source, target, tmp_path, 1 + number % 3, *options)
        with running(*command, log=tmp_path / "log", fault=fault, script="kafka_job.py") as job:
            assert job.finish() == -9, job.output()
        assert_nothing_twice(kafka.values(target), wanted)
    seen = kafka.values(target)
    assert 0 < len(seen) < len(wanted)
    monkeypatch.delenv("KAFKA_KILL")
    with running(
        *command_of(kafka, source, target, tmp_path, 3, "--engine=local"), log=tmp_path / "log", script="kafka_job.py"
    ) as job:
        job.assert_finished()
    messages = kafka.read(target)
    assert sorted(message.value().decode() for message in messages) == wanted
    # The counts of a key come in their order.
    for key in {message.key() for message in messages}:
        own = [int(message.value().split()[1]) for message in messages if message.key() == key]
        assert own == sorted(own)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job_killed_at_random_at_changing_parallelism_writes_every_message_once(
    kafka: Broker, on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(f"{_SEED} {on}")
    records = 30_000 if on == "local" else 10_000
    wanted = kafka_job.expected(records)
    source, target = kafka.create_topic(4), kafka.create_topic(3)
    kafka.produce(source, kafka_job.messages(records))
    kills = written = 0
    while True:
        last = kills >= _CYCLES
        more = [f"--engine={on}", "--pause=0" if last else "--pause=0.002"]
        more.append(f"-Dexecution.epoch.max-records={rng.choice([20, 100])}")
        if rng.random() < 0.5:
            more.append("--columns")
        fault, place = None, ""
        match rng.choice(["point", "commit", "any time", "any time"]):
            case "point":
                fault = f"{rng.choice(_POINTS)}:kill9:nth={rng.randint(1, 5)}"
            case "commit":
                place = f"{rng.choice(_PLACES)}:{rng.randint(1, 5)}"
        monkeypatch.setenv("KAFKA_KILL", "" if last else place)
        command = command_of(kafka, source, target, tmp_path, rng.randint(1, 4), *more)
        with running(*command, log=tmp_path / f"log {kills}", fault=None if last else fault, script="kafka_job.py") as job:
            if last:
                job.assert_finished(3_600)
                break
            before = written_in(kafka, target)
            with suppress(AssertionError):
                # Most are killed while they write, some before.
                until = rng.choice([2.0, 300.0, 300.0, 300.0])
                wait_until("it writes", lambda: written_in(kafka, target) > before, until, ended=job.has_ended)  # noqa: B023
                wait_until("a moment later", job.has_ended, rng.uniform(0.0, 1.0))
            assert job.process.poll() in (None, -9), job.output()
            job.kill_all()
        kills += 1
        seen = kafka.values(target)
        assert_nothing_twice(seen, wanted)
        written = len(seen)
        print(f"kill {kills}: {command[4]}, {fault or place or 'any time'}: {written} messages", flush=True)
    assert sorted(kafka.values(target)) == wanted
    assert 0 < written < len(wanted)
