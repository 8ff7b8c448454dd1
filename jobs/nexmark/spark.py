"""The same queries in Spark's own Structured Streaming, as far as its SQL can express them, on files with the same events.

Not there: q4, q9 and q15 to q19, which aggregate or rank without end over joins or distinct values, where streaming queries of
Spark have no result; q12, as Spark has no windows of processing time. In q5 and q7 one of several equal bids is the result.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from jobs.nexmark import events

#: Records of a file, and files of a micro-batch.
_FILE: Final = 100_000
_FILES_A_BATCH: Final = 5
_KINDS: Final = {"person": events.PERSONS, "auction": events.AUCTIONS, "bid": events.BIDS}


def write(folder: Path, count: int, seed: int, rate: float = events.EVENTS_PER_SECOND, *, rows_of_group: int = _FILE) -> None:
    """Write the persons, auctions and bids among the first events to Parquet files, in their order."""
    for name, kind in _KINDS.items():
        (folder / name).mkdir(parents=True)
        total = kind.count(count)
        for number, first in enumerate(range(0, total, _FILE)):
            batch = kind.batch(np.arange(first, min(first + _FILE, total)), seed, rate)
            # Spark reads the files in the order of their times of change.
            pq.write_table(pa.Table.from_batches([batch]), folder / name / f"{number:06}.parquet", row_group_size=rows_of_group)


class Tables:
    """The streams of files; `records` is how many rows are in those that the query reads."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self._spark, self._folder, self._count = spark, folder, count
        self.records = 0

    def __getattr__(self, name: str) -> DataFrame:
        path = str(self._folder / name)
        self.records += _KINDS[name].count(self._count)
        schema = self._spark.read.parquet(path).schema
        rows = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", _FILES_A_BATCH).parquet(path)
        return rows.withColumn("time", sql.timestamp_millis("date_time")).withWatermark("time", "0 seconds")


def _hot_items(tables: Tables) -> DataFrame:
    counted = tables.bid.groupBy("auction", sql.window("time", "10 seconds", "2 seconds")).count()
    return counted.groupBy(sql.window(sql.window_time("window"), "2 seconds")).agg(sql.max(sql.struct("count", "auction")))


def _highest_bids(tables: Tables) -> DataFrame:
    bid = sql.struct("price", "auction", "bidder", "date_time", "extra")
    return tables.bid.groupBy(sql.window("time", "10 seconds")).agg(sql.max(bid))


def _new_users(tables: Tables) -> DataFrame:
    persons = tables.person.groupBy("id", "name", sql.window("time", "10 seconds")).count()
    sellers = tables.auction.groupBy("seller", sql.window("time", "10 seconds").alias("sold")).count()
    return persons.join(sellers, sql.expr("id = seller AND window = sold")).select("id", "name", "window.start")


def _local_items(tables: Tables) -> DataFrame:
    persons = tables.person.where("state IN ('OR', 'ID', 'CA')").select("id", "name", "city", "state")
    auctions = tables.auction.where("category = 10").select(sql.col("id").alias("auction"), "seller")
    return persons.join(auctions, sql.expr("id = seller")).select("name", "city", "state", "auction")


def _channel_ids(tables: Tables) -> DataFrame:
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    cases = " ".join(f"WHEN '{name}' THEN '{number}'" for name, number in known.items())
    found = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
    channel_id = f"CASE lower(channel) {cases} ELSE {found} END AS channel_id"
    return tables.bid.selectExpr("auction", "bidder", "price", "channel", channel_id).where("channel_id IS NOT NULL")


QUERIES: Final[dict[str, Callable[[Tables], DataFrame]]] = {
    "q0": lambda tables: tables.bid.select("auction", "bidder", "price", "date_time", "extra"),
    "q1": lambda tables: tables.bid.selectExpr("auction", "bidder", "0.908D * price AS price", "date_time", "extra"),
    "q2": lambda tables: tables.bid.where("auction % 123 = 0").select("auction", "price"),
    "q3": _local_items,
    "q5": _hot_items,
    "q7": _highest_bids,
    "q8": _new_users,
    "q11": lambda tables: tables.bid.groupBy("bidder", sql.session_window("time", "10 seconds")).count(),
    "q21": _channel_ids,
    "q22": lambda tables: tables.bid.selectExpr(
        "auction", "bidder", "price", "channel", *(f"split_part(url, '/', {part}) AS dir{part - 3}" for part in (4, 5, 6))
    ),
}


def measure(session: SparkSession, name: str, folder: Path, count: int) -> tuple[int, float]:
    """Run a query over all files, a micro-batch after the other; return the number of records, and how long it took."""
    with tempfile.TemporaryDirectory() as checkpoints:
        started = time.perf_counter()
        tables = Tables(session, folder, count)
        writer = QUERIES[name](tables).writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoints)
        writer.trigger(availableNow=True).start().awaitTermination()
        return tables.records, time.perf_counter() - started
