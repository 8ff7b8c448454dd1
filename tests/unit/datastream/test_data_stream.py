"""DataStream: what each method records, and what it refuses."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flinkish.common import Duration, Types, WatermarkStrategy
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, NotSerializableError, UnsupportedError
from flinkish.common.typeinfo import DecimalTypeInfo
from flinkish.datastream import (
    CachedDataStream,
    CloseableIterator,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    SinkFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from flinkish.datastream.connectors.base import Sink, StreamTransformer, SupportsPreprocessing
from flinkish.datastream.connectors.collect import CollectSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.connectors.print import PrintSink
from flinkish.datastream.connectors.socket import SocketSource
from flinkish.program import operators
from flinkish.program.transformations import (
    ChainingStrategy,
    OneInputTransformation,
    Partitioning,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    UnionTransformation,
)
from flinkish.udf.function_wrappers import function_behind
from tests.kit.functions import Itself
from tests.kit.programs import id_of, last
from tests.unit.datastream.helpers import FakeExecutor, make_env, numbers


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


class Words(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return value.split()


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value % 2 == 0)


class Doubling(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value
        yield value


class Lock(MapFunction):
    def __init__(self) -> None:
        self.inner = {"lock": threading.Lock()}

    def map(self, value: Any) -> Any:
        return value


class Modulo(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value % 2


class First(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return 0


class Writing(SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        pass


# Operators.


@pytest.mark.parametrize("function", [Double(), lambda value: 2 * value], ids=["function", "lambda"])
def test_map_takes_functions_and_callables(env: StreamExecutionEnvironment, function: Any) -> None:
    stream = numbers(env).map(function, Types.INT())

    made = last(stream)
    assert isinstance(made, OneInputTransformation)
    assert isinstance(made.operator, operators.MapConfig)
    assert (stream.get_name(), stream.get_type(), made.key_selector) == ("Map", Types.INT(), None)
    assert made.operator.function.map(4) == 8


def test_flat_map_and_filter_take_functions_and_callables(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(["a b"], Types.STRING())

    for function in (Words(), str.split):
        flat = last(stream.flat_map(function, Types.STRING()))
        assert isinstance(flat, OneInputTransformation)
        assert isinstance(flat.operator, operators.FlatMapConfig)
        assert flat.name == "FlatMap"
        assert list(flat.operator.function.flat_map("x y")) == ["x", "y"]
    for predicate in (Even(), lambda value: value % 2 == 0):
        kept = last(stream.filter(predicate))
        assert isinstance(kept, OneInputTransformation)
        assert isinstance(kept.operator, operators.FilterConfig)
        assert (kept.name, kept.output_type) == ("Filter", Types.STRING())
        assert kept.operator.function.filter(4) is True


def test_process_records_the_function(env: StreamExecutionEnvironment) -> None:
    made = last(numbers(env).process(Doubling(), Types.INT()))

    assert isinstance(made, OneInputTransformation)
    assert isinstance(made.operator, operators.ProcessConfig)
    assert isinstance(made.operator.function, Doubling)
    assert made.name == "PROCESS"


def test_a_function_object_is_another_one_in_each_operator_as_it_was_when_it_was_given(env: StreamExecutionEnvironment) -> None:
    selector = Modulo()

    class Adding(MapFunction):
        def __init__(self) -> None:
            self.by = 1

        def map(self, value: Any) -> Any:
            return value + self.by

    function = Adding()
    first = last(numbers(env).map(function))
    function.by = 2
    second = last(numbers(env).map(function))
    keyed = [numbers(env).key_by(selector) for _ in range(2)]

    assert isinstance(first, OneInputTransformation)
    assert isinstance(second, OneInputTransformation)
    functions = [made.operator.function for made in (first, second) if isinstance(made.operator, operators.MapConfig)]
    assert [made.by for made in functions if isinstance(made, Adding)] == [1, 2]
    partitions = [last(stream) for stream in keyed]
    selectors = [
        function_behind(made.partitioner.key_selector) for made in partitions if isinstance(made, PartitionTransformation)
    ]
    assert len({id(made) for made in (selector, *selectors)}) == 3


def test_output_type_is_any_object_by_default_and_a_list_is_a_row(env: StreamExecutionEnvironment) -> None:
    assert numbers(env).map(abs).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert numbers(env).map(abs, [Types.INT(), Types.STRING()]).get_type() == Types.ROW([Types.INT(), Types.STRING()])  # type: ignore[arg-type]


@pytest.mark.parametrize("output_type", [Types.INT, "INT", int], ids=["method", "name", "class"])
def test_an_output_type_that_is_none_is_refused(env: StreamExecutionEnvironment, output_type: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"output_type of map\(\) must be None, a list of TypeInformation"):
        numbers(env).map(abs, output_type)


@pytest.mark.parametrize(
    ("function", "message"),
    [(3, "got 3"), (None, "got None"), (Double, "got the class Double itself"), (Even(), "another kind of function")],
    ids=["number", "nothing", "class", "wrong kind"],
)
def test_map_refuses_what_is_no_function_for_it(env: StreamExecutionEnvironment, function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        numbers(env).map(function)
    assert isinstance(caught.value, InvalidArgumentError)
    assert "map() needs a MapFunction or a callable" in str(caught.value)


@pytest.mark.parametrize(
    ("method", "given", "hint"),
    [
        ("map", ["a", "b"], "write it as a function: lambda row: (row.a, row.b)."),
        ("key_by", ["a"], "write it as a function: lambda row: row.a."),
        ("key_by", None, "pass the function itself: f, not f()."),
        ("map", "k", "write it as a function: lambda row: row.k."),
        ("map", "order id", "write it as a function: lambda row: row['order id']."),
        ("map", 0, "write it as a function: lambda row: row[0]."),
        ("map", Types.INT(), "the function comes first, and its type after it."),
        ("flat_map", ["items"], "write it as a function: lambda row: row.items."),
        ("filter", "price > 3", "write the condition as a function, such as lambda row: row.price > 10."),
    ],
)
def test_a_field_in_the_place_of_a_function_is_refused_with_the_function_to_write(
    env: StreamExecutionEnvironment, method: str, given: object, hint: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{method}\(\) needs a") as caught:
        getattr(numbers(env), method)(given)
    assert str(caught.value).partition("\nHint: ")[2] == hint


def test_a_field_in_the_place_of_a_reduce_function_or_partitioner_is_refused_with_what_to_write(
    env: StreamExecutionEnvironment,
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Hint: .*a KeyedStream has sum\(\), min\(\) and max\(\)"):
        numbers(env).key_by(lambda number: number).reduce("sum")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"Hint: for example lambda key, subtasks: key % subtasks\."):
        numbers(env).partition_custom(3, lambda number: number)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["flat_map", "filter", "key_by", "process", "add_sink", "sink_to", "union", "connect"])
def test_a_wrong_argument_is_a_type_error_that_names_the_method(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.raises(TypeError, match=rf"{method}\(\) needs a"):
        getattr(numbers(env), method)(["no", object()])


def test_process_hints_at_key_by_when_it_is_given_a_keyed_function(env: StreamExecutionEnvironment) -> None:
    from flinkish.datastream import KeyedProcessFunction

    class Keyed(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return None

    with pytest.raises(TypeError, match=r"Hint: call key_by\(\) first"):
        numbers(env).process(Keyed())  # type: ignore[arg-type]


def test_a_function_that_cannot_be_pickled_is_refused_with_the_attribute_at_fault(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(NotSerializableError, match=r"the function of map\(\), an instance of .*Lock, .*`inner\['lock'\]`"):
        numbers(env).map(Lock())


def test_a_closure_that_cannot_be_pickled_is_refused_with_the_variable_at_fault(env: StreamExecutionEnvironment) -> None:
    lock = threading.Lock()

    with pytest.raises(NotSerializableError, match=r"test_data_stream\..* line \d+, .*`lock`"):
        numbers(env).filter(lambda value: lock.locked())


def test_a_stream_or_environment_inside_a_function_is_refused(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env)

    with pytest.raises(NotSerializableError, match="cannot be used inside a function"):
        stream.map(lambda value: stream)
    with pytest.raises(NotSerializableError, match="cannot be used inside a function"):
        stream.map(lambda value: env)


def test_project_keeps_fields_of_tuples_in_the_given_order(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([(1, "a", 2.0)], Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()]))

    made = last(stream.project(2, 0))

    assert isinstance(made, OneInputTransformation)
    assert isinstance(made.operator, operators.MapConfig)
    assert (made.name, made.output_type) == ("Projection", Types.TUPLE([Types.DOUBLE(), Types.INT()]))
    assert made.operator.function.map((1, "a", 2.0)) == (2.0, 1)


@pytest.mark.parametrize("fields", [(), (3,), (-1,), (0, 7)], ids=str)
def test_project_refuses_fields_that_are_not_there(env: StreamExecutionEnvironment, fields: tuple[int, ...]) -> None:
    stream = env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))

    with pytest.raises(InvalidProgramError, match=r"project\("):
        stream.project(*fields)


def test_project_needs_tuples(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="needs a stream of type TUPLE; this one is of type RowTypeInfo"):
        env.from_collection([(1,)], Types.ROW([Types.INT()])).project(0)


def test_union_merges_streams_of_one_type(env: StreamExecutionEnvironment) -> None:
    first, second = numbers(env), numbers(env)

    made = last(first.union(second, first))

    assert isinstance(made, UnionTransformation)
    assert made.inputs == (id_of(first), id_of(second), id_of(first))


def test_union_of_different_types_is_refused_with_both(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="got Integer and String"):
        env.from_collection([1], Types.INT()).union(env.from_collection(["a"], Types.STRING()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), Types.ROW_NAMED(["b", "a"], [Types.INT(), Types.INT()])),
        (Types.LIST(Types.ROW_NAMED(["a"], [Types.INT()])), Types.LIST(Types.ROW_NAMED(["b"], [Types.INT()]))),
        (DecimalTypeInfo(4, 2), DecimalTypeInfo(5, 3)),
    ],
)
def test_union_of_rows_with_other_names_is_refused(env: StreamExecutionEnvironment, one: Any, other: Any) -> None:
    streams = [numbers(env).map(lambda number: number, each) for each in (one, other)]
    with pytest.raises(
        InvalidProgramError, match=r"union\(\) needs the same names of fields, in the same order, and the same digits"
    ):
        streams[0].union(streams[1])


@pytest.mark.parametrize("method", ["union", "connect"])
def test_streams_of_two_environments_cannot_be_combined(env: StreamExecutionEnvironment, method: str) -> None:
    with pytest.raises(InvalidProgramError, match="of the same environment"):
        getattr(numbers(env), method)(numbers(make_env()))


def test_assign_timestamps_and_watermarks_keeps_the_type(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(Itself())

    made = last(env.from_collection([1], Types.INT()).assign_timestamps_and_watermarks(strategy))

    assert isinstance(made, OneInputTransformation)
    assert isinstance(made.operator, operators.TimestampsAndWatermarksConfig)
    assert isinstance(made.operator.strategy.timestamp_assigner, Itself)
    assert (made.name, made.output_type) == ("Timestamps/Watermarks", Types.INT())


def test_a_strategy_with_alignment_is_for_sources_that_can_be_held_back(env: StreamExecutionEnvironment) -> None:
    def aligned(strategy: WatermarkStrategy) -> WatermarkStrategy:
        return strategy.with_watermark_alignment("group", Duration.of_seconds(1))

    monotonous, none = aligned(WatermarkStrategy.for_monotonous_timestamps()), aligned(WatermarkStrategy.no_watermarks())
    env.from_source(NumberSequenceSource(1, 2), monotonous, "n")
    with pytest.raises(UnsupportedError, match="cannot be held back by with_watermark_alignment"):
        numbers(env).assign_timestamps_and_watermarks(monotonous)
    with pytest.raises(UnsupportedError, match="SocketSource is read on the driver"):
        env.from_source(SocketSource("localhost", 1), monotonous, "socket")
    with pytest.raises(InvalidProgramError, match="needs watermarks; the strategy makes none"):
        env.from_source(NumberSequenceSource(1, 2), none, "n")


def test_a_watermark_strategy_that_is_none_is_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidArgumentError, match="needs a WatermarkStrategy; got 5"):
        numbers(env).assign_timestamps_and_watermarks(5)  # type: ignore[arg-type]


# Partitioning.


@pytest.mark.parametrize("method", ["shuffle", "rebalance", "rescale", "forward", "broadcast"])
def test_partitionings_are_recorded_and_keep_the_type(env: StreamExecutionEnvironment, method: str) -> None:
    made = last(getattr(env.from_collection([1], Types.INT()), method)())

    assert isinstance(made, PartitionTransformation)
    assert (made.partitioner.partitioning, made.output_type) == (Partitioning[method.upper()], Types.INT())


@pytest.mark.parametrize("partitioner", [First(), lambda key, number: 0], ids=["function", "lambda"])
@pytest.mark.parametrize("selector", [Modulo(), lambda value: value % 2], ids=["function", "lambda"])
def test_partition_custom_takes_functions_and_callables(env: StreamExecutionEnvironment, partitioner: Any, selector: Any) -> None:
    made = last(numbers(env).partition_custom(partitioner, selector))

    assert isinstance(made, PartitionTransformation)
    assert made.partitioner.partitioning is Partitioning.CUSTOM
    assert made.partitioner.function is not None
    assert made.partitioner.key_selector is not None
    assert made.partitioner.function(1, 3) == 0
    assert made.partitioner.key_selector(5) == 1


def test_the_function_object_behind_a_selector_can_be_found_for_open_and_close(env: StreamExecutionEnvironment) -> None:
    keyed = last(numbers(env).key_by(Modulo()))
    plain = last(numbers(env).key_by(lambda value: value))

    assert isinstance(keyed, PartitionTransformation)
    assert isinstance(plain, PartitionTransformation)
    assert isinstance(function_behind(keyed.partitioner.key_selector), Modulo)
    assert function_behind(plain.partitioner.key_selector) is None


@pytest.mark.parametrize("method", ["name", "uid", "set_description", "set_uid_hash", "slot_sharing_group"])
@pytest.mark.parametrize("make", ["shuffle", "rebalance", "union"])
def test_what_runs_no_operator_cannot_be_named(env: StreamExecutionEnvironment, make: str, method: str) -> None:
    stream = getattr(numbers(env), make)()

    with pytest.raises(InvalidProgramError, match=rf"{method}\(\) needs an operator to work on, but {make}\(\) runs none"):
        getattr(stream, method)("a" * 32)


def test_a_cached_stream_has_the_type_of_its_origin_and_nothing_to_set(env: StreamExecutionEnvironment) -> None:
    cached = env.from_collection([1], Types.INT()).map(abs, Types.LONG()).cache()

    assert isinstance(cached, CachedDataStream)
    assert cached.get_type() == Types.LONG()
    cached.invalidate()
    for call in (
        lambda: cached.name("n"),
        cached.get_name,
        lambda: cached.set_parallelism(1),
        cached.disable_chaining,
        cached.cache,
    ):
        with pytest.raises(InvalidProgramError, match=r"cache\(\) runs no"):
            call()


def test_only_what_an_operator_makes_can_be_cached(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match=r"cache\(\) needs the result of an operator or a side output; union\(\) runs"):
        numbers(env).union(numbers(env)).cache()
    with pytest.raises(InvalidProgramError, match=r"key_by\(\) runs no operator"):
        numbers(env).key_by(abs).cache()


# Settings.


def test_setters_replace_the_transformation_and_keep_references_valid(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env).map(abs)
    after = stream.filter(Even())

    returned = (
        stream.name("n")
        .uid("u")
        .set_uid_hash("0123456789abcdefABCDEF0123456789")
        .set_description("d")
        .set_parallelism(3)
        .set_max_parallelism(64)
        .set_buffer_timeout(5)
        .slot_sharing_group("g")
    )

    made = last(stream)
    assert returned is stream
    assert (made.name, made.uid, made.description, made.parallelism, made.max_parallelism) == ("n", "u", "d", 3, 64)
    assert (made.uid_hash, made.slot_sharing_group) == ("0123456789abcdefABCDEF0123456789", "g")
    assert env.transformations[last(after).inputs[0]] is made


def test_chaining_is_set_by_start_new_chain_and_disable_chaining(env: StreamExecutionEnvironment) -> None:
    assert last(numbers(env).map(abs)).chaining_strategy is ChainingStrategy.ALWAYS
    assert last(numbers(env).map(abs).start_new_chain()).chaining_strategy is ChainingStrategy.HEAD
    assert last(numbers(env).map(abs).disable_chaining()).chaining_strategy is ChainingStrategy.NEVER


def test_force_non_parallel_fixes_the_parallelism_at_one(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env).map(abs).force_non_parallel()

    assert (last(stream).parallelism, last(stream).max_parallelism) == (1, 1)
    with pytest.raises(InvalidProgramError, match="can only run with parallelism 1; got 2"):
        stream.set_parallelism(2)
    with pytest.raises(InvalidProgramError, match="max parallelism of 'Map' must be 1; got 2"):
        stream.set_max_parallelism(2)
    assert last(stream.set_parallelism(1).set_parallelism(-1)).parallelism == 1


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_parallelism", 0),
        ("set_parallelism", -2),
        ("set_max_parallelism", 0),
        ("set_max_parallelism", 32769),
        ("set_buffer_timeout", -2),
        ("set_uid_hash", "zz"),
        ("set_uid_hash", "g" * 32),
        ("set_uid_hash", "0" * 33),
    ],
)
def test_settings_out_of_range_are_refused(env: StreamExecutionEnvironment, method: str, value: Any) -> None:
    with pytest.raises(InvalidProgramError, match=str(value)):
        getattr(numbers(env).map(abs), method)(value)


@pytest.mark.parametrize(
    ("method", "value"),
    [("set_parallelism", "2"), ("set_parallelism", True), ("name", 3), ("uid", ""), ("uid", None), ("slot_sharing_group", 1)],
)
def test_settings_of_a_wrong_type_are_refused(env: StreamExecutionEnvironment, method: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        getattr(numbers(env).map(abs), method)(value)


def test_a_slot_sharing_group_object_is_registered_and_set_by_name(env: StreamExecutionEnvironment) -> None:
    group = SlotSharingGroup.builder("heavy").set_cpu_cores(1).set_task_heap_memory_mb(100).build()

    assert last(numbers(env).map(abs).slot_sharing_group(group)).slot_sharing_group == "heavy"

    other = SlotSharingGroup.builder("heavy").set_cpu_cores(2).set_task_heap_memory_mb(100).build()
    with pytest.raises(InvalidProgramError, match="'heavy' is already registered with other resources"):
        numbers(env).map(abs).slot_sharing_group(other)


def test_environment_and_settings_are_reached_from_a_stream(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env)

    assert stream.get_execution_environment() is env
    assert stream.get_execution_config() == env.get_config()


# Side outputs.


def test_a_side_output_has_the_type_of_its_tag(env: StreamExecutionEnvironment) -> None:
    tag = OutputTag("late", Types.STRING())
    stream = numbers(env).process(Doubling())

    made = last(stream.get_side_output(tag))

    assert isinstance(made, SideOutputTransformation)
    assert (made.input, made.tag, made.output_type) == (id_of(stream), tag, Types.STRING())


def test_a_side_output_gets_an_operator_once_something_is_set_on_it(env: StreamExecutionEnvironment) -> None:
    side = numbers(env).process(Doubling()).get_side_output(OutputTag("late", Types.INT()))
    virtual = id_of(side)

    side.name("late ones").set_parallelism(2)

    made = last(side)
    assert isinstance(made, OneInputTransformation)
    assert isinstance(made.operator, operators.MapConfig)
    assert (made.name, made.parallelism, made.input, made.output_type) == ("late ones", 2, virtual, Types.INT())
    assert made.operator.function.map(7) == 7


def test_one_tag_id_with_two_types_on_one_operator_is_refused(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env).process(Doubling())
    stream.get_side_output(OutputTag("late", Types.INT()))
    stream.get_side_output(OutputTag("late", Types.INT()))

    with pytest.raises(InvalidProgramError, match="'late' is already read with type Integer; got String"):
        stream.get_side_output(OutputTag("late", Types.STRING()))


def test_side_outputs_need_an_operator_and_a_tag(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="needs an operator"):
        numbers(env).shuffle().get_side_output(OutputTag("late"))
    with pytest.raises(InvalidArgumentError, match="needs an OutputTag; got 'late'"):
        numbers(env).map(abs).get_side_output("late")  # type: ignore[arg-type]


# Sinks.


@pytest.mark.parametrize("identifier", [None, "id"])
def test_print_is_a_sink(env: StreamExecutionEnvironment, identifier: str | None) -> None:
    made = last(numbers(env).print(identifier))

    assert isinstance(made, SinkTransformation)
    assert (made.name, made.sink) == ("Print to Std. Out", PrintSink(identifier))


def test_sinks_can_be_named_and_placed(env: StreamExecutionEnvironment) -> None:
    sink = numbers(env).print()

    returned = sink.name("s").uid("u").set_uid_hash("0" * 32).set_parallelism(2).set_description("d").disable_chaining()

    made = last(returned.slot_sharing_group("g"))
    assert returned is sink
    assert (made.name, made.uid, made.uid_hash, made.parallelism, made.description) == ("s", "u", "0" * 32, 2, "d")
    assert (made.chaining_strategy, made.slot_sharing_group) == (ChainingStrategy.NEVER, "g")


def test_sink_to_lets_the_sink_refuse_the_type(env: StreamExecutionEnvironment) -> None:
    class Strict(CollectSink):
        def validate(self, input_type: Any) -> None:
            raise InvalidProgramError(f"not {input_type!r}")

    with pytest.raises(InvalidProgramError, match="not Integer"):
        env.from_collection([1], Types.INT()).sink_to(Strict())


def test_sink_to_applies_the_transformer_of_the_sink_first(env: StreamExecutionEnvironment) -> None:
    class Text(StreamTransformer):
        def apply(self, ds: Any) -> Any:
            return ds.map(str, Types.STRING())

    class Transforming(CollectSink, SupportsPreprocessing):
        def get_transformer(self) -> Text:
            return Text()

    made = last(numbers(env).sink_to(Transforming()))

    assert made.output_type == Types.STRING()


def test_a_sink_that_cannot_be_pickled_is_refused(env: StreamExecutionEnvironment) -> None:
    class Holding(Sink[Any, None]):
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def create_writer(self, context: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(NotSerializableError, match=r"the sink Holding of sink_to\(\).*`lock`"):
        numbers(env).sink_to(Holding())


def test_add_sink_takes_sink_functions_and_sinks(env: StreamExecutionEnvironment) -> None:
    function = last(numbers(env).add_sink(Writing()))
    sink = last(numbers(env).add_sink(CollectSink()))  # type: ignore[arg-type]

    assert isinstance(function, SinkTransformation)
    assert isinstance(sink, SinkTransformation)
    assert isinstance(function.sink, Sink)
    assert (function.name, sink.sink) == ("Unnamed", CollectSink())


def test_a_java_sink_function_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="there are no Java functions here"):
        type("Java", (Writing,), {})("org.example.Sink")


# Results.


def test_execute_and_collect_iterates_over_the_results(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.client.records = [1, 2, 3]

    results = numbers(env).map(abs).execute_and_collect()
    assert isinstance(results, CloseableIterator)
    with results:
        assert list(results) == [1, 2, 3]

    (program,) = executor.programs
    collecting = list(program.transformations.values())[-1]
    assert isinstance(collecting, SinkTransformation)
    assert (program.job_name, collecting.sink, collecting.parallelism) == ("DataStream Collect", CollectSink(), 1)
    assert executor.client.cancelled == 0


def test_execute_and_collect_with_a_limit_returns_a_list_and_cancels_the_job(
    env: StreamExecutionEnvironment, executor: FakeExecutor
) -> None:
    executor.client.records = [1, 2, 3]

    assert numbers(env).execute_and_collect("job", 2) == [1, 2]
    assert (executor.programs[0].job_name, executor.client.cancelled) == ("job", 1)


def test_execute_and_collect_returns_all_if_there_are_fewer_than_the_limit(
    env: StreamExecutionEnvironment, executor: FakeExecutor
) -> None:
    executor.client.records = [1]

    assert numbers(env).execute_and_collect(limit=5) == [1]
    assert executor.client.cancelled == 0


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_must_be_positive(env: StreamExecutionEnvironment, limit: int) -> None:
    with pytest.raises(InvalidProgramError, match="limit must be an int of at least 1"):
        numbers(env).execute_and_collect(limit=limit)


def test_closing_the_results_early_cancels_the_job_once(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.client.records = [1, 2]
    results = numbers(env).execute_and_collect()
    assert not isinstance(results, list)

    assert results.next() == 1
    results.close()
    results.close()

    assert executor.client.cancelled == 1
    with pytest.raises(StopIteration):
        results.next()


def test_a_failed_job_raises_behind_its_last_result(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.client.records, executor.client.error = [1], ValueError("boom")
    results = numbers(env).execute_and_collect()

    assert next(iter(results)) == 1
    with pytest.raises(ValueError, match="boom"):
        next(iter(results))
    assert not isinstance(results, list)
    results.close()
    assert executor.client.cancelled == 0
