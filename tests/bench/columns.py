"""Programs whose records may stay columns of Arrow, the same with records, and what Spark itself does with the same rows.

Records are rows of (key LONG, value DOUBLE, time LONG), 100,000 keys, made in batches of numbers; a checkpoint every 10 s;
results go to a sink that drops them, or into a Delta table.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.datastream import DataStream, aggregates
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.bench.functions import KEYS
from tests.bench.keyed_count import environment

#: Spreads consecutive numbers over the keys.
_FACTOR = 7_919
#: Records in a millisecond of event time: a window of 5 s has a million, ten of each key.
_PER_MS = 200
_SETTINGS = {"execution.checkpointing.interval": "10 s"}
RECORD = Types.ROW_NAMED(["key", "value", "time"], [Types.LONG(), Types.DOUBLE(), Types.LONG()])
_BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")


def _records(batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers = batch["value"].to_numpy()
    columns = [numbers * _FACTOR % KEYS, numbers * 0.5, numbers // _PER_MS]
    return pa.record_batch([pa.array(column) for column in columns], list(RECORD.get_field_names()))


def _batches(rows: DataStream) -> DataStream:
    return rows.filter(pc.field("value") >= 0).select("key", twice=pc.field("value") * 2)


def _rolling(rows: DataStream) -> DataStream:
    return rows.key_by("key").aggregate(key=aggregates.key(), total=aggregates.sum("value"), count=aggregates.count())


def _two_fields(rows: DataStream) -> DataStream:
    parted = rows.select("key", "value", part=pc.bit_wise_and(pc.field("key"), 7))
    return parted.key_by(["part", "key"]).aggregate(key=aggregates.key(), total=aggregates.sum("value"), count=aggregates.count())


def _summed(rows: DataStream) -> DataStream:
    return rows.key_by("key").sum("value")


def _greatest(rows: DataStream) -> DataStream:
    """Take the greatest of values that come in no order."""
    mixed = rows.select("key", value=pc.bit_wise_and(pc.multiply_checked(pc.field("time"), 7_919), 4_095))
    return mixed.key_by("key").top_n(3, "value")


def _per_epoch(rows: DataStream) -> DataStream:
    figures = {"key": aggregates.key(), "total": aggregates.sum("value"), "count": aggregates.count()}
    return rows.key_by("key").aggregate(per="epoch", **figures)


def _windows(rows: DataStream) -> DataStream:
    windows = rows.assign_timestamps_and_watermarks(_BY_TIME).key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(5)))
    figures = {"total": aggregates.sum("value"), "count": aggregates.count(), "most": aggregates.max("value")}
    return windows.aggregate(key=aggregates.key(), start=aggregates.window_start(), **figures)


def _counts(rows: DataStream) -> DataStream:
    figures = {"total": aggregates.sum("value"), "count": aggregates.count(), "most": aggregates.max("value")}
    return rows.key_by("key").count_window(10).aggregate(key=aggregates.key(), **figures)


#: The program whose results go into a Delta table.
INTO_TABLE = "sum and count by key, a result a key and epoch, into a Delta table"
PROGRAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "filter and select": _batches,
    "sum and count by key, a result a record": _rolling,
    INTO_TABLE: _per_epoch,
    "sum and count by two fields, a result a record": _two_fields,
    "sum(field) by key, a result a record": _summed,
    "tumbling window: sum, count, max": _windows,
    "windows of 10 records: sum, count, max": _counts,
    "the three greatest by key, as changes": _greatest,
}


#: Records/s on two cores, and how many times Spark's own query.
GOALS = {
    "sum and count by key, a result a record": 2_000_000,
    INTO_TABLE: 5_000_000,
    "tumbling window: sum, count, max": 3_000_000,
}
SPARK_GOALS = {INTO_TABLE: 2, "tumbling window: sum, count, max": 1.5}


def seconds(name: str, records: int, *, columns: bool, engine: str = "spark") -> float:
    """Run a program once and return how long it took from end to end; without `columns` each record passes a function before."""
    env = environment(engine, settings=_SETTINGS)
    numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
    rows = numbers.map_batches(_records, RECORD)
    if not columns:
        rows = rows.map(lambda row: row, RECORD)
    with tempfile.TemporaryDirectory() as folder:
        PROGRAMS[name](rows).sink_to(DeltaSink(f"{folder}/table") if name == INTO_TABLE else DiscardingSink())
        started = time.perf_counter()
        env.execute(name)
        return time.perf_counter() - started


def rate(name: str, small: int, large: int, *, columns: bool) -> float:
    """Return the records per second on Spark after the start, by the difference of two runs, after one that warms up."""
    short = min(seconds(name, small, columns=columns) for _ in range(2))
    return (large - small) / (seconds(name, large, columns=columns) - short)


def _spark_rows(rows: DataFrame) -> DataFrame:
    key, value = sql.expr(f"value * {_FACTOR} % {KEYS}"), sql.expr("value * 0.5D")
    return rows.select(
        key.alias("key"), value.alias("value"), sql.timestamp_millis(sql.expr(f"value div {_PER_MS}")).alias("time")
    )


def _spark_aggregate(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(sql.sum("value").alias("total"), sql.count("*").alias("count"))


def _spark_windows(rows: DataFrame) -> DataFrame:
    timed = rows.withWatermark("time", "0 seconds")
    return timed.groupBy("key", sql.window("time", "5 seconds")).agg(sql.sum("value"), sql.count("*"), sql.max("value"))


#: Spark's own queries for the same, with their output modes.
SPARK: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "filter and select": (lambda rows: rows.where("value >= 0").selectExpr("key", "value * 2 AS twice"), "append"),
    INTO_TABLE: (_spark_aggregate, "update"),
    "tumbling window: sum, count, max": (_spark_windows, "append"),
}


def spark_rate(session: SparkSession, name: str, records_per_batch: int, batches: int = 6) -> float:
    """Run Spark's own query on its generated rows; return the rows per second without the first batches."""
    spark = session.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    source = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", records_per_batch).option("numPartitions", 2).load()
    )
    query, mode = SPARK[name]
    times: list[float] = []

    def done(frame: DataFrame, number: int) -> None:
        if name == INTO_TABLE:
            frame.write.format("delta").mode("append").save(f"{folder}/table")
        else:
            frame.write.format("noop").mode("append").save()
        times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        rows = query(_spark_rows(source))
        writer = rows.writeStream.outputMode(mode).foreachBatch(done)
        running: Any = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        while len(times) < batches and running.isActive:
            running.awaitTermination(0.2)
        running.stop()
    return records_per_batch * (batches - 2) / (times[batches - 1] - times[1])
