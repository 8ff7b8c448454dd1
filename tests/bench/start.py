"""Measures the first job and further ones, compared with plain Spark's session and empty streaming query.

As a script, `start.py plain|flinkish` runs in its own process, as a user's script does, and prints its seconds as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

_FURTHER = 5


class Seconds(NamedTuple):
    """`first`: session and first query or job; `further`: the least of the further ones in the same session."""

    first: float
    further: float


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _plain() -> Seconds:
    """A session of plain Spark, and an empty streaming query that is started, has a micro-batch, and is stopped."""
    started = time.perf_counter()
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()

    def query() -> None:
        with tempfile.TemporaryDirectory() as folder:
            rows = session.readStream.format("rate").load()
            running = rows.writeStream.format("noop").option("checkpointLocation", folder).start()
            while running.lastProgress is None:
                time.sleep(0.005)
            running.stop()

    query()
    first = time.perf_counter() - started
    return Seconds(first, min(_timed(query) for _ in range(_FURTHER)))


def _flinkish() -> Seconds:
    """Jobs of one exchange, whose results come back, in the session that flinkish makes for the first one."""
    started = time.perf_counter()
    from flinkish.common import Types
    from flinkish.datastream import StreamExecutionEnvironment

    def job() -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        numbers = env.from_collection(list(range(100)), Types.LONG())
        sums = numbers.key_by(lambda number: number % 7, Types.LONG()).reduce(lambda a, b: a + b)
        with sums.execute_and_collect() as results:
            assert len(list(results)) == 100

    job()
    first = time.perf_counter() - started
    return Seconds(first, min(_timed(job) for _ in range(_FURTHER)))


_WAYS = {"plain": _plain, "flinkish": _flinkish}


def measure(repeats: int = 3) -> dict[str, Seconds]:
    """Return the least of some runs of each way, in turn, each in a new process, once there is an archive of Java's classes."""
    found: dict[str, list[Seconds]] = {way: [] for way in _WAYS}
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        _run("flinkish", environment)
        _await_archive(Path(cache))
        for _ in range(repeats):
            for way, seconds in found.items():
                seconds.append(_run(way, environment))
    return {way: Seconds(*map(min, zip(*seconds, strict=True))) for way, seconds in found.items()}


def _await_archive(cache: Path) -> None:
    """Wait until the JVM has ended that writes the archive; where it writes none, there is nothing to wait for."""
    for note in cache.rglob("*.json"):
        with contextlib.suppress(psutil.Error):
            psutil.Process(json.loads(note.read_text())["writer"]["pid"]).wait(60)


def _run(way: str, environment: dict[str, str]) -> Seconds:
    command = [sys.executable, "-m", "tests.bench.start", way]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, check=True)
    return Seconds(*json.loads(output.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(_WAYS[sys.argv[1]]()))
