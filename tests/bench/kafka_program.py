"""A topic to a topic, on flinkish and on PyFlink (with the package's name replaced by `pyflink`).

    kafka_program.py PROGRAM BROKERS SOURCE TARGET [KEY=VALUE...]

Programs: `source` drops what it reads; `copy` writes it; `count` writes each key with its count. GUARANTEE and JARS come from the
environment. Prints its seconds.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.common.serialization import SimpleStringSchema
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.base import DeliveryGuarantee
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value[-4:]} {count}"


def main(program: str, brokers: str, source_topic: str, target: str, *settings: str) -> None:
    configuration = Configuration()
    for setting in settings:
        configuration.set_string(*setting.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    for jar in filter(None, os.environ.get("JARS", "").split(",")):
        env.add_jars(f"file://{jar}")
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(brokers)
        .set_topics(source_topic)
        .set_group_id("bench")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka", Types.STRING())
    if program == "count":
        stream = stream.key_by(lambda value: value[-4:], Types.STRING()).process(Count(), Types.STRING())
    if program == "source":
        stream = stream.filter(lambda value: False)
    schema = KafkaRecordSerializationSchema.builder().set_topic(target).set_value_serialization_schema(SimpleStringSchema())
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(brokers)
        .set_record_serializer(schema.build())
        .set_delivery_guarantee(DeliveryGuarantee[os.environ.get("GUARANTEE", "AT_LEAST_ONCE")])
        .set_transactional_id_prefix(target)
        .build()
    )
    stream.sink_to(sink)
    started = time.perf_counter()
    env.execute(program)
    print("SECONDS", time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
