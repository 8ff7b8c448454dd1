"""Kafka: messages of 100 bytes in four partitions, beside PyFlink with its connector's jar, Spark's own source, and Quix Streams.

Each program runs in a process of its own. The other engines are only measured where the environment names what they need.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import peer
from tests.kit.kafka_broker import Broker
from tests.kit.spark_kafka import connector_jars

#: The path of the jar of PyFlink's connector (flink-sql-connector-kafka), for the comparison.
JAR = "PYFLINK_KAFKA_JAR"
#: The Python that has Quix Streams (the package quixstreams).
QUIX = "QUIX_PYTHON"


#: Number of messages that wait in the client while a topic is filled.
_FILLED_TOGETHER = 1_000_000


@dataclass(frozen=True)
class Took:
    """What a program took; processor seconds are those of the processes that were waited for: not of the JVM of Spark."""

    seconds: float
    cpu: float


def fill(broker: Broker, messages: int, message: Callable[[int], bytes] = b"%0100d".__mod__) -> str:
    """Make a topic with this number of messages, of 100 bytes unless `message` makes others."""
    from confluent_kafka import Producer

    topic = broker.create_topic(4)
    producer = Producer({**broker.client, "linger.ms": 50, "queue.buffering.max.messages": _FILLED_TOGETHER})
    for number in range(messages):
        producer.produce(topic, message(number), partition=number % 4)
        if (number + 1) % _FILLED_TOGETHER == 0:
            producer.flush()
    producer.flush()
    return topic


def run(
    broker: Broker, program: str, source: str, *, engine: str = "local", guarantee: str = "AT_LEAST_ONCE", pyflink: bool = False
) -> Took | None:
    """Run a program of kafka_program.py; None if it failed, which is printed."""
    text = Path(__file__).with_name("kafka_program.py").read_text(encoding="utf-8")
    environment = {**os.environ, "GUARANTEE": guarantee}
    with tempfile.TemporaryDirectory() as folder:
        settings = ["execution.checkpointing.interval=1 s", f"execution.checkpointing.dir=file://{folder}/checkpoints"]
        interpreter = sys.executable
        if pyflink:
            found = peer.python()
            assert found is not None
            interpreter = found
            text = re.sub(r"\bflinkish\b", "pyflink", text)
            environment["PATH"] = os.pathsep.join([str(Path(interpreter).parent), os.environ["PATH"]])
            environment["JARS"] = os.environ[JAR]
            settings.append("python.execution-mode=process")
        else:
            settings.append(f"execution.engine={engine}")
        script = Path(folder) / "kafka_program.py"
        script.write_text(text, encoding="utf-8")
        command = [interpreter, str(script), program, broker.address, source, broker.create_topic(4), *settings]
        return _measured(command, environment)


def run_spark(broker: Broker, program: str, source: str) -> Took | None:
    """Run a program of kafka_spark.py; None if it failed, which is printed."""
    jars = map(str, connector_jars())
    with tempfile.TemporaryDirectory() as folder:
        script = str(Path(__file__).with_name("kafka_spark.py"))
        return _measured([sys.executable, script, program, broker.address, source, broker.create_topic(4), folder, *jars])


def run_json(broker: Broker, program: str, source: str) -> Took | None:
    """Run a program of kafka_json.py; None if it failed, which is printed."""
    jars = map(str, connector_jars()) if program.endswith("spark") else ()
    with tempfile.TemporaryDirectory() as folder:
        script = str(Path(__file__).with_name("kafka_json.py"))
        return _measured([sys.executable, script, program, broker.address, source, broker.create_topic(4), folder, *jars])


def run_quix(broker: Broker, source: str, messages: int) -> Took | None:
    """Run kafka_quix.py; None if it failed, which is printed."""
    with tempfile.TemporaryDirectory() as folder:
        script = str(Path(__file__).with_name("kafka_quix.py"))
        arguments = [broker.address, source, broker.create_topic(4), str(messages), folder]
        return _measured([os.environ[QUIX], script, *arguments])


def _measured(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Took | None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = next((line for line in done.stdout.splitlines() if line.startswith("SECONDS")), None)
    if line is None:
        print(done.stderr[-2_000:], file=sys.stderr)
        return None
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(float(line.split()[1]), cpu)
