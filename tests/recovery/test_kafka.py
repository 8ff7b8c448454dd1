"""Kafka to Kafka, killed with -9: consumers of committed messages see each one once, whatever was killed and when."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from tests.kit.kafka_broker import Broker
from tests.recovery import kafka_job
from tests.recovery.processes import running

pytestmark = pytest.mark.kill

_SEED = int(os.environ.get("FLINKISH_SEED") or random.SystemRandom().randrange(2**32))
_CYCLES = 20


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
    records = 1000
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
        command = command_of(kafka, source, target, tmp_path, 1 + number % 3)
        with running(*command, log=tmp_path / "log", fault=fault, script="kafka_job.py") as job:
            assert job.finish() == -9, job.output()
        assert_nothing_twice(kafka.values(target), wanted)
    seen = kafka.values(target)
    assert 0 < len(seen) < len(wanted)
    monkeypatch.delenv("KAFKA_KILL")
    with running(*command_of(kafka, source, target, tmp_path, 3), log=tmp_path / "log", script="kafka_job.py") as job:
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
def test_a_job_killed_at_random_at_changing_parallelism_writes_every_message_once(kafka: Broker, on: str, tmp_path: Path) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(f"{_SEED} {on}")
    records = 30_000 if on == "local" else 10_000
    wanted = kafka_job.expected(records)
    source, target = kafka.create_topic(4), kafka.create_topic(3)
    kafka.produce(source, kafka_job.messages(records))
    ended = kills = 0
    while not ended:
        more = [f"--engine={on}", "--pause=0.001" if kills < _CYCLES else "--pause=0"]
        more.append(f"-Dexecution.epoch.max-records={rng.choice([20, 100])}")
        command = command_of(kafka, source, target, tmp_path, rng.randint(1, 4), *more)
        with running(*command, log=tmp_path / f"log {kills}", script="kafka_job.py") as job:
            until = rng.uniform(1.0, 4.0) if on == "local" else rng.uniform(6.0, 25.0)
            if kills < _CYCLES:
                over = threading.Event()
                for _ in range(int(until / 0.05)):
                    if job.process.poll() is not None:
                        break
                    over.wait(0.05)
                if job.process.poll() is None:
                    job.kill_all()
                    kills += 1
                    print(f"kill {kills}: {command[4]}, after {until:.1f} s, {len(kafka.values(target))} messages", flush=True)
                    assert_nothing_twice(kafka.values(target), wanted)
                    continue
            job.assert_finished()
            ended += 1
    assert sorted(kafka.values(target)) == wanted
    assert kills >= _CYCLES
