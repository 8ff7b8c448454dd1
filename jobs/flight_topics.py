"""Kafka in flight_delays.py and publish_flights.py: the topic of flights, and the topic of knock-on delays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from flight_records import Flight, MessageParser

from flinkish.common import DeserializationSchema, Row, SerializationSchema, Types
from flinkish.common.errors import SourceError
from flinkish.datastream import DataStream
from flinkish.datastream.connectors.base import DeliveryGuarantee
from flinkish.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    client,
)
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.datastream.formats.json import JsonRowSerializationSchema

#: Seconds to wait for an answer of the brokers before the job starts.
_ANSWER_S: Final = 10.0

KNOCK_ON = Types.ROW_NAMED(
    ["aircraft", "carrier", "flight", "origin", "departure", "late_in", "late_out", "chain", "chain_minutes"],
    [
        Types.STRING(),
        Types.STRING(),
        Types.INT(),
        Types.STRING(),
        Types.INSTANT(),
        Types.INT(),
        Types.INT(),
        Types.INT(),
        Types.INT(),
    ],
)


@dataclass(frozen=True, slots=True)
class Topics:
    """Where flights come from and knock-on delays go to."""

    brokers: str
    flights: str
    delays: str


class FlightMessages(DeserializationSchema):
    """Reads a message as a flight, or as the row to be set aside."""

    def open(self) -> None:
        self._read = MessageParser().read

    def deserialize(self, message: bytes) -> Flight | Row:
        return self._read(message.decode("utf-8"))


class AircraftKey(SerializationSchema):
    """Makes the aircraft the key, so that the delays of an aircraft are in one partition, in their order."""

    def serialize(self, value: Row) -> bytes:
        aircraft: str = value["aircraft"]
        return aircraft.encode()


def flights_source(topics: Topics, unreadable: RecordErrorPolicy, *, bounded: bool) -> KafkaSource:
    """Return the source of flights: the whole topic up to now, or for ever."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(topics.brokers)
        .set_topics(topics.flights)
        .set_group_id(f"flight-delays-{topics.delays}")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_property("isolation.level", "read_committed")
        .set_value_only_deserializer(FlightMessages())
        .on_record_error(unreadable)
    )
    return (source.set_bounded(KafkaOffsetsInitializer.latest()) if bounded else source).build()


def write_delays(events: DataStream, topics: Topics) -> None:
    """Write the knock-on delays among the events of aircraft to their topic, exactly once."""
    messages = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topics.delays)
        .set_key_serialization_schema(AircraftKey())
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(KNOCK_ON).build())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(topics.brokers)
        .set_record_serializer(messages)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        # Two jobs must not have the same one, and two jobs would not write to the same topic.
        .set_transactional_id_prefix(f"flight-delays-{topics.delays}")
        .build()
    )
    delays = events.filter(lambda event: event["kind"] == "knock-on").name("Knock-on").uid("knock-on")
    names = KNOCK_ON.get_field_names()
    delays.map(lambda event: Row(**{name: event[name] for name in names}), KNOCK_ON).name("Delays").uid("delays").sink_to(
        sink
    ).name(topics.delays).uid("delays topic")


def check_topics(topics: Topics) -> None:
    """Raise SourceError if the brokers do not answer or have no flights; create the topic of delays if it is missing."""
    admin = Admin(topics.brokers)
    if not admin.partitions(topics.flights):
        raise SourceError(
            f"there is no topic {topics.flights!r} at {topics.brokers}",
            hint=f"fill it: python jobs/publish_flights.py --kafka {topics.brokers} --topic {topics.flights}",
        )
    if not admin.partitions(topics.delays):
        admin.create(topics.delays, 1)


class Admin:
    """Looks at topics and creates them; raises SourceError if the brokers do not answer or refuse."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._kafka = client.library()
        self._admin = client.make("AdminClient", {"bootstrap.servers": brokers}, "--kafka")

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, 0 if it does not exist."""
        # Asked for all topics, because asking for one creates it where brokers are set up so.
        topics = self._ask(lambda: self._admin.list_topics(timeout=_ANSWER_S), "cannot be reached").topics
        return len(topics[topic].partitions) if topic in topics else 0

    def messages(self, topic: str) -> int:
        """Return the number of messages in a topic."""
        spec = self._kafka.admin.OffsetSpec
        partitions = [self._kafka.TopicPartition(topic, number) for number in range(self.partitions(topic))]

        def total(at: Any) -> int:
            if not partitions:
                return 0
            futures = self._admin.list_offsets(dict.fromkeys(partitions, at), request_timeout=_ANSWER_S)
            offsets = [future.result(_ANSWER_S + 1).offset for future in futures.values()]
            if min(offsets) < 0:  # a broker that is starting answers -1001, without an error
                raise self._kafka.KafkaException(self._kafka.KafkaError(self._kafka.KafkaError.LEADER_NOT_AVAILABLE))
            return sum(offsets)

        count: int = self._ask(lambda: total(spec.latest()) - total(spec.earliest()), f"cannot say how full topic {topic!r} is")
        return count

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it can be used."""
        # Kafka removes messages by their time. Those of the job have the times of 2013, and would not be kept for long.
        settings = {"message.timestamp.type": "LogAppendTime"}
        new = self._kafka.admin.NewTopic(topic, partitions, -1, config=settings)
        created = self._admin.create_topics([new])[topic]
        self._ask(lambda: created.result(_ANSWER_S), f"cannot create topic {topic!r}", once=True)
        self._await(topic, there=True)

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until it is gone."""
        deleted = self._admin.delete_topics([topic])[topic]
        self._ask(lambda: deleted.result(_ANSWER_S), f"cannot delete topic {topic!r}", once=True)
        self._await(topic, there=False)

    def _await(self, topic: str, *, there: bool) -> None:
        deadline = time.monotonic() + _ANSWER_S
        while bool(self.partitions(topic)) is not there:
            if time.monotonic() > deadline:
                raise SourceError(
                    f"topic {topic!r} at {self._brokers} was {'created' if there else 'deleted'}, but not everywhere"
                )
            time.sleep(0.05)

    def _ask(self, question: Callable[[], Any], problem: str, *, once: bool = False) -> Any:
        # The partitions of a topic that was just created have no leader for a moment.
        deadline = time.monotonic() + _ANSWER_S
        while True:
            try:
                return question()
            except self._kafka.KafkaException as error:
                if once or not client.is_passing(error.args[0]) or time.monotonic() > deadline:
                    raise client.described(SourceError, f"Kafka at {self._brokers} {problem}", error) from None
            time.sleep(0.05)
