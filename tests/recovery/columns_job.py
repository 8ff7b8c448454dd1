"""A job whose records stay columns from Parquet files to a Delta table, except in batches with bad values; run as a process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import BulkFormat, FileEnumeratorProvider, FileSource
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from tests.recovery.mains import job_environment, job_parser

ROWS = 20_000
#: Each row with one of these numbers has a value that fits no INT, and is skipped.
_BAD = {4_321, 4_322, 15_000}
_TYPE = Types.ROW_NAMED(["n", "small", "name"], [Types.LONG(), Types.INT(), Types.STRING()])


def write_files(folder: Path) -> None:
    """Write the input: files with several row groups, some of more rows than an epoch reads."""
    folder.mkdir()
    for file in range(4):
        numbers = range(file * ROWS // 4, (file + 1) * ROWS // 4)
        small = [2**40 if n in _BAD else n % 1_000 for n in numbers]
        names = [None if n % 7 == 0 else f"name {n}" for n in numbers]
        pq.write_table(pa.table({"name": names, "n": numbers, "small": small}), folder / f"{file}.parquet", row_group_size=1_700)


def expected() -> list[tuple[int, int, str | None]]:
    """Return the rows that the table must hold."""
    rows = [(n, 2 * (n % 1_000), None if n % 7 == 0 else f"name {n}") for n in range(ROWS) if n not in _BAD]
    return [row for row in rows if row[1] >= 100]


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Add the job to an environment."""
    files = FileSource.for_bulk_file_format(BulkFormat.parquet_format(_TYPE), str(folder / "files"))
    cut = files.set_file_enumerator(FileEnumeratorProvider(20_000)).on_record_error(RecordErrorPolicy.skip())
    rows = env.from_source(cut.build(), WatermarkStrategy.no_watermarks(), "files").uid("files")
    chosen = rows.filter(pc.field("small") >= 50).uid("chosen")
    doubled = chosen.select("n", "name", double=pc.field("small") * 2).uid("doubled")
    doubled.sink_to(DeltaSink(str(folder / "table"))).uid("table")


def main(arguments: Sequence[str] | None = None) -> None:
    given = job_parser().parse_args(arguments)
    env = job_environment(given, 500, {"execution.checkpointing.interval": "20 ms", "high-availability.cluster-id": "columns"})
    build(env, given.output)
    env.execute("columns")


if __name__ == "__main__":
    main()
