"""The keyed count as a Spark user would write it: applyInPandasWithState grouped by key, with a call for each key and batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.bench.functions import Count, add_one, key_of


class _GroupCount:
    """GroupState with value() and update()."""

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def value(self) -> Any:
        return self._state.get[0] if self._state.exists else None

    def update(self, value: Any) -> None:
        self._state.update((value,))


def _count(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    process = Count(_GroupCount(state)).process
    for frame in frames:
        for value in frame["value"]:
            process(int(value))
    yield pd.DataFrame({"key": pd.Series([], dtype="int64")})


def _keyed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        values = [add_one(value) for value in frame["value"]]
        yield pd.DataFrame({"key": [key_of(value) for value in values], "value": values})


def records_per_second(spark: SparkSession, records_per_batch: int, batches: int = 3) -> float:
    """Run the query for some batches of the rate-micro-batch source; return the rate without the first batch."""
    spark = spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    source = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", records_per_batch).option("numPartitions", 2).load()
    )
    keyed = source.select("value").mapInPandas(_keyed, "key long, value long")
    counted = keyed.groupBy("key").applyInPandasWithState(_count, "key long", "count long", "append", GroupStateTimeout.NoTimeout)
    durations: list[float] = []

    def run(frame: DataFrame, batch: int) -> None:
        if len(durations) > batches:
            time.sleep(1)  # the query is stopped meanwhile: in the middle of a job Spark would print pages of errors
            return
        started = time.perf_counter()
        frame.collect()
        durations.append(time.perf_counter() - started)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        query = counted.writeStream.foreachBatch(run).option("checkpointLocation", checkpoint).start()
        while len(durations) <= batches and query.isActive:
            query.awaitTermination(0.2)  # type: ignore[arg-type]
        query.stop()
    timed = durations[1 : batches + 1]
    return records_per_batch * len(timed) / sum(timed)
