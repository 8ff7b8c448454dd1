"""What the reader does with the messages that its client returns; tests/behaviour has a broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from flinkish.common import Types
from flinkish.common.column_layout import needed_layout
from flinkish.common.serialization import SimpleStringSchema
from flinkish.datastream.connectors.kafka import KafkaSource
from flinkish.datastream.connectors.kafka.settings import KafkaPartitionSplit
from tests.unit.datastream.connectors.fakes import FakeOutput, FakeReaderContext


class Client:
    """A consumer that has some messages."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def poll(self, timeout: float) -> Message:
        return self._messages.pop(0)

    def consume(self, most: int, timeout: float) -> list[Message]:
        messages, self._messages = self._messages[:most], self._messages[most:]
        return messages

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 200, 300

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = {each.partition: each.offset for each in partitions}


def message(partition: int, offset: int, topic: str = "letters") -> Message:
    return Message(topic=topic, partition=partition, offset=offset, value=f"{topic} {partition} {offset}".encode())


def reader_of_letters(**properties: str) -> Any:
    builder: Any = KafkaSource.builder().set_bootstrap_servers("localhost:9").set_topics("letters")
    for name, value in properties.items():
        builder.set_property(name.replace("_", "."), value)
    return builder.set_value_only_deserializer(SimpleStringSchema()).build().create_reader(FakeReaderContext())


def test_messages_of_several_partitions_are_read_once_though_some_come_again() -> None:
    reader = reader_of_letters()
    names = {0: "letters-0", 1: "letters-1"}
    splits = [KafkaPartitionSplit(split_id=name, topic="letters", partition=part, offset=10) for part, name in names.items()]
    reader.add_splits(splits)
    reader._consumer.close()
    pairs = [(0, 10), (1, 10), (1, 11), (0, 9), (0, 10), (0, 11), (2, 10), (1, 12), (1, 13), (1, 9), (1, 10)]
    old = [message(0, 12, "others"), message(1, 10), message(1, 11)]
    reader._consumer = Client([message(*pair) for pair in pairs] + old)
    reader.set_split_limits({split.split_id: 12 + 2 * split.partition for split in splits})
    output: Any = FakeOutput(credit=100)
    for _ in splits:
        reader.poll_next(output)
    wanted = [(0, 10), (0, 11), (1, 10), (1, 11), (1, 12), (1, 13)]
    assert output.values == [f"letters {partition} {offset}" for partition, offset in wanted]


def test_columns_wait_for_a_whole_block_of_messages() -> None:
    class Blocks(FakeOutput):
        def collect_columns(self, batch: Any, times: Any = None) -> None:
            blocks.append(batch.num_rows)
            super().collect_columns(batch, times)

    blocks: list[int] = []
    reader = reader_of_letters()
    reader.add_splits([KafkaPartitionSplit(split_id="letters-0", topic="letters", partition=0, offset=0)])
    reader._consumer.close()
    reader._consumer = Client([message(0, offset) for offset in range(41_000)])
    reader.set_split_limits({"letters-0": 40_000})
    output: Any = Blocks(credit=100_000, layout=needed_layout(Types.STRING(), "letters"))
    reader.poll_next(output)
    assert blocks == [16_384, 16_384, 40_000 - 2 * 16_384]
    assert output.values == [f"letters 0 {offset}" for offset in range(40_000)]


@pytest.mark.parametrize(
    ("reset", "limit", "next_offset"),
    [("earliest", 50, 200), ("earliest", 150, 200), ("latest", 50, 200), ("latest", 150, 200), ("latest", 250, 250)],
)
def test_messages_that_are_gone_are_left_out_once_also_while_their_partition_is_not_read(
    caplog: pytest.LogCaptureFixture, reset: str, limit: int, next_offset: int
) -> None:
    reader = reader_of_letters(auto_offset_reset=reset)
    reader.add_splits([KafkaPartitionSplit(split_id="letters-0", topic="letters", partition=0, offset=0)])
    reader._consumer.close()
    reader._consumer = Client([message(0, offset) for offset in range(100)])
    reader.set_split_limits({"letters-0": 50})
    reader.poll_next(FakeOutput(credit=1000))
    reader.set_split_limits({"letters-0": limit})
    with caplog.at_level("WARNING"):
        reader._take([Message(topic="letters", partition=0, error=KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))])
    assert reader._consumer.assigned == {0: next_offset}
    assert f"offsets 100 to {next_offset - 1} are left out" in caplog.text
