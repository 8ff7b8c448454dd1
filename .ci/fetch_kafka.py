"""Fetch the jars of a Kafka broker for the tests into a folder, the argument. Spark's Ivy does it, so only Java is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "4.3.1"
#: The logging back-end is the one that the client library of the broker is made for.
_PACKAGES = f"org.apache.kafka:kafka_2.13:{VERSION},org.slf4j:slf4j-simple:1.7.36"

_SESSION = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate()
session.stop()
"""


def main(target: Path) -> int:
    print("Fetching the jars of a Kafka broker for the tests (44 MB, once) ...", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        command = [sys.executable, "-c", _SESSION, _PACKAGES, f"{work}/ivy"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=work)
        if result.returncode != 0:
            print(result.stdout[-3000:], file=sys.stderr)
            print("Fetching the jars of Kafka failed: see above; Maven Central must be reachable.", file=sys.stderr)
            return 1
        libs = Path(work, "libs")
        libs.mkdir()
        for jar in Path(work, "ivy", "jars").glob("*.jar"):
            shutil.copy(jar, libs)
        # Ivy leaves out what Spark has.
        import pyspark

        for jar in Path(pyspark.__file__).parent.glob("jars/scala-library-*.jar"):
            shutil.copy(jar, libs)
        try:
            os.rename(libs, target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
