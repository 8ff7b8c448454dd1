"""Kafka: a million messages of 100 bytes in four partitions, beside PyFlink with its connector's jar."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench import peer
from tests.kit.kafka_broker import Broker

#: The path of the jar of PyFlink's connector (flink-sql-connector-kafka), for the comparison.
JAR = "PYFLINK_KAFKA_JAR"


def fill(broker: Broker, messages: int) -> str:
    """Make a topic that holds so many messages of 100 bytes."""
    from confluent_kafka import Producer

    topic = broker.create_topic(4)
    producer = Producer({**broker.client, "linger.ms": 50, "queue.buffering.max.messages": messages + 1})
    for number in range(messages):
        producer.produce(topic, b"%0100d" % number, partition=number % 4)
    producer.flush()
    return topic


def run(
    broker: Broker, program: str, source: str, *, engine: str = "local", guarantee: str = "AT_LEAST_ONCE", pyflink: bool = False
) -> float | None:
    """Run a program in a process of its own and return its seconds; None if it failed, which is printed."""
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
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("SECONDS")), None)
    if line is None:
        print(done.stderr[-2_000:], file=sys.stderr)
        return None
    return float(line.split()[1])
