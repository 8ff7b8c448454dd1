"""Fetch jars for the tests into a folder, the first argument: of a Kafka broker, or with --spark of Spark's own Kafka source.

Spark's Ivy does it, so only Java is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

VERSION = "4.3.1"
#: The logging back-end is the one that the client library of the broker is made for.
_BROKER = f"org.apache.kafka:kafka_2.13:{VERSION},org.slf4j:slf4j-simple:1.7.36"
_SPARK_SOURCE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"

_SESSION = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate()
session.stop()
"""


def main(target: Path, *, spark: bool) -> int:
    what, size = ("Spark's Kafka source", "10 MB") if spark else ("a Kafka broker", "44 MB")
    print(f"Fetching the jars of {what} for the tests ({size}, once) ...", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        command = [sys.executable, "-c", _SESSION, _SPARK_SOURCE if spark else _BROKER, f"{work}/ivy"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=work)
        if result.returncode != 0:
            print(result.stdout[-3000:], file=sys.stderr)
            print(f"Fetching the jars of {what} failed: see above; Maven Central must be reachable.", file=sys.stderr)
            return 1
        libs = Path(work, "libs")
        libs.mkdir()
        there = {_artifact(jar.name) for jar in _SPARK_JARS.glob("*.jar")} if spark else set()
        for jar in Path(work, "ivy", "jars").glob("*.jar"):
            if _artifact(jar.name.partition("_")[2]) not in there:  # Ivy puts the group before the name
                shutil.copy(jar, libs)
        if not spark:
            # Ivy leaves out what Spark has.
            for jar in _SPARK_JARS.glob("scala-library-*.jar"):
                shutil.copy(jar, libs)
        try:
            os.rename(libs, target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    return 0


def _artifact(name: str) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d[^-]*\.jar$", "", name)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), spark="--spark" in sys.argv[2:]))
