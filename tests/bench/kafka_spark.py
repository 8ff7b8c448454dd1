"""A topic to a topic with Spark's own Kafka source, in a process of its own: the counts of keys, without flinkish.

    kafka_spark.py PROGRAM BROKERS SOURCE TARGET FOLDER JAR...

Programs: `stream` is groupBy().count() with state, `batch` counts each batch by itself in foreachBatch. Either writes the counts
of the keys of each batch, where the other engines write one count for each message. Prints its seconds, without Spark's start.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame, SparkSession

_BATCH = 200_000


def counts(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").count().selectExpr("key", "concat(key, ' ', count) as value")


def main(program: str, brokers: str, source: str, target: str, folder: str, *jars: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.jars", ",".join(jars)).config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.range(10).groupBy().count().collect()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", _BATCH).load()
    frame = rows.selectExpr("right(string(value), 4) as key")
    options = {"kafka.bootstrap.servers": brokers, "topic": target}

    def write(batch: DataFrame, batch_id: int) -> None:
        counts(batch).write.format("kafka").options(**options).save()

    started = time.perf_counter()
    if program == "stream":
        writer = counts(frame).writeStream.format("kafka").options(**options).outputMode("update")
    else:
        writer = frame.writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    print("SECONDS", time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
