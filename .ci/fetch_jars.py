"""Fetches Delta's jars into Spark's Ivy cache, where every Spark session looks for them; the argument is the expected jar.

Spark would fetch them itself when a session starts. Fetching them quietly beforehand keeps Ivy's two hundred lines out of the
first job's output.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SESSION = """
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
configure_spark_with_delta_pip(builder).getOrCreate().stop()
"""


def main(expected: Path) -> int:
    print("Fetching Delta's jars for Spark (87 MB, once) ...", flush=True)
    result = subprocess.run([sys.executable, "-c", _SESSION], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        print(result.stdout[-3000:], file=sys.stderr)
        print("Fetching Delta's jars failed: see above; Maven Central must be reachable.", file=sys.stderr)
        return 1
    if not expected.is_file():
        # Another cache is configured (spark.jars.ivy). That works, but `make setup` will fetch the jars each time.
        print(f"Note: the jars were fetched, but not to {expected}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
