"""The streams of Nexmark from a sequence of numbers, so that PyFlink can run the queries: it has no source of batches.

    by_number.py QUERY EVENTS SEED PARALLELISM INTERVAL

Runs a query with a checkpoint every INTERVAL seconds, drops its results, and prints the number of records that it has read and
the seconds that it took. `measure` runs it on PyFlink, with the package's name replaced by `pyflink`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from jobs.nexmark import events
from jobs.nexmark.events import Kind, Streams, in_turn
from jobs.nexmark.queries import QUERIES

#: Records that a number stands for.
_BLOCK: Final = 1_000
#: The environment variable with the path of a Python that has PyFlink.
PYTHON: Final = "PYFLINK_PYTHON"
#: Queries that PyFlink cannot run, and why.
NOT_ON_PYFLINK: Final = {
    "q7": "PyFlink cannot pickle a type that the program has used before",
    "q8": "PyFlink has no co_group",
    "q10": "PyFlink has no bucket assigners in Python",
    "q13": "PyFlink has no apply_to_keyed_state",
}


class PyFlinkError(Exception):
    """A query failed on PyFlink; the text is the end of its error output."""


class DateTime(TimestampAssigner):
    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        return int(value["date_time"])


def _records(name: str, total: int, blocks: int, readers: int, seed: int, rate: float, number: int) -> Iterable[Row]:
    """Return the records of the stream with a name that a number stands for. The numbers of each reader cover the whole time."""
    (block,) = in_turn(np.array([number]), blocks, readers)
    numbers = np.arange(block * _BLOCK, min(total, (block + 1) * _BLOCK))
    for record in events.KINDS[name].batch(numbers, seed, rate).to_pylist():
        yield Row(**record)


class StreamsByNumber(Streams):
    """Makes the same streams from a source that PyFlink has, too."""

    def _stream(self, kind: Kind, name: str) -> DataStream:
        total = kind.count(self._events)
        self.records += total
        blocks = -(-total // _BLOCK)
        # By its name, because PyFlink cannot pickle a type that the program has used before.
        make: Any = partial(_records, name, total, blocks, self.env.get_parallelism(), self._seed, self._rate)
        source = NumberSequenceSource(0, blocks - 1)
        numbers = self.env.from_source(source, WatermarkStrategy.no_watermarks(), name, Types.LONG())
        by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(DateTime())
        return numbers.flat_map(lambda number: make(number), kind.record_type).assign_timestamps_and_watermarks(by_time)


def measure(query: str, count: int, *, seed: int, parallelism: int, interval: int) -> tuple[int, float]:
    """Run a query on PyFlink in its default process mode; return the number of records read, and the seconds.

    Raises PyFlinkError if it fails.
    """
    interpreter = Path(os.environ[PYTHON])
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "jobs" / "nexmark"
        package.mkdir(parents=True)
        for name in ("__init__", "events", "keyed", "queries", "by_number"):
            text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
            (package / f"{name}.py").write_text(re.sub(r"\bflinkish\b", "pyflink", text), encoding="utf-8")
        # PyFlink starts its workers by the name `python`.
        path = os.pathsep.join([str(interpreter.parent), os.environ["PATH"]])
        arguments = [query, *map(str, (count, seed, parallelism, interval))]
        command = [str(interpreter), "-m", "jobs.nexmark.by_number", *arguments]
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    line = next((line for line in done.stdout.splitlines() if line.startswith("RECORDS")), None)
    if line is None:
        raise PyFlinkError(done.stderr[-2_000:])
    _, records, seconds = line.split()
    return int(records), float(seconds)


def main(query: str, count: str, seed: str, parallelism: str, interval: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(int(parallelism))
    env.enable_checkpointing(int(interval) * 1_000)
    streams = StreamsByNumber(env, int(count), int(seed))
    QUERIES[query](streams).filter(lambda result: False).print()
    started = time.perf_counter()
    env.execute(query)
    print("RECORDS", streams.records, time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
