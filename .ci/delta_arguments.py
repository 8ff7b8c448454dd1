"""Print the arguments that give spark-submit Delta's jars; argument: Delta's Maven coordinates.

The jars come from Spark's Ivy cache if they are there: resolved again by `--packages`, they cost seconds and a page of output.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import pyspark

from flinkish.engine.spark.settings import cached_delta_jars


def main(coordinates: str) -> None:
    # Java, and so Ivy, takes the home folder from the user database, not from HOME.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    jars = cached_delta_jars(home, Path(pyspark.__file__).parent / "jars")
    print(f"--jars {','.join(map(str, jars))}" if jars else f"--packages {coordinates}")


if __name__ == "__main__":
    main(sys.argv[1])
