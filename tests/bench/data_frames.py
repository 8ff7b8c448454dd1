"""A keyed count over Parquet files that Spark reads as a stream: by from_data_frame, and by Spark's own groupBy().count()."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from flinkish.common import Row, Types
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from jobs import plain_spark
from tests.bench.functions import KEYS, Count
from tests.bench.keyed_count import environment

_FILES_A_BATCH = 2
#: Keys of the rows that say that the warm-up, and the whole input, is through.
_WARM, _DONE = -1, -2
_SCHEMA = "key long, value long"


class _CountAndTell(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._process = Count(runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))).process

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self._process(value.value)
        if value.key < 0:
            yield value.key


def write_files(spark: SparkSession, folder: Path, rows: int, files: int) -> None:
    """Write files of rows; after the first batch a row says that the warm-up is over, after the last one that all is read."""
    folder.mkdir()
    for number in range(files + 2 * _FILES_A_BATCH):
        told = {_FILES_A_BATCH: _WARM, files + _FILES_A_BATCH: _DONE}.get(number)
        if told is None:
            frame = spark.range(rows).selectExpr(f"id % {KEYS} key", "id value")
        else:
            frame = spark.range(1).selectExpr(f"cast({told} as long) key", "id value")
        draft = folder.parent / f"draft-{number}"
        frame.coalesce(1).write.parquet(str(draft))  # one file, as Spark writes a file without rows for an empty first partition
        next(draft.glob("part-*")).rename(folder / f"{number:04}.parquet")


def flinkish_rate(spark: SparkSession, folder: Path, rows: int) -> float:
    """Return the records per second between the two marks."""
    env = environment("spark")
    frame = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", _FILES_A_BATCH).parquet(str(folder))
    told = (
        env.from_data_frame(frame)
        .map(lambda row: row, Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()]))
        .key_by(lambda row: row.key, key_type=Types.LONG())
        .process(_CountAndTell(), Types.LONG())
    )
    with told.execute_and_collect("bench") as marks:
        assert next(marks) == _WARM
        started = time.perf_counter()
        assert next(marks) == _DONE
        return rows / (time.perf_counter() - started)


def plain_rate(spark: SparkSession, folder: Path) -> float:
    """Return the records per second of groupBy().count() into nothing, without the first batch."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    frame = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", _FILES_A_BATCH).parquet(str(folder))
    with tempfile.TemporaryDirectory(prefix="flinkish-bench-") as checkpoint:
        query = (
            frame.groupBy("key").count().writeStream.format("noop").outputMode("update")
            .option("checkpointLocation", checkpoint).start()
        )  # fmt: skip
        query.processAllAvailable()
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]][1:]
        query.stop()
    rows = sum(batch["numInputRows"] for batch in batches)
    return 1000 * rows / sum(batch["durationMs"]["triggerExecution"] for batch in batches)


def rates(spark: SparkSession, rows: int, files: int = 8) -> tuple[float, float]:
    """Return records per second of flinkish and of plain Spark, over so many files of so many rows."""
    with tempfile.TemporaryDirectory(prefix="flinkish-bench-") as folder:
        path = Path(folder) / "files"
        write_files(spark, path, rows, files)
        return flinkish_rate(spark, path, rows * (files - 1)), plain_spark.run(plain_rate, path)
