"""Kafka to Kafka, exactly once, as a process of its own: counts the messages of each key. Bounded by what the topic holds.

Each message "<key> <number>" gives a message "<key> <count>", keyed by its key. KAFKA_KILL=<place>[:<n>] has the process killed
when its committer is at a place for the n-th time: `produced`, `marked` (the transaction is complete but not committed) or
`committed`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.serialization import SimpleStringSchema
from flinkish.datastream.connectors.base import DeliveryGuarantee
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkish.datastream.connectors.kafka.committer import KafkaCommitter
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from tests.recovery.mains import job_environment, job_parser

KEYS = 7


class Count(KeyedProcessFunction):
    def __init__(self, pause: float) -> None:
        self.pause = pause

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Any:
        if self.pause:
            threading.Event().wait(self.pause)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()} {count}"


class KeyOf(SimpleStringSchema):
    def serialize(self, element: Any) -> bytes:
        return str(element).split()[0].encode()


def key_of(message: str) -> str:
    return message.split()[0]


def messages(records: int) -> list[str]:
    """Return what the source topic is to hold."""
    return [f"{number % KEYS} {number}" for number in range(records)]


def expected(records: int) -> list[str]:
    """Return what the target topic is to hold in the end, sorted."""
    return sorted(f"{key} {count}" for key in range(KEYS) for count in range(1, len(range(key, records, KEYS)) + 1))


def arm() -> None:
    """Kill this process where KAFKA_KILL says."""
    place, _, number = os.environ.get("KAFKA_KILL", "").partition(":")
    left = int(number or 1)

    def reach(here: str) -> None:
        nonlocal left
        if here == place:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    mark, clean = KafkaCommitter._send_marker, KafkaCommitter._clean

    def send_marker(self: KafkaCommitter, *arguments: Any) -> None:
        if place == "produced" and self._producer is not None:
            self._producer.client.flush()
        reach("produced")
        mark(self, *arguments)
        reach("marked")

    def clean_up(self: KafkaCommitter, *arguments: Any) -> None:
        reach("committed")
        clean(self, *arguments)

    patched: list[tuple[str, Callable[..., None]]] = [("_send_marker", send_marker), ("_clean", clean_up)]
    for name, function in patched:
        setattr(KafkaCommitter, name, function)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = job_parser()
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--columns", action="store_true", help="read the messages as columns")
    given = parser.parse_args(arguments)
    settings = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "exponential-delay",
    }
    env = job_environment(given, 20, settings)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(given.brokers)
        .set_topics(given.source)
        .set_group_id(f"group-{given.source}")
        .set_property("isolation.level", "read_committed")
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(given.target)
        .set_key_serialization_schema(KeyOf())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(given.brokers)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"to-{given.target}")
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").uid("source")
    if given.columns:
        stream = stream.filter(pc.field("value") != "")
    counts = stream.key_by(key_of, Types.STRING()).process(Count(given.pause), Types.STRING()).uid("count")
    counts.sink_to(sink).uid("sink")
    arm()
    env.execute("kafka to kafka")


if __name__ == "__main__":
    main()
