"""Write the events of Nexmark into Kafka: topics with persons, auctions and bids as JSON, in the order of their times.

Run it with `python -m jobs.nexmark.kafka --brokers localhost:9092 --events 1000000`. Topics that are missing are created by
brokers that do so; each gets every message once.
"""

from __future__ import annotations

from flinkish.common import WatermarkStrategy
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.base import DeliveryGuarantee
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkish.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from jobs.command_line import ArgumentParser, brokers, clear_errors, environment, positive, topic
from jobs.nexmark.events import AUCTIONS, BIDS, PERSONS, Kind, Streams


def topic_of(prefix: str, name: str) -> str:
    return f"{prefix}-{name}"


def write(streams: Streams, addresses: str, prefix: str) -> None:
    """Add sinks that write all events, exactly once; the streams must have one subtask, to keep their order."""
    for name, kind, stream in (
        ("persons", PERSONS, streams.person),
        ("auctions", AUCTIONS, streams.auction),
        ("bids", BIDS, streams.bid),
    ):
        json = JsonRowSerializationSchema.builder().with_type_info(kind.record_type).build()
        messages = KafkaRecordSerializationSchema.builder().set_topic(topic_of(prefix, name)).set_value_serialization_schema(json)
        sink = KafkaSink.builder().set_bootstrap_servers(addresses).set_record_serializer(messages.build())
        sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(topic_of(prefix, name))
        stream.sink_to(sink.build()).name(f"{name} into Kafka").uid(f"{name} into Kafka")


class StreamsFromKafka(Streams):
    """The same streams, of the messages that the topics have now."""

    def __init__(self, env: StreamExecutionEnvironment, addresses: str, prefix: str) -> None:
        super().__init__(env, 0)
        self._addresses, self._prefix = addresses, prefix

    def _stream(self, kind: Kind, name: str) -> DataStream:
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers(self._addresses)
            .set_topics(topic_of(self._prefix, name))
            .set_starting_offsets(KafkaOffsetsInitializer.earliest())
            .set_bounded(KafkaOffsetsInitializer.latest())
            .set_property("isolation.level", "read_committed")
            .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(kind.record_type).build())
            .build()
        )
        by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("date_time")
        return self.env.from_source(source, by_time, name).uid(name)


def main() -> None:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--brokers", type=brokers, required=True, metavar="HOST:PORT", help="addresses, separated by commas")
    parser.add_argument("--topics", type=topic, default="nexmark", metavar="PREFIX", help="of their names; default: %(default)s")
    parser.add_argument("--events", type=positive, default=1_000_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=positive, default=1, metavar="N", help="of the events; default: %(default)s")
    arguments = parser.parse_args()
    with clear_errors():
        env = environment(arguments)
        env.set_parallelism(1)
        env.enable_checkpointing(10_000)
        write(Streams(env, arguments.events, arguments.seed), arguments.brokers, arguments.topics)
        env.execute("Nexmark into Kafka")


if __name__ == "__main__":
    main()
