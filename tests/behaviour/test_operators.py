"""What each operator does with records, on both engines."""

from __future__ import annotations

from collections import Counter
from typing import Any

from flinkish.common import Types
from flinkish.datastream import OutputTag, StreamExecutionEnvironment
from flinkish.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    RuntimeContext,
)
from tests.conftest import locally
from tests.kit.results import collect


class PlusOne(MapFunction):
    def map(self, value: int) -> int:
        return value + 1


class Twice(FlatMapFunction):
    def flat_map(self, value: int) -> list[int]:
        return [value, value]


class Even(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 0


@locally
def test_map_flat_map_and_filter_take_functions_and_function_objects(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(list(range(6)), Types.INT()).map(PlusOne(), Types.INT()).flat_map(Twice()).filter(Even())
    stream = stream.map(lambda value: value * 10).filter(lambda value: value > 20).flat_map(lambda value: [value])
    assert sorted(collect(stream)) == [40, 40, 60, 60]


@locally
def test_a_generator_function_can_be_a_flat_map(env: StreamExecutionEnvironment) -> None:
    def words(line: str) -> Any:
        yield from line.split()

    assert sorted(collect(env.from_collection(["a b", "c"]).flat_map(words))) == ["a", "b", "c"]


class Numbered(MapFunction):
    """Counts in an attribute."""

    def __init__(self) -> None:
        self.seen = 0

    def map(self, value: Any) -> Any:
        self.seen += 1
        return value, self.seen


@locally
def test_one_function_object_given_to_two_operators_is_another_one_in_each(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    numbered = Numbered()
    twice = env.from_collection(["a", "b", "c"]).map(numbered).map(numbered)
    numbered.seen = 100  # changed too late
    assert collect(twice) == [(("a", 1), 1), (("b", 2), 2), (("c", 3), 3)]


@locally
def test_union_merges_streams(env: StreamExecutionEnvironment) -> None:
    one, two, three = (env.from_collection([number], Types.INT()) for number in (1, 2, 3))
    assert sorted(collect(one.union(two, three).map(lambda value: value))) == [1, 2, 3]


def test_connected_streams_share_a_function(env: StreamExecutionEnvironment) -> None:
    class Both(CoMapFunction):
        def map1(self, value: int) -> Any:
            return f"number {value}"

        def map2(self, value: str) -> Any:
            return None if value == "skip" else f"text {value}"

    class Flat(CoFlatMapFunction):
        def flat_map1(self, value: int) -> Any:
            yield value
            yield value

        def flat_map2(self, value: str) -> Any:
            return None

    numbers, texts = env.from_collection([1, 2], Types.INT()), env.from_collection(["a", "skip"], Types.STRING())
    assert sorted(collect(numbers.connect(texts).map(Both()))) == ["number 1", "number 2", "text a"]
    assert sorted(collect(numbers.connect(texts).flat_map(Flat()))) == [1, 1, 2, 2]


def test_a_co_process_function_sees_both_inputs(env: StreamExecutionEnvironment) -> None:
    class Tell(CoProcessFunction):
        def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Any:
            yield "one", value

        def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> Any:
            return [("two", value)]

    stream = env.from_collection([1]).connect(env.from_collection(["a"])).process(Tell())
    assert sorted(collect(stream)) == [("one", 1), ("two", "a")]


def test_side_outputs_go_where_the_tag_is_read(env: StreamExecutionEnvironment) -> None:
    odd = OutputTag("odd", Types.INT())
    unread = OutputTag("unread")

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Any:
            yield unread, value
            if value % 2:
                yield odd, value
            else:
                yield value

    main = env.from_collection(list(range(6)), Types.INT()).process(Split(), Types.INT())
    both = main.map(lambda value: ("even", value)).union(main.get_side_output(odd).map(lambda value: ("odd", value)))
    assert sorted(collect(both)) == [("even", 0), ("even", 2), ("even", 4), ("odd", 1), ("odd", 3), ("odd", 5)]


class Subtask(MapFunction):
    """Emits each record with the index of its subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.count = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> Any:
        return value, self.index


def per_subtask(results: list[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for value, index in results:
        found.setdefault(index, []).append(value)
    return found


def test_rebalance_deals_records_in_turn(env: StreamExecutionEnvironment) -> None:
    found = per_subtask(collect(env.from_collection(list(range(10))).rebalance().map(Subtask())))
    assert {len(values) for values in found.values()} == {5}


def test_broadcast_gives_every_subtask_every_record(env: StreamExecutionEnvironment) -> None:
    found = per_subtask(collect(env.from_collection([1, 2, 3]).broadcast().map(Subtask())))
    assert found == {0: [1, 2, 3], 1: [1, 2, 3]}


def test_shuffle_loses_nothing(env: StreamExecutionEnvironment) -> None:
    results = collect(env.from_collection(list(range(200))).shuffle().map(Subtask()))
    assert sorted(value for value, _ in results) == list(range(200))
    assert {index for _, index in results} == {0, 1}


def test_rescale_and_forward_lose_nothing(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(list(range(50))).rescale().map(Subtask()).map(lambda pair: pair[0]).forward().map(Subtask())
    assert sorted(value for value, _ in collect(stream)) == list(range(50))


def test_partition_custom_puts_records_where_it_says(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(list(range(6))).partition_custom(lambda key, count: key % count, lambda value: value)
    found = per_subtask(collect(stream.map(Subtask())))
    assert {index: sorted(values) for index, values in found.items()} == {0: [0, 2, 4], 1: [1, 3, 5]}


def test_a_key_always_comes_to_the_same_subtask(env: StreamExecutionEnvironment) -> None:
    class ByTen(KeySelector):
        def get_key(self, value: int) -> int:
            return value % 10

    results = collect(env.from_collection(list(range(100))).key_by(ByTen(), key_type=Types.INT()).map(Subtask()))
    homes = {(value % 10, index) for value, index in results}
    assert len(homes) == 10
    assert Counter(index for _, index in homes).keys() == {0, 1}


@locally
def test_key_selectors_and_partitioners_are_opened(env: StreamExecutionEnvironment) -> None:
    class Modulo(KeySelector):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.divisor = 3

        def get_key(self, value: int) -> int:
            return value % self.divisor

    class Direct(Partitioner):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.offset = runtime_context.get_index_of_this_subtask()

        def partition(self, key: int, num_partitions: int) -> int:
            return (key + self.offset) % num_partitions

    stream = env.from_collection(list(range(6)), Types.INT())
    counted = stream.key_by(Modulo(), key_type=Types.INT()).map(lambda value: value % 3)
    found = per_subtask(
        collect(counted.map(lambda value: value).set_parallelism(1).partition_custom(Direct(), Modulo()).map(Subtask()))
    )
    assert {index: sorted(values) for index, values in found.items()} == {0: [0, 0, 2, 2], 1: [1, 1]}


def test_records_do_not_change_when_their_maker_goes_on_changing_the_object(env: StreamExecutionEnvironment) -> None:
    class Grow(FlatMapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.seen: list[int] = []

        def flat_map(self, value: int) -> Any:
            self.seen.append(value)
            yield self.seen

    env.set_parallelism(1)
    grown = env.from_collection([1, 2, 3]).flat_map(Grow()).rebalance().map(lambda value: value)
    assert collect(grown) == [[1], [1, 2], [1, 2, 3]]


def test_functions_are_opened_before_and_closed_after_the_records(env: StreamExecutionEnvironment, tmp_path: Any) -> None:
    log = tmp_path / "log"

    class Life(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.name = runtime_context.get_task_name_with_subtasks()
            self._say("open")

        def _say(self, what: str) -> None:
            with log.open("a", encoding="utf-8") as file:
                file.write(what + "\n")

        def map(self, value: int) -> Any:
            self._say("map")
            return self.name

        def close(self) -> None:
            self._say("close")

    env.set_parallelism(1)
    (name,) = collect(env.from_collection([1]).map(Life()).name("Life"))
    assert name.endswith(" (1/1)#0")
    assert log.read_text(encoding="utf-8").split() == ["open", "map", "close"]


def test_records_of_many_megabytes_go_through_shuffles_and_to_the_driver(env: StreamExecutionEnvironment) -> None:
    def grow(value: int) -> tuple[int, bytes]:
        return value, bytes([value]) * (10 << 20)

    grown = env.from_collection([1, 2, 3], Types.INT()).map(grow).key_by(lambda record: record[0]).map(lambda record: record)
    assert [(key, len(value), set(value)) for key, value in sorted(collect(grown))] == [(n, 10 << 20, {n}) for n in (1, 2, 3)]
