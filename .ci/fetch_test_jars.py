"""Fetch jars for the tests: fetch_test_jars.py NAME FOLDER. Spark's Ivy does it, so only Java is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
#: The version of Hadoop that Spark has the client of.
_HADOOP = next(_SPARK_JARS.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]


@dataclass(frozen=True)
class Jars:
    """Packages to fetch with all that they need."""

    what: str
    size: str
    packages: str
    #: Leave out what Spark has, because the jars are added to a session.
    beside_spark: bool = False
    #: Jars of Spark that are needed, too: Ivy leaves them out.
    of_spark: str = ""
    #: Packages to leave out, with all that they need.
    without: str = ""


NAMES = {
    # The logging back-end is the one that the client library of the broker is made for.
    "kafka": Jars(
        "a Kafka broker",
        "44 MB",
        "org.apache.kafka:kafka_2.13:4.3.1,org.slf4j:slf4j-simple:1.7.36",
        of_spark="scala-library-*",
    ),
    "spark-kafka": Jars(
        "Spark's Kafka source", "10 MB", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}", beside_spark=True
    ),
    "flink-python": Jars("what Flink's command line starts Python scripts with", "43 MB", "org.apache.flink:flink-python:2.3.0"),
    "flink-page": Jars(
        "Flink's web page",
        "4 MB",
        "org.apache.flink:flink-runtime-web:2.3.0",
        # Only the files in the jar are served, so nothing that its classes need.
        without="org.apache.flink:flink-runtime,org.apache.flink:flink-clients,org.apache.flink:flink-java,"
        "org.apache.flink:flink-shaded-guava,org.apache.flink:flink-shaded-jackson,org.apache.flink:flink-shaded-netty",
    ),
    # YARN's ResourceManager and NodeManager, with what they need and the jar does not have.
    "yarn": Jars(
        "YARN",
        "69 MB",
        f"org.apache.hadoop:hadoop-client-minicluster:{_HADOOP},org.bouncycastle:bcpkix-jdk18on:1.82,"
        "commons-logging:commons-logging:1.3.0,org.slf4j:slf4j-reload4j:1.7.36",
        without="org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime",
    ),
    "flink": Jars("Flink's command line", "82 MB", "org.apache.flink:flink-clients:2.3.0,org.slf4j:slf4j-nop:1.7.36"),
}

_SESSION = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
if sys.argv[3]:
    builder = builder.config("spark.jars.excludes", sys.argv[3])
session = builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate()
session.stop()
"""


def main(name: str, target: Path) -> int:
    wanted = NAMES[name]
    print(f"Fetching the jars of {wanted.what} for the tests ({wanted.size}, once) ...", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        command = [sys.executable, "-c", _SESSION, wanted.packages, f"{work}/ivy", wanted.without]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=work)
        if result.returncode != 0:
            print(result.stdout[-3000:], file=sys.stderr)
            print(f"Fetching the jars of {wanted.what} failed: see above; Maven Central must be reachable.", file=sys.stderr)
            return 1
        libs = Path(work, "libs")
        libs.mkdir()
        there = {_artifact(jar.name) for jar in _SPARK_JARS.glob("*.jar")} if wanted.beside_spark else set()
        for jar in Path(work, "ivy", "jars").glob("*.jar"):
            if _artifact(jar.name.partition("_")[2]) not in there:  # Ivy puts the group before the name
                shutil.copy(jar, libs)
        if wanted.of_spark:
            for jar in _SPARK_JARS.glob(f"{wanted.of_spark}.jar"):
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
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
