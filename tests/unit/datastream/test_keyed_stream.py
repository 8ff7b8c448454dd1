"""KeyedStream and ConnectedStreams: what each method records, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flinkish.datastream.connectors.print import PrintSink
from flinkish.program import operators
from flinkish.program.transformations import (
    OneInputTransformation,
    Partitioning,
    PartitionTransformation,
    SinkTransformation,
    TwoInputTransformation,
    UnionTransformation,
)
from tests.kit.functions import Add
from tests.kit.programs import id_of, last
from tests.unit.datastream.helpers import FakeExecutor, numbers


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Unkeyed(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class CoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return None


class CoFlatMap(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return None

    def flat_map2(self, value: Any) -> Any:
        return [value]


class Co(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedCo(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


def parity(value: int) -> int:
    return value % 2


@pytest.fixture
def keyed(env: StreamExecutionEnvironment) -> KeyedStream:
    return env.from_collection([1, 2, 3], Types.INT()).key_by(parity, Types.LONG())


def test_key_by_partitions_by_hash_and_keeps_the_record_type(keyed: KeyedStream) -> None:
    made = last(keyed)

    assert isinstance(made, PartitionTransformation)
    assert (made.partitioner.partitioning, made.partitioner.key_selector) == (Partitioning.HASH, parity)
    assert made.output_type == Types.INT()


def test_the_type_shown_is_a_row_of_key_and_record(env: StreamExecutionEnvironment, keyed: KeyedStream) -> None:
    assert keyed.get_type() == Types.ROW([Types.LONG(), Types.INT()])
    assert numbers(env).key_by(parity).get_type() == Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY()])


@pytest.mark.parametrize(
    ("call", "name", "config"),
    [
        (lambda keyed: keyed.map(abs), "Map", operators.MapConfig),
        (lambda keyed: keyed.flat_map(lambda value: [value]), "FlatMap", operators.FlatMapConfig),
        (lambda keyed: keyed.filter(bool), "Filter", operators.FilterConfig),
        (lambda keyed: keyed.process(Keyed()), "KEYED PROCESS", operators.KeyedProcessConfig),
        (lambda keyed: keyed.reduce(Add()), "Reduce", operators.ReduceConfig),
        (lambda keyed: keyed.reduce(lambda a, b: a), "Reduce", operators.ReduceConfig),
        (lambda keyed: keyed.sum(), "Reduce", operators.ReduceConfig),
        (lambda keyed: keyed.min_by(), "Reduce", operators.ReduceConfig),
    ],
)
def test_operators_on_a_keyed_stream_have_the_key(keyed: KeyedStream, call: Any, name: str, config: type) -> None:
    stream = call(keyed)

    made = last(stream)
    assert not isinstance(stream, KeyedStream)
    assert isinstance(made, OneInputTransformation)
    assert isinstance(made.operator, config)
    assert (made.name, made.input, made.key_selector, made.key_type) == (name, id_of(keyed), parity, Types.LONG())


def test_reduce_and_aggregations_keep_the_record_type(keyed: KeyedStream) -> None:
    assert keyed.reduce(Add()).get_type() == keyed.max().get_type() == keyed.filter(bool).get_type() == Types.INT()


def test_process_needs_a_keyed_process_function(keyed: KeyedStream) -> None:
    with pytest.raises(TypeError, match="on a KeyedStream it is a KeyedProcessFunction"):
        keyed.process(Unkeyed())  # type: ignore[arg-type]


def test_key_by_on_a_keyed_stream_starts_from_the_original_stream(keyed: KeyedStream) -> None:
    again = keyed.key_by(str)

    assert last(again).inputs == last(keyed).inputs


@pytest.mark.parametrize("position", [1, "x", -2], ids=repr)
def test_scalars_have_position_zero_only(keyed: KeyedStream, position: Any) -> None:
    with pytest.raises(InvalidProgramError, match="of type Integer, without fields"):
        keyed.sum(position)


@pytest.mark.parametrize("position", [None, 1.0, True], ids=repr)
def test_a_position_must_be_a_number_or_a_name(keyed: KeyedStream, position: Any) -> None:
    with pytest.raises(TypeError, match=r"sum\(\) needs the position of a field"):
        keyed.sum(position)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("shuffle", ()),
        ("rebalance", ()),
        ("rescale", ()),
        ("forward", ()),
        ("broadcast", ()),
        ("partition_custom", (max, abs)),
        ("name", ("n",)),
        ("get_name", ()),
        ("uid", ("u",)),
        ("set_uid_hash", ("0" * 32,)),
        ("set_description", ("d",)),
        ("set_parallelism", (1,)),
        ("set_max_parallelism", (1,)),
        ("force_non_parallel", ()),
        ("set_buffer_timeout", (1,)),
        ("start_new_chain", ()),
        ("disable_chaining", ()),
        ("slot_sharing_group", ("g",)),
        ("get_side_output", (OutputTag("t"),)),
        ("cache", ()),
    ],
)
def test_what_makes_no_sense_on_a_keyed_stream_is_refused(keyed: KeyedStream, method: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidProgramError, match=rf"{method}\(\).* (of a KeyedStream|key_by\(\) runs)"):
        getattr(keyed, method)(*arguments)


def test_sinks_and_unions_get_the_records_without_keys(env: StreamExecutionEnvironment, keyed: KeyedStream) -> None:
    printed = last(keyed.print("id"))
    union = last(keyed.union(env.from_collection([4], Types.INT())))

    assert isinstance(printed, SinkTransformation)
    assert isinstance(union, UnionTransformation)
    assert (printed.sink, printed.output_type) == (PrintSink("id"), Types.INT())
    assert union.output_type == Types.INT()


def test_watermarks_can_be_assigned_to_a_keyed_stream_without_keys(keyed: KeyedStream) -> None:
    made = last(keyed.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()))

    assert isinstance(made, OneInputTransformation)
    assert (made.output_type, made.key_selector) == (Types.INT(), None)


def test_project_on_a_keyed_stream_projects_the_records(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()])).key_by(lambda value: value[0])

    assert keyed.project(1).get_type() == Types.TUPLE([Types.STRING()])


def test_results_of_a_keyed_stream_are_rows_of_key_and_record(keyed: KeyedStream, executor: FakeExecutor) -> None:
    keyed.execute_and_collect()

    rows, sink = list(executor.programs[0].transformations.values())[-2:]
    assert isinstance(rows, OneInputTransformation)
    assert isinstance(rows.operator, operators.MapConfig)
    assert rows.operator.function.map(5) == Row(f0=1, f1=5)
    assert (rows.parallelism, rows.input, sink.output_type) == (1, id_of(keyed), Types.ROW([Types.LONG(), Types.INT()]))


# Two inputs.


@pytest.mark.parametrize(
    ("call", "name", "config"),
    [
        (lambda connected: connected.map(CoMap()), "Co-Map", operators.CoMapConfig),
        (lambda connected: connected.flat_map(CoFlatMap()), "Co-Flat Map", operators.CoFlatMapConfig),
        (lambda connected: connected.process(Co()), "Co-Process", operators.CoProcessConfig),
    ],
)
def test_connected_streams_are_read_by_one_operator(env: StreamExecutionEnvironment, call: Any, name: str, config: type) -> None:
    first, second = numbers(env), numbers(env)

    made = last(call(first.connect(second)))

    assert isinstance(made, TwoInputTransformation)
    assert isinstance(made.operator, config)
    assert (made.name, made.inputs) == (name, (id_of(first), id_of(second)))
    assert (made.first_key_selector, made.second_key_selector, made.key_type) == (None, None, None)


def test_keyed_connected_streams_have_both_selectors(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).connect(numbers(env)).key_by(parity, str, Types.LONG())

    made = last(connected.process(KeyedCo(), Types.STRING()))

    assert isinstance(made, TwoInputTransformation)
    assert (made.name, made.output_type) == ("Keyed Co-Process", Types.STRING())
    assert (made.first_key_selector, made.second_key_selector, made.key_type) == (parity, str, Types.LONG())
    assert {type(env.transformations[identifier]) for identifier in made.inputs} == {PartitionTransformation}


@pytest.mark.parametrize("call", [lambda c: c.map(CoMap()), lambda c: c.flat_map(CoFlatMap()), lambda c: c.process(Co())])
def test_functions_without_keys_may_be_used_on_keyed_connected_streams(env: StreamExecutionEnvironment, call: Any) -> None:
    made = last(call(numbers(env).key_by(parity).connect(numbers(env).key_by(str))))

    assert isinstance(made, TwoInputTransformation)
    assert (made.first_key_selector, made.second_key_selector) == (parity, str)


def test_one_keyed_side_is_not_enough_for_keys(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).key_by(parity).connect(numbers(env))

    made = last(connected.process(Co()))
    assert isinstance(made, TwoInputTransformation)
    assert made.first_key_selector is None
    with pytest.raises(InvalidArgumentError, match="needs both streams keyed"):
        connected.process(KeyedCo())


def test_keys_of_two_types_are_refused(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).key_by(parity, Types.INT()).connect(numbers(env).key_by(str, Types.STRING()))

    with pytest.raises(InvalidProgramError, match="of one type; got Integer and String"):
        connected.process(KeyedCo())


@pytest.mark.parametrize(("method", "kind"), [("map", "CoMap"), ("flat_map", "CoFlatMap"), ("process", "CoProcess")])
def test_connected_streams_need_their_own_functions(env: StreamExecutionEnvironment, method: str, kind: str) -> None:
    with pytest.raises(TypeError, match=rf"{method}\(\) needs a {kind}Function; got"):
        getattr(numbers(env).connect(numbers(env)), method)(lambda value: value)
