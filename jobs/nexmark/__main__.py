"""Measure the queries of Nexmark: events a second on this machine, with a checkpoint every 10 s; results are dropped.

An event is a record that the query reads; a query that reads bids only does not count persons and auctions. Seconds include the
start of the job, but not that of Spark. "After the start" is computed from the difference to a run with a tenth of the events,
and left out if the large run does not take at least twice as long: it says little then, and takes more events to measure.

Queries that can work on columns (jobs/nexmark/columns.py) are measured in both forms. With --with-spark, Spark's own Structured
Streaming runs those queries that its SQL can express, in a session of plain Spark (jobs/plain_spark.py), on Parquet files with
the same events, written before. With --with-pyflink, PyFlink runs the same queries in its process mode (by_number.py), with the
Python that PYFLINK_PYTHON names. With --with-bytewax, Bytewax runs some of them (on_bytewax.py), also on files, with the Python
that BYTEWAX_PYTHON names.

Run it with `make nexmark`, `make nexmark ARGS='--queries q0,q5 --events 2000000'` or `python -m jobs.nexmark`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Final

from flinkish.common import Configuration
from flinkish.common.serialization import Encoder
from flinkish.datastream import DataStream
from flinkish.datastream.connectors import FileSink
from flinkish.datastream.connectors.base import Sink
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.engine.spark.session import open_session
from jobs import plain_spark
from jobs.command_line import ArgumentParser, clear_errors, environment, positive
from jobs.nexmark import by_number, columns, on_bytewax, spark
from jobs.nexmark.buckets import ByMinute
from jobs.nexmark.events import Streams
from jobs.nexmark.queries import LEFT_OUT, QUERIES

#: The small run has this share of the events.
_SMALL: Final = 10


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured of one query."""

    query: str
    engine: str
    events: int
    seconds: float
    #: Of the run with fewer events; None if there was none.
    small_events: int | None
    small_seconds: float | None
    cores: int
    checkpoint_interval_s: int
    machine: str

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds

    @property
    def after_start(self) -> float | None:
        """Events a second without the time that a job takes to start; None if that cannot be told from the two runs."""
        if self.small_events is None or self.small_seconds is None:
            return None
        more = self.seconds - self.small_seconds
        return (self.events - self.small_events) / more if more >= self.small_seconds else None


def _queries(text: str) -> list[str]:
    """Read names of queries, separated by commas."""
    names = text.split(",")
    for name in names:
        if name in LEFT_OUT:
            raise argparse.ArgumentTypeError(f"{name} is left out: {LEFT_OUT[name]}")
        if name not in QUERIES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(QUERIES)}")
    return names


def _flinkish(
    arguments: argparse.Namespace, name: str, count: int, queries: Mapping[str, Callable[[Streams], DataStream]] = QUERIES
) -> tuple[int, float]:
    """Run a query; return the number of records read, and how long it took from end to end."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(arguments)
        env.enable_checkpointing(arguments.checkpoint_interval * 1_000)
        env.configure(
            Configuration()
            .set_string("execution.checkpointing.dir", f"{folder}/checkpoints")
            .set_string("execution.windows.share-panes", "true")  # as Flink's windows in SQL do
        )
        streams = Streams(env, count, arguments.seed)
        queries[name](streams).sink_to(_files(f"{folder}/bids", queries) if name == "q10" else DiscardingSink())
        started = time.perf_counter()
        env.execute(f"Nexmark {name}")
        return streams.records, time.perf_counter() - started


def _files(folder: str, queries: Mapping[str, Callable[[Streams], DataStream]]) -> Sink:
    """Return the sink of q10: lines of text in folders by date and minute or, on columns, a Delta table with the same ones."""
    if queries is columns.QUERIES:
        return DeltaSink(folder, partition_by=["dt", "hm"])
    lines = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
    return lines.with_bucket_assigner(ByMinute()).build()


def _spark(arguments: argparse.Namespace, files: Path, name: str, count: int) -> tuple[int, float]:
    """Do the same with Spark's own streaming; files that are missing are written before."""
    folder = files / str(count)
    if not folder.exists():
        spark.write(folder, count, arguments.seed)
    return plain_spark.run(spark.measure, name, folder, count)


def _bytewax(arguments: argparse.Namespace, files: Path, name: str, count: int) -> tuple[int, float]:
    """Do the same on Bytewax, with a process for each core."""
    folder = files / f"bytewax-{count}"
    if not folder.exists():
        spark.write(folder, count, arguments.seed, rows_of_group=on_bytewax.ROWS)
    cores = len(os.sched_getaffinity(0))
    return on_bytewax.measure(name, folder, workers=cores, interval=arguments.checkpoint_interval)


def _measure(
    arguments: argparse.Namespace,
    engine: str,
    query: str,
    run: Callable[[str, int], tuple[int, float]],
    most: int,
    *,
    small_run: bool = True,
) -> Figures:
    small_events = small_seconds = None
    if small_run:
        run(query, most // _SMALL)  # the first run of a query compiles it
        small_events, small_seconds = run(query, most // _SMALL)
    events, seconds = run(query, most)
    figures = Figures(
        query=query,
        engine=engine,
        events=events,
        seconds=round(seconds, 3),
        small_events=small_events,
        small_seconds=None if small_seconds is None else round(small_seconds, 3),
        cores=len(os.sched_getaffinity(0)),
        checkpoint_interval_s=arguments.checkpoint_interval,
        machine=f"{platform.machine()}, Python {platform.python_version()}",
    )
    rate, after_start = figures.events_per_second, figures.after_start
    columns = f"{query:6}{engine:9}{events:>13,}{seconds:>9.1f}{rate:>13,.0f}{rate / figures.cores:>13,.0f}"
    print(columns + ("            -" if after_start is None else f"{after_start:>13,.0f}"), flush=True)
    return figures


def write_figures(path: Path, figures: list[Figures]) -> None:
    """Write the raw figures as JSON, or as CSV if the file is named so."""
    rows = [asdict(each) for each in figures]
    if path.suffix != ".csv":
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Figures)])
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--queries", type=_queries, default=list(QUERIES), metavar="Q0,Q5", help="default: all but q6")
    parser.add_argument("--events", type=positive, default=1_000_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=positive, default=1, metavar="N", help="of the events; default: %(default)s")
    parser.add_argument("--checkpoint-interval", type=positive, default=10, metavar="S", help="in seconds; default: %(default)s")
    parser.add_argument("--with-spark", action="store_true", help="also run Spark's own Structured Streaming")
    parser.add_argument("--with-pyflink", action="store_true", help="also run the queries on PyFlink")
    parser.add_argument("--pyflink-events", type=positive, default=400_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--with-bytewax", action="store_true", help="also run some of the queries on Bytewax")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the raw figures to a .json or .csv file")
    arguments = parser.parse_args()
    if arguments.events < 50 * _SMALL:
        parser.error(f"--events must be at least {50 * _SMALL}, of which the small run has a tenth")
    if arguments.pyflink_events < 50:
        parser.error("--pyflink-events must be at least 50, so that there is one of each kind")
    if arguments.with_pyflink and by_number.PYTHON not in os.environ:
        parser.error(f"--with-pyflink needs the environment variable {by_number.PYTHON}: the Python that has apache-flink")
    if arguments.with_bytewax and on_bytewax.PYTHON not in os.environ:
        parser.error(
            f"--with-bytewax needs the environment variable {on_bytewax.PYTHON}: the Python that has bytewax and pyarrow"
        )
    figures: list[Figures] = []
    with clear_errors(), tempfile.TemporaryDirectory() as files, contextlib.ExitStack() as session:
        if arguments.engine != "local":
            session.callback(open_session(Configuration())[1])
        print("query engine          events  seconds     events/s       a core  after start", flush=True)
        _flinkish(arguments, "q0", 50_000)  # warms the machine up
        for query in arguments.queries:
            runs: dict[str, Callable[[str, int], tuple[int, float]]] = {"flinkish": partial(_flinkish, arguments)}
            if query in columns.QUERIES:
                runs["columns"] = partial(_flinkish, arguments, queries=columns.QUERIES)
            if arguments.with_spark and query in spark.QUERIES:
                runs["spark"] = partial(_spark, arguments, Path(files))
            if arguments.with_bytewax and query in on_bytewax.QUERIES:
                runs["bytewax"] = partial(_bytewax, arguments, Path(files))
            for engine, run in runs.items():
                figures.append(_measure(arguments, engine, query, run, arguments.events))
            if arguments.with_pyflink and query not in by_number.NOT_ON_PYFLINK:
                run = partial(
                    by_number.measure,
                    seed=arguments.seed,
                    parallelism=environment(arguments).get_parallelism(),
                    interval=arguments.checkpoint_interval,
                )
                try:  # each run starts PyFlink anew, so there is nothing to warm up
                    figures.append(_measure(arguments, "pyflink", query, run, arguments.pyflink_events, small_run=False))
                except by_number.PyFlinkError as error:
                    print(f"{query:6}pyflink  failed\n{error}", flush=True)
        if arguments.output:
            write_figures(arguments.output, figures)


if __name__ == "__main__":
    main()
