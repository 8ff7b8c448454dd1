"""The jars of Spark's own Kafka source, fetched once."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pyspark

from tests.kit.kafka_broker import JARS as BROKER_JARS
from tests.kit.kafka_broker import MissingJarsError

_SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "fetch_kafka.py"
JARS = BROKER_JARS.parent / f"spark-kafka-{pyspark.__version__}"


def connector_jars() -> list[Path]:
    """Return the jars, after fetching them unless they are there; raises MissingJarsError."""
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with (JARS.parent / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not JARS.is_dir():
            result = subprocess.run(
                [sys.executable, str(_SCRIPT), str(JARS), "--spark"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if result.returncode != 0:
                raise MissingJarsError(result.stdout[-2000:])
    return sorted(JARS.glob("*.jar"))
