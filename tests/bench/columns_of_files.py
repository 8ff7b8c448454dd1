"""Files -> filter -> select -> files or Delta, exactly once: as columns, as records, and Parquet by Spark's own file stream."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from flinkish.common import Encoder, Row, Types, WatermarkStrategy
from flinkish.datastream.connectors import DeltaSink
from flinkish.datastream.connectors.file_system import BucketAssigner, BulkFormat, FileSink, FileSource, StreamFormat
from flinkish.datastream.formats.json import JsonRowSerializationSchema
from jobs import plain_spark
from tests.bench.keyed_count import environment

_READ = Types.ROW_NAMED(["id", "price", "name"], [Types.LONG(), Types.DOUBLE(), Types.STRING()])
_WRITTEN = Types.ROW_NAMED(["id", "name", "twice"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
_ROWS_A_FILE = 1_250_000
_SETTINGS = {"execution.checkpointing.interval": "10 s"}


def _write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=1 << 18)


def _write_csv(table: pa.Table, path: Path) -> None:
    pa.csv.write_csv(table, path, pa.csv.WriteOptions(include_header=False, quoting_style="needed"))


def _write_json(table: pa.Table, path: Path) -> None:
    lines = [
        f'{{"id":{i},"price":{price!r},"name":"{name}"}}\n' for i, price, name in zip(*table.to_pydict().values(), strict=True)
    ]
    path.write_text("".join(lines))


def _lines(path: Path) -> Any:
    schema = JsonRowSerializationSchema.builder().with_type_info(_WRITTEN).build()
    builder = FileSink.for_row_format(str(path), Encoder.of_schema(schema))
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


#: By the names of jobs: the format of the source, the function that writes a file of it, and the sink.
_JOBS: dict[str, tuple[Any, Callable[[pa.Table, Path], None], Callable[[Path], Any]]] = {
    "Parquet to Delta": (BulkFormat.parquet_format(_READ), _write_parquet, lambda path: DeltaSink(str(path))),
    "Parquet to Delta by partitions": (
        BulkFormat.parquet_format(_READ),
        _write_parquet,
        lambda path: DeltaSink(str(path), partition_by=["name"]),
    ),
    "CSV to JSON lines": (StreamFormat.csv_format(_READ, header=False), _write_csv, _lines),
    "JSON lines to JSON lines": (StreamFormat.json_lines_format(_READ), _write_json, _lines),
}


def write_files(folder: Path, rows: int, write: Callable[[pa.Table, Path], None]) -> Path:
    """Write files with that many rows of (long, double, one of thirty names); seed 1."""
    random = np.random.default_rng(1)
    names = pa.array([f"name {number}" for number in range(30)])
    data = folder / f"{rows}-rows"
    data.mkdir()
    most = min(_ROWS_A_FILE, rows // 4)  # both readers have as much to do
    for first in range(0, rows, most):
        count = min(most, rows - first)
        columns = [np.arange(first, first + count), random.random(count), names.take(pa.array(random.integers(0, 30, count)))]
        write(pa.table(dict(zip(_READ.field_names, columns, strict=True))), data / str(first))
    return data


def seconds(job: str, data: Path, target: Path, *, columns: bool) -> float:
    """Run a job on the Spark engine and return how long it took from end to end."""
    env = environment("spark", settings=_SETTINGS)
    format_, _, sink = _JOBS[job]
    begin: Any = FileSource.for_bulk_file_format if isinstance(format_, BulkFormat) else FileSource.for_record_stream_format
    rows = env.from_source(begin(format_, str(data)).build(), WatermarkStrategy.no_watermarks(), "files")
    if columns:
        result = rows.filter(pc.field("price") > 0.5).select("id", "name", twice=pc.field("price") * 2)
    else:
        chosen = rows.filter(lambda row: row.price > 0.5)
        result = chosen.map(lambda row: Row(id=row.id, name=row.name, twice=row.price * 2), _WRITTEN)
    result.sink_to(sink(target))
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


def rates(job: str, scale: float) -> dict[str, float]:
    """Return rows per second after the start, by the difference of two runs; the small one of each is run twice.

    Only "Parquet to Delta" is also a job of Spark itself.
    """
    small, large = int(5_000_000 * scale), int(25_000_000 * scale)
    with tempfile.TemporaryDirectory() as folder:
        few, some, many = (write_files(Path(folder), rows, _JOBS[job][1]) for rows in (small // 5, small, large))
        target = Path(folder) / "table"

        def timed(way: str, data: Path) -> float:
            shutil.rmtree(target, ignore_errors=True)
            if way == "Spark itself":
                took = plain_spark.run(spark_seconds, data, target)
                shutil.rmtree(f"{target}-checkpoints")
                return took
            return seconds(job, data, target, columns=way == "columns")

        def rate(way: str, less: Path, more: Path, rows: int) -> float:
            timed(way, less)
            short = timed(way, less)
            return rows / (timed(way, more) - short)

        found = {
            "columns": rate("columns", some, many, large - small),
            "records": rate("records", few, some, small - small // 5),
        }
        if job == "Parquet to Delta":
            found["Spark itself"] = rate("Spark itself", some, many, large - small)
        return found
