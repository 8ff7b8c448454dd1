"""What user functions return must be records: parts of one record, and generators in the place of one, are refused by name.

None of it depends on the engine.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pandas as pd
import pytest

from flinkish.common import Row, Time, Types, WatermarkStrategy
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from flinkish.datastream.state import MapStateDescriptor
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.datastream.window_join import CoGroupFunction, FlatJoinFunction
from tests.behaviour.test_bad_input import failure_of
from tests.kit.environments import env_of
from tests.kit.results import collect


class Point(NamedTuple):
    x: int
    y: int


ONE_RECORD = ["ab", b"ab", {"k": 1}, Row(1, 2), Point(1, 2), pd.DataFrame({"a": [1]})]
RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
SECOND = TumblingEventTimeWindows.of(Time.seconds(1))


def numbers() -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda *_: 1000)
    return env_of().from_collection([1]).assign_timestamps_and_watermarks(strategy)


def same(value: Any) -> Any:
    return value


class _Given:
    def __init__(self, results: Any) -> None:
        self.results = results


class _Process(_Given, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.results


class _KeyedProcess(_Given, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.results


class _OnTimer(_Given, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(2000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.results


class _CoProcess(_Given, CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.results

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return None


class _KeyedCoProcess(_Given, KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return None

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.results


class _CoFlatMap(_Given, CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return self.results

    def flat_map2(self, value: Any) -> Any:
        return None


class _Broadcast(_Given, BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return None

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return self.results


class _KeyedBroadcast(_Given, KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.results

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None


class _Apply(_Given, WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return self.results


class _ProcessWindow(_Given, ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        return self.results


class _ProcessAll(_Given, ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Iterable[Any]) -> Any:
        return self.results


class _Pair(_Given, ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        return self.results


class _FlatJoin(_Given, FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return self.results


class _CoGroup(_Given, CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        return self.results


class _Async(_Given, AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        return self.results


class _Timeout(_Given, AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        await asyncio.sleep(600)

    def timeout(self, value: Any) -> Any:
        return self.results


def _interval_join(results: Any) -> DataStream:
    one = numbers()
    keyed = one.key_by(same)
    return keyed.interval_join(one.key_by(same)).between(Time.seconds(-1), Time.seconds(1)).process(_Pair(results))


def _windows(join: Any) -> Any:
    return join.where(same).equal_to(same).window(SECOND)


def _asynchronous(function: AsyncFunction) -> DataStream:
    return AsyncDataStream.ordered_wait(numbers(), function, Time.seconds(10))


MANY: dict[str, Callable[[Any], DataStream]] = {
    "flat_map": lambda results: numbers().flat_map(lambda _: results),
    "process": lambda results: numbers().process(_Process(results)),
    "keyed process": lambda results: numbers().key_by(same).process(_KeyedProcess(results)),
    "on_timer": lambda results: numbers().key_by(same).process(_OnTimer(results)),
    "co process": lambda results: (one := numbers()).connect(one).process(_CoProcess(results)),
    "keyed co process": lambda results: (one := numbers()).connect(one).key_by(same, same).process(_KeyedCoProcess(results)),
    "co flat_map": lambda results: (one := numbers()).connect(one).flat_map(_CoFlatMap(results)),
    "broadcast": lambda results: (one := numbers()).connect(one.broadcast(RULES)).process(_Broadcast(results)),
    "keyed broadcast": lambda results: (
        (one := numbers()).key_by(same).connect(one.broadcast(RULES)).process(_KeyedBroadcast(results))
    ),
    "window apply": lambda results: numbers().key_by(same).window(SECOND).apply(_Apply(results)),
    "window process": lambda results: numbers().key_by(same).window(SECOND).process(_ProcessWindow(results)),
    "window after reduce": lambda results: numbers().key_by(same).window(SECOND).reduce(max, _ProcessWindow(results)),
    "window_all": lambda results: numbers().window_all(SECOND).process(_ProcessAll(results)),
    "interval join": _interval_join,
    "flat join": lambda results: _windows((one := numbers()).join(one)).apply(_FlatJoin(results)),
    "co_group": lambda results: _windows((one := numbers()).co_group(one)).apply(_CoGroup(results)),
}


@pytest.mark.parametrize("results", ONE_RECORD, ids=lambda results: type(results).__name__)
@pytest.mark.parametrize("build", MANY.values(), ids=MANY)
def test_one_record_in_the_place_of_many_is_refused_at_its_operator(build: Callable[[Any], DataStream], results: Any) -> None:
    text = failure_of(build(results).name("Mine"))
    assert "iterable of results" in text
    assert f"of type {type(results).__name__}" in text
    assert "[value]" in text
    assert "Mine" in text


@pytest.mark.parametrize("results", ONE_RECORD, ids=lambda results: type(results).__name__)
def test_an_async_function_must_return_a_list(results: Any) -> None:
    assert "should be of list type" in failure_of(_asynchronous(_Async(results)))


def test_the_timeout_of_an_async_function_must_return_a_list() -> None:
    stream = AsyncDataStream.ordered_wait(numbers(), _Timeout("ab"), Time.milliseconds(1))
    assert "should be of list type" in failure_of(stream)


@pytest.mark.parametrize("build", MANY.values(), ids=MANY)
def test_a_list_has_the_results(build: Callable[[Any], DataStream]) -> None:
    assert set(collect(build(["ab", "cd"]))) == {"ab", "cd"}


#: These are not in PyFlink, so no program relies on the elements of a tuple as results.
ONLY_HERE = {"flat join", "co_group"}
TUPLES = {name: build for name, build in MANY.items() if name not in ONLY_HERE}


@pytest.mark.parametrize("build", TUPLES.values(), ids=TUPLES)
def test_the_elements_of_a_tuple_are_results_without_a_type_and_one_warning_names_the_function(
    build: Callable[[Any], DataStream], caplog: pytest.LogCaptureFixture
) -> None:
    assert set(collect(build(("ab", "cd")).name("Mine"))) == {"ab", "cd"}
    (warning,) = [record.getMessage() for record in caplog.records if "returned a tuple" in record.getMessage()]
    assert "'Mine'" in warning
    assert re.search(r"tests.behaviour.test_results\.\S+ line \d+", warning)
    assert "return a list" in warning


@pytest.mark.parametrize(
    "type_info", [Types.TUPLE([Types.STRING(), Types.STRING()]), Types.ROW([Types.STRING(), Types.STRING()])]
)
@pytest.mark.parametrize("build", TUPLES.values(), ids=TUPLES)
def test_a_returned_tuple_is_refused_where_records_are_tuples_or_rows(
    build: Callable[[Any], DataStream], type_info: TypeInformation
) -> None:
    text = failure_of(build(("ab", "cd")).name("Mine")._set("get_type", output_type=type_info))
    assert "Mine" in text
    assert "use `yield a, b`, or return records in a list" in text


@pytest.mark.parametrize("build", [MANY[name] for name in sorted(ONLY_HERE)], ids=sorted(ONLY_HERE))
def test_a_returned_tuple_is_refused_by_joins(build: Callable[[Any], DataStream]) -> None:
    assert "use `yield a, b`, or return records in a list" in failure_of(build(("ab", "cd")))


def test_an_empty_tuple_is_no_results() -> None:
    stream = numbers().flat_map(lambda _: (), Types.TUPLE([Types.STRING()]))
    assert collect(stream) == []


def test_a_tuple_is_several_results_where_its_elements_can_only_be_records(caplog: pytest.LogCaptureFixture) -> None:
    assert collect(numbers().flat_map(lambda _: ("ab", "cd"), Types.STRING())) == ["ab", "cd"]
    assert not [record for record in caplog.records if "returned a tuple" in record.getMessage()]


def test_a_returned_pair_of_a_tag_and_a_value_is_refused() -> None:
    text = failure_of(numbers().process(_Process((OutputTag("late", Types.STRING()), "ab")), Types.STRING()))
    assert "return records in a list" in text


def test_a_list_that_is_one_record_is_named_as_such() -> None:
    text = failure_of(numbers().process(_Process([1, 2]), Types.LIST(Types.INT())))
    assert "`yield` it, or return it in a list" in text


class _CoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return (part for part in [value])

    def map2(self, value: Any) -> Any:
        return None


@pytest.mark.parametrize(
    "build",
    [
        lambda: numbers().map(lambda value: (part for part in [value])),
        lambda: env_of().from_collection([1]).map(lambda value: (part for part in [value])),
        lambda: env_of().from_collection([1]).map(lambda value: (part for part in [value]), Types.INT()),
        lambda: (one := numbers()).connect(one).map(_CoMap()),
    ],
    ids=["with times", "without", "typed", "co map"],
)
def test_a_generator_from_map_is_refused_at_the_map(build: Callable[[], DataStream]) -> None:
    stream = build().name("Mine")
    text = failure_of(stream.map(lambda value: value).name("Behind"))
    assert "Mine" in text
    assert "of type generator" in text
    assert "'Behind'" not in text


# Functions that can never return a valid result, which is detected when the job is built.


def _yielding(*_: Any) -> Any:
    yield 1


async def _awaiting(*_: Any) -> Any:
    return 1


class _YieldingMap(MapFunction):
    def map(self, value: Any) -> Any:
        yield value


class _YieldingCoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        yield value


class _YieldingFilter(FilterFunction):
    def filter(self, value: Any) -> Any:
        yield True


class _YieldingReduce(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        yield value1


class _YieldingKey(KeySelector):
    def get_key(self, value: Any) -> Any:
        yield value


class _YieldingPartitioner(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> Any:
        yield 0


class _YieldingAggregate(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        yield accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a


class _CallableObject:
    def __call__(self, value: Any) -> Any:
        yield value


class _AwaitingProcess(ProcessFunction):
    async def process_element(self, value: Any, ctx: Any) -> Any:  # type: ignore[override]
        return [value]


class _AwaitingOpen(MapFunction):
    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        pass

    def map(self, value: Any) -> Any:
        return value


NEVER: dict[str, Callable[[], Any]] = {
    "map": lambda: numbers().map(_yielding),
    "map of a class": lambda: numbers().map(_YieldingMap()),
    "map of a partial": lambda: numbers().map(functools.partial(_yielding, 1)),
    "map of an object": lambda: numbers().map(_CallableObject()),
    "co map": lambda: (one := numbers()).connect(one).map(_YieldingCoMap()),
    "filter": lambda: numbers().filter(_yielding),
    "filter of a class": lambda: numbers().filter(_YieldingFilter()),
    "reduce": lambda: numbers().key_by(same).reduce(_yielding),
    "reduce of a class": lambda: numbers().key_by(same).reduce(_YieldingReduce()),
    "reduce of windows": lambda: numbers().key_by(same).window(SECOND).reduce(_yielding),
    "aggregate": lambda: numbers().key_by(same).window(SECOND).aggregate(_YieldingAggregate()),
    "key_by": lambda: numbers().key_by(_yielding),
    "key_by of a class": lambda: numbers().key_by(_YieldingKey()),
    "partition_custom": lambda: numbers().partition_custom(_YieldingPartitioner(), same),
    "async map": lambda: numbers().map(_awaiting),
    "async flat_map": lambda: numbers().flat_map(_awaiting),
    "async filter": lambda: numbers().filter(_awaiting),
    "async key_by": lambda: numbers().key_by(_awaiting),
    "async process": lambda: numbers().process(_AwaitingProcess()),
    "async open": lambda: numbers().map(_AwaitingOpen()),
}


@pytest.mark.parametrize("build", NEVER.values(), ids=NEVER)
def test_a_function_that_can_never_return_what_it_must_is_refused_when_the_job_is_built(build: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"`yield`|`async def`"):
        build()


class _WithHelpers(MapFunction):
    def map(self, value: Any) -> Any:
        return next(self.numbers()), asyncio.run(self.fetch(value))

    def numbers(self) -> Any:
        yield 7

    async def fetch(self, value: Any) -> Any:
        return value


def test_other_methods_of_a_function_are_not_checked() -> None:
    assert collect(numbers().map(_WithHelpers())) == [(7, 1)]


def test_a_generator_function_is_right_for_flat_map_and_process() -> None:
    assert collect(numbers().flat_map(_yielding)) == [1]


def test_a_coroutine_that_a_lambda_returns_is_refused() -> None:
    assert "AsyncDataStream" in failure_of(numbers().flat_map(lambda value: _awaiting(value)))
