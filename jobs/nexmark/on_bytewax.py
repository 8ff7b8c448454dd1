"""Queries of Nexmark as dataflows of Bytewax, on the Parquet files that Spark's own streaming reads, too.

Each worker is a process, and reads every n-th row group of all files, so that workers go through time together. They do not wait
for each other, so windows stay open for a minute of event time; without that, records would be late. Bytewax has no watermarks
behind windows: q5 emits the most bids of a window so far. Snapshots are taken at the interval of checkpoints.

Bytewax imports this file by its path, so it imports nothing of flinkish.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

#: The environment variable with the path of a Python that has Bytewax and PyArrow.
PYTHON: Final = "BYTEWAX_PYTHON"
#: Rows that a worker reads at a time, at most; files have row groups of this size.
ROWS: Final = 1_000
QUERIES: Final = ("q0", "q1", "q2", "q5", "q8")

_TEN_SECONDS: Final = timedelta(seconds=10)
_EUROS: Final = 0.908
_LATE: Final = timedelta(minutes=1)

Stream = Any


class BytewaxError(Exception):
    """A query failed on Bytewax; the text is the end of its error output."""


def measure(query: str, folder: Path, *, workers: int, interval: int) -> tuple[int, float]:
    """Run a query on files, with a process for each worker; return the rows read, and the seconds from its start to its end.

    Raises BytewaxError if it fails.
    """
    interpreter = os.environ[PYTHON]
    with tempfile.TemporaryDirectory() as recovery:
        subprocess.run([interpreter, "-m", "bytewax.recovery", recovery, str(workers)], check=True, capture_output=True)
        flow = f"{Path(__file__).stem}:flow('{query}', '{folder}', {workers})"
        command = [interpreter, "-m", "bytewax.run", flow, "-r", recovery, "-s", str(interval), "-b", "0"]
        addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports(workers))
        started = time.perf_counter()
        processes = [
            subprocess.Popen(
                [*command, *(["-i", str(number), "-a", addresses] if workers > 1 else [])],
                cwd=Path(__file__).parent,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(workers)
        ]
        errors = [process.communicate()[1] for process in processes]
        if any(process.returncode for process in processes):
            raise BytewaxError("\n".join(errors)[-2_000:])
        rows = sum(int(line.split()[1]) for text in errors for line in text.splitlines() if line.startswith("ROWS "))
        return rows, time.perf_counter() - started


def _free_ports(count: int) -> list[int]:
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in opened]
    finally:
        for each in opened:
            each.close()


def flow(query: str, folder: str, workers: int, sink: Any = None) -> Any:
    """Return the dataflow of a query; without a sink, results are dropped."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow

    made = Dataflow(query)

    def read(kind: str) -> Stream:
        return op.input(kind, made, _source(Path(folder) / kind, workers))

    op.output("out", _FLOWS[query](read), sink or _dropping())
    return made


def _q0(read: Callable[[str], Stream]) -> Stream:
    import bytewax.operators as op

    return op.map(
        "fields", read("bid"), lambda bid: tuple(bid[name] for name in ("auction", "bidder", "price", "date_time", "extra"))
    )


def _q1(read: Callable[[str], Stream]) -> Stream:
    import bytewax.operators as op

    def euros(bid: dict[str, Any]) -> tuple[Any, ...]:
        return bid["auction"], bid["bidder"], _EUROS * bid["price"], bid["date_time"], bid["extra"]

    return op.map("euros", read("bid"), euros)


def _q2(read: Callable[[str], Stream]) -> Stream:
    import bytewax.operators as op

    chosen = op.filter("chosen", read("bid"), lambda bid: bid["auction"] % 123 == 0)
    return op.map("fields", chosen, lambda bid: (bid["auction"], bid["price"]))


def _q5(read: Callable[[str], Stream]) -> Stream:
    import bytewax.operators as op
    from bytewax.operators import windowing

    every = timedelta(seconds=2)
    windows = windowing.SlidingWindower(length=_TEN_SECONDS, offset=every, align_to=datetime.fromtimestamp(0, UTC))
    counted = windowing.count_window("count", read("bid"), _clock(), windows, key=lambda bid: str(bid["auction"]))
    # The number of a window is that of its start.
    by_window = op.map("by window", counted.down, lambda found: (str(found[1][0]), (int(found[0]), found[1][1])))

    def more(most: int | None, count: tuple[int, int]) -> tuple[int, list[tuple[int, int]]]:
        return max(most or 0, count[1]), [count] if most is None or count[1] >= most else []

    found = op.stateful_flat_map("most", by_window, more)
    end = _TEN_SECONDS // every
    return op.map("fields", found, lambda row: (*row[1], (int(row[0]) + end) * 2_000))


def _q8(read: Callable[[str], Stream]) -> Stream:
    import bytewax.operators as op
    from bytewax.operators import windowing

    persons = op.key_on("by id", read("person"), lambda person: str(person["id"]))
    auctions = op.key_on("by seller", read("auction"), lambda auction: str(auction["seller"]))
    windows = windowing.TumblingWindower(length=_TEN_SECONDS, align_to=datetime.fromtimestamp(0, UTC))
    joined = windowing.join_window("join", _clock(), windows, persons, auctions)
    both = op.filter("both", joined.down, lambda found: None not in found[1][1])
    return op.map("fields", both, lambda found: (int(found[0]), found[1][1][0]["name"], found[1][0] * 10_000))


_FLOWS: Final[dict[str, Callable[[Callable[[str], Stream]], Stream]]] = dict(zip(QUERIES, (_q0, _q1, _q2, _q5, _q8), strict=True))


def _clock() -> Any:
    from bytewax.operators.windowing import EventClock

    return EventClock(lambda row: datetime.fromtimestamp(row["date_time"] / 1_000, UTC), wait_for_system_duration=_LATE)


def _source(folder: Path, workers: int) -> Any:
    import pyarrow.parquet as pq
    from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

    class Part(StatefulSourcePartition[dict[str, Any], int]):
        """Every n-th row group of all files; its state is the number of those that were read."""

        def __init__(self, number: int, done: int) -> None:
            files = map(pq.ParquetFile, sorted(folder.iterdir()))
            self._groups = [(file, group) for file in files for group in range(file.num_row_groups)][number::workers]
            self._done = done
            self._read = 0

        def next_batch(self) -> list[dict[str, Any]]:
            if self._done == len(self._groups):
                print("ROWS", self._read, file=sys.stderr, flush=True)
                raise StopIteration
            file, group = self._groups[self._done]
            self._done += 1
            rows: list[dict[str, Any]] = file.read_row_group(group).to_pylist()
            self._read += len(rows)
            return rows

        def snapshot(self) -> int:
            return self._done

    class Rows(FixedPartitionedSource[dict[str, Any], int]):
        def list_parts(self) -> list[str]:
            return [str(number) for number in range(workers)]

        def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Part:
            return Part(int(for_part), resume_state or 0)

    return Rows()


def _dropping() -> Any:
    from bytewax.outputs import DynamicSink, StatelessSinkPartition

    class Nothing(StatelessSinkPartition[Any]):
        def write_batch(self, items: list[Any]) -> None:
            pass

    class Dropping(DynamicSink[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Nothing:
            return Nothing()

    return Dropping()
