"""The same queries in Spark's own Structured Streaming, as far as its SQL can express them, on files with the same events.

Not there: q4, q9, q15, q16, q18 and q19, which aggregate or rank without end over joins or distinct values, where streaming
queries of Spark have no result; q12, as Spark has no windows of processing time. In q5 and q7 one of several equal bids is the
result. q17 shows what has changed in a micro-batch, and not each bid's result.
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
from pyspark.sql.streaming import StreamingQuery

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
        self.spark, self._folder, self._count = spark, folder, count
        self.records = 0

    def __getattr__(self, name: str) -> DataFrame:
        path = str(self._folder / name)
        self.records += _KINDS[name].count(self._count)
        schema = self.spark.read.parquet(path).schema
        rows = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", _FILES_A_BATCH).parquet(path)
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


def _with_side_input(tables: Tables) -> DataFrame:
    table = tables.spark.range(10_000).selectExpr("id", "concat('value ', id) AS value")
    joined = tables.bid.join(table, sql.expr("auction % 10000 = id"))
    return joined.select("auction", "bidder", "price", "date_time", "value")


def _calculation(tables: Tables) -> DataFrame:
    hour = "hour(time)"
    time_of_day = f"CASE WHEN {hour} BETWEEN 8 AND 18 THEN 'dayTime' WHEN {hour} <= 6 OR {hour} >= 20 THEN 'nightTime' "
    chosen = tables.bid.where("0.908D * price > 1000000 AND 0.908D * price < 50000000")
    return chosen.selectExpr(
        "auction",
        "bidder",
        "0.908D * price AS price",
        f"{time_of_day} ELSE 'otherTime' END AS time_of_day",
        "date_time",
        "extra",
        "length(extra) - length(replace(extra, 'c')) AS c",
    )


def _statistics_of_auctions(tables: Tables) -> DataFrame:
    levels = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
    figures = [
        "count(*)",
        *(f"count_if({level})" for level in levels),
        "min(price)",
        "max(price)",
        "sum(price) DIV count(*)",
        "sum(price)",
    ]
    keyed = tables.bid.groupBy("auction", sql.date_format("time", "yyyy-MM-dd").alias("day"))
    return keyed.agg(*(sql.expr(figure).alias(f"f{place}") for place, figure in enumerate(figures)))


def _bids_with_auctions(tables: Tables) -> DataFrame:
    bid, auction = (sql.struct(*_KINDS[name].record_type.get_field_names()).alias(name) for name in ("bid", "auction"))
    auctions = tables.auction.where("category = 10").select(auction)
    return tables.bid.select(bid).join(auctions, sql.expr("bid.auction = auction.id"))


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
    "q10": lambda tables: tables.bid.select(
        *("auction", "bidder", "price", "date_time", "extra"),
        sql.date_format("time", "yyyy-MM-dd").alias("dt"),
        sql.date_format("time", "HH:mm").alias("hm"),
    ),
    "q11": lambda tables: tables.bid.groupBy("bidder", sql.session_window("time", "10 seconds")).count(),
    "q13": _with_side_input,
    "q14": _calculation,
    "q17": _statistics_of_auctions,
    "q20": _bids_with_auctions,
    "q21": _channel_ids,
    "q22": lambda tables: tables.bid.selectExpr(
        "auction", "bidder", "price", "channel", *(f"split_part(url, '/', {part}) AS dir{part - 3}" for part in (4, 5, 6))
    ),
}


def start(name: str, rows: DataFrame, sink: str, folder: Path) -> StreamingQuery:
    """Start a query that goes over all files, a micro-batch after the other; `folder` gets its checkpoints, and files of q10."""
    writer = rows.writeStream.format(sink).queryName(name).option("checkpointLocation", f"{folder}/checkpoints")
    if sink == "csv":
        writer = writer.partitionBy("dt", "hm").option("path", f"{folder}/bids")
    return writer.outputMode("update" if name == "q17" else "append").trigger(availableNow=True).start()


def measure(session: SparkSession, name: str, folder: Path, count: int) -> tuple[int, float]:
    """Run a query over all files; return the number of records, and how long it took."""
    with tempfile.TemporaryDirectory() as results:
        started = time.perf_counter()
        tables = Tables(session, folder, count)
        rows = QUERIES[name](tables)
        start(name, rows, "csv" if name == "q10" else "noop", Path(results)).awaitTermination()
        return tables.records, time.perf_counter() - started
