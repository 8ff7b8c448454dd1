"""JSON messages of 150 bytes from a topic into another one, exactly once, in a process of its own.

    kafka_json.py PROGRAM BROKERS SOURCE TARGET FOLDER JAR...

`windows` counts the messages of each user in windows of 10 s on columns, `windows-records` one message at a time; `each` writes
each message with the count of its user so far, `each-columns` does it on columns. `windows-spark` is Spark's own streaming, at
least once, as its Kafka sink is. Programs of flinkish run in the session that it starts, Spark's query in one of its defaults.
Prints the seconds of the second run in the session, with the start of the job or query.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import window

from flinkish.common import Configuration, Row, Time, TimestampAssigner, Types, WatermarkStrategy
from flinkish.datastream import DataStream, StreamExecutionEnvironment, aggregates
from flinkish.datastream.connectors.base import DeliveryGuarantee
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkish.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.engine.spark.session import open_session

USERS = 10_000
TEXT, LONG, DOUBLE = Types.STRING(), Types.LONG(), Types.DOUBLE()
EVENTS = Types.ROW_NAMED(["user", "time", "amount"], [TEXT, LONG, DOUBLE])
COUNTS = Types.ROW_NAMED(["user", "start", "count"], [TEXT, LONG, LONG])
_EPOCH = 1_700_000_000_000
_BATCH = 500_000


def message(number: int) -> bytes:
    """Return a message; 50,000 of them make a second of event time."""
    user, amount = number * 7919 % USERS, number % 10_000 / 100
    head = f'{{"user":"user-{user:05}","page":"/page/{number % 997:04}","time":{_EPOCH + number // 50},"amount":{amount},"pad":"'
    return f'{head:x<148}"}}'.encode()


class ByTime(TimestampAssigner):
    """Keeps the messages records, as a function looks at each."""

    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        return int(value.time)


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", LONG))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(user=value.user, start=value.time, count=count)


def results(program: str, events: DataStream) -> DataStream:
    keyed = events.key_by("user")
    if program == "each-columns":
        latest = aggregates.max("time")
        return keyed.aggregate(user=aggregates.key(), start=latest, count=aggregates.count(), per="record")
    if program == "each":
        return keyed.process(Count(), COUNTS)
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windows.aggregate(user=aggregates.key(), start=aggregates.window_start(), count=aggregates.count())


def run_flinkish(program: str, brokers: str, source_topic: str, target: str, folder: str) -> None:
    settings = {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "execution.engine": "spark",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(2)
    builder = KafkaSource.builder().set_bootstrap_servers(brokers).set_topics(source_topic).set_group_id("bench")
    source = (
        builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(EVENTS).build())
        .build()
    )
    times: Any = ByTime() if program in ("windows-records", "each") else "time"
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(times)
    schema = JsonRowSerializationSchema.builder().with_type_info(COUNTS).build()
    serializer = KafkaRecordSerializationSchema.builder().set_topic(target).set_value_serialization_schema(schema).build()
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(brokers)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"{target}-{Path(folder).name}")
        .build()
    )
    results(program, env.from_source(source, watermarks, "kafka", EVENTS)).sink_to(sink)
    env.execute(program)


def run_spark(spark: SparkSession, brokers: str, source: str, target: str, folder: str) -> None:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", _BATCH).load()
    events = rows.selectExpr("from_json(string(value), 'user string, time long, amount double') as e")
    events = events.selectExpr("e.user as user", "timestamp_millis(e.time) as time").withWatermark("time", "1 second")
    windows = events.groupBy("user", window("time", "10 seconds")).count()
    values = windows.selectExpr("to_json(struct(user, unix_millis(window.start) as start, count)) as value")
    writer = values.writeStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("topic", target)
    writer = writer.outputMode("append").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def main(program: str, brokers: str, source: str, target: str, folder: str, *jars: str) -> None:
    if program == "windows-spark":
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.jars", ",".join(jars)).config("spark.sql.shuffle.partitions", "2").getOrCreate()
    else:
        spark, _ = open_session(Configuration())
    spark.range(10).groupBy().count().collect()
    for turn in ("first", "second"):
        started = time.perf_counter()
        if program == "windows-spark":
            run_spark(spark, brokers, source, target, f"{folder}/{turn}")
        else:
            run_flinkish(program, brokers, source, target, f"{folder}/{turn}")
        seconds = time.perf_counter() - started
    print("SECONDS", seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
