"""Parquet files -> filter -> select -> Delta, exactly once: as columns, as records, and by Spark's own file stream."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.datastream.connectors import DeltaSink
from flinkish.datastream.connectors.file_system import BulkFormat, FileSource
from tests.bench.keyed_count import environment

_READ = Types.ROW_NAMED(["id", "price", "name"], [Types.LONG(), Types.DOUBLE(), Types.STRING()])
_WRITTEN = Types.ROW_NAMED(["id", "name", "twice"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
_ROWS_A_FILE = 1_250_000
_SETTINGS = {"execution.checkpointing.interval": "10 s"}


def write_files(folder: Path, rows: int) -> Path:
    """Write Parquet files with that many rows of (long, double, one of a thousand names); seed 1."""
    random = np.random.default_rng(1)
    names = pa.array([f"name {number}" for number in range(1_000)])
    data = folder / f"{rows}-rows"
    data.mkdir()
    for first in range(0, rows, _ROWS_A_FILE):
        count = min(_ROWS_A_FILE, rows - first)
        columns = [np.arange(first, first + count), random.random(count), names.take(pa.array(random.integers(0, 1_000, count)))]
        pq.write_table(
            pa.table(dict(zip(_READ.field_names, columns, strict=True))), data / f"{first}.parquet", row_group_size=1 << 18
        )
    return data


def seconds(data: Path, target: Path, *, columns: bool) -> float:
    """Run the job on the Spark engine and return how long it took from end to end."""
    env = environment("spark", settings=_SETTINGS)
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(_READ), str(data)).build()
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    if columns:
        result = rows.filter(pc.field("price") > 0.5).select("id", "name", twice=pc.field("price") * 2)
    else:
        chosen = rows.filter(lambda row: row.price > 0.5)
        result = chosen.map(lambda row: Row(id=row.id, name=row.name, twice=row.price * 2), _WRITTEN)
    result.sink_to(DeltaSink(str(target)))
    started = time.perf_counter()
    env.execute("files")
    return time.perf_counter() - started


def spark_seconds(session: SparkSession, data: Path, target: Path) -> float:
    """Do the same with Spark's own file stream, ten files a batch."""
    started = time.perf_counter()
    files = session.readStream.schema("id long, price double, name string").option("maxFilesPerTrigger", 10).parquet(str(data))
    rows = files.where("price > 0.5").selectExpr("id", "name", "price * 2 AS twice")
    written = rows.writeStream.format("delta").option("checkpointLocation", f"{target}-checkpoints").trigger(availableNow=True)
    written.start(str(target)).awaitTermination()
    return time.perf_counter() - started


def rates(session: SparkSession, scale: float) -> dict[str, float]:
    """Return rows per second after the start, by the difference of two runs; the small one of each is run twice."""
    small, large = int(5_000_000 * scale), int(25_000_000 * scale)
    with tempfile.TemporaryDirectory() as folder:
        some, many = (write_files(Path(folder), rows) for rows in (small, large))
        few = write_files(Path(folder), small // 5)
        target = Path(folder) / "table"

        def timed(way: str, data: Path) -> float:
            shutil.rmtree(target, ignore_errors=True)
            if way == "Spark itself":
                took = spark_seconds(session, data, target)
                shutil.rmtree(f"{target}-checkpoints")
                return took
            return seconds(data, target, columns=way == "columns")

        def rate(way: str, less: Path, more: Path, rows: int) -> float:
            timed(way, less)
            short = timed(way, less)
            return rows / (timed(way, more) - short)

        return {
            "columns": rate("columns", some, many, large - small),
            "records": rate("records", few, some, small - small // 5),
            "Spark itself": rate("Spark itself", some, many, large - small),
        }
