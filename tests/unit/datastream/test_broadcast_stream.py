"""broadcast with state, connect, and what the transformation records."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Types
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, NotSerializableError
from flinkish.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    DataStream,
    KeyedBroadcastProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.program.operators import BroadcastProcessConfig, KeyedBroadcastProcessConfig
from flinkish.program.transformations import Partitioning, PartitionTransformation, TwoInputTransformation
from tests.kit.programs import last
from tests.unit.datastream.helpers import make_env, numbers

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
NAMES = MapStateDescriptor("names", Types.STRING(), Types.STRING())


class Plain(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        yield value


class Keyed(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        yield value


def same(value: Any) -> Any:
    return value


def test_broadcast_with_descriptors_gives_a_broadcast_stream_that_holds_them(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env).broadcast(RULES, NAMES)

    assert isinstance(stream, BroadcastStream)
    assert stream.broadcast_state_descriptors == [RULES, NAMES]
    partition = last(stream.input_stream)
    assert isinstance(partition, PartitionTransformation)
    assert partition.partitioner.partitioning is Partitioning.BROADCAST


def test_broadcast_without_descriptors_is_a_partitioning(env: StreamExecutionEnvironment) -> None:
    assert isinstance(numbers(env).broadcast(), DataStream)


@pytest.mark.parametrize("wrong", [ValueStateDescriptor("value", Types.LONG()), "rules", None])
def test_what_is_no_map_state_descriptor_is_refused(env: StreamExecutionEnvironment, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="MapStateDescriptor"):
        numbers(env).broadcast(RULES, wrong)


def test_two_states_of_one_name_are_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="'rules'"):
        numbers(env).broadcast(RULES, MapStateDescriptor("rules", Types.STRING(), Types.STRING()))


def test_a_stream_without_keys_takes_a_broadcast_process_function(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).connect(numbers(env).broadcast(RULES))
    assert isinstance(connected, BroadcastConnectedStream)

    result = connected.process(Plain(), Types.LONG())

    transformation = last(result)
    assert isinstance(transformation, TwoInputTransformation)
    assert isinstance(transformation.operator, BroadcastProcessConfig)
    assert [descriptor.get_name() for descriptor in transformation.operator.state_descriptors] == ["rules"]
    assert (transformation.name, transformation.first_key_selector) == ("Co-Process-Broadcast", None)
    assert result.get_type() == Types.LONG()


def test_a_keyed_stream_takes_a_keyed_broadcast_process_function(env: StreamExecutionEnvironment) -> None:
    keyed = numbers(env).key_by(same, key_type=Types.LONG())

    transformation = last(keyed.connect(numbers(env).broadcast(RULES)).process(Keyed()))

    assert isinstance(transformation, TwoInputTransformation)
    assert isinstance(transformation.operator, KeyedBroadcastProcessConfig)
    assert (transformation.name, transformation.key_type) == ("Keyed-Co-Process-Broadcast", Types.LONG())
    assert (transformation.first_key_selector is None, transformation.second_key_selector) == (False, None)


def test_the_kind_of_function_must_fit_the_stream(env: StreamExecutionEnvironment) -> None:
    broadcast = numbers(env).broadcast(RULES)
    plain, keyed = numbers(env).connect(broadcast), numbers(env).key_by(same).connect(broadcast)

    with pytest.raises(InvalidArgumentError, match="the stream is keyed"):
        keyed.process(Plain())
    with pytest.raises(InvalidArgumentError, match="the stream is not keyed"):
        plain.process(Keyed())
    wrong: Any = MapFunction
    with pytest.raises(InvalidArgumentError, match="needs a BroadcastProcessFunction"):
        plain.process(wrong)
    with pytest.raises(InvalidArgumentError, match=r"pass an instance: Plain\(\)"):
        plain.process(Plain)  # type: ignore[arg-type]


def test_a_function_that_cannot_be_pickled_is_refused(env: StreamExecutionEnvironment) -> None:
    import threading

    function = Plain()
    function.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(NotSerializableError, match="lock"):
        numbers(env).connect(numbers(env).broadcast(RULES)).process(function)


def test_streams_of_two_environments_cannot_be_connected(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="same environment"):
        numbers(env).connect(numbers(make_env()).broadcast(RULES))


def test_a_keyed_stream_cannot_be_broadcast(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="partitioning"):
        numbers(env).key_by(same).broadcast(RULES)


def test_the_classes_are_found_where_pyflink_has_them() -> None:
    from flinkish.datastream import data_stream

    assert data_stream.BroadcastStream is BroadcastStream
    assert data_stream.BroadcastConnectedStream is BroadcastConnectedStream
