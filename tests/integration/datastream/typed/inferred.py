"""What mypy infers of programs; checked by test_types.py, and run by it, too. Wrong programs are in wrong.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, assert_type

from flinkish.common import Row, Time, TypeInformation, Types, WatermarkStrategy
from flinkish.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CachedDataStream,
    CloseableIterator,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowFunction,
)
from flinkish.datastream.connected_streams import ConnectedStreams
from flinkish.datastream.connectors import NumberSequenceSource
from flinkish.datastream.state import MapStateDescriptor
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.datastream.windowed_stream import WindowedStream

LATE = OutputTag("late", Types.INT())
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
OF_ANY: TypeInformation = Types.INT()
NAMES = MapStateDescriptor("names", Types.STRING(), Types.STRING())


class Show(MapFunction):
    def map(self, value: int) -> str:
        return str(value)


class Untyped(MapFunction):
    def map(self, value):  # type: ignore[no-untyped-def]
        return value


class Split(FlatMapFunction):
    def flat_map(self, value: str) -> Iterator[str]:
        yield from value.split()


class Length(KeySelector):
    def get_key(self, value: str) -> int:
        return len(value)


class Add(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Half(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[float | tuple[OutputTag, int]]:
        yield value / 2
        yield LATE, value


class Count(KeyedProcessFunction):
    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> list[tuple[str, int]] | None:
        return [(value, 1)]


class Both(CoMapFunction):
    def map1(self, value: int) -> str:
        return str(value)

    def map2(self, value: str) -> str | None:
        return value


class Either(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[bool]:
        yield True

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> None:
        return None


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Largest(WindowFunction[int, str, int, TimeWindow]):
    def apply(self, key: int, window: TimeWindow, inputs: Iterable[int]) -> Iterable[str]:
        return [str(max(inputs))]


class Report(ProcessWindowFunction[Any, bytes, int, TimeWindow]):
    def process(self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]) -> Iterable[bytes]:
        return [b""]


class Named(BroadcastProcessFunction):
    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        yield str(value)

    def process_broadcast_element(self, value: tuple[str, str], ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(NAMES).put(*value)


class Pair(ProcessJoinFunction):
    def process_element(self, left: int, right: str, ctx: ProcessJoinFunction.Context) -> Iterator[tuple[int, str]]:
        yield left, right


class Ask(AsyncFunction):
    async def async_invoke(self, value: int) -> list[str]:
        return [str(value)]


def sources(env: StreamExecutionEnvironment) -> None:
    assert_type(env.from_collection([1, 2]), DataStream[int])
    assert_type(env.from_collection(["a"], Types.STRING()), DataStream[str])
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    assert_type(env.from_collection([("a", 1)], pair), DataStream[tuple[str, int]])
    # Records become Rows, whatever they were.
    assert_type(env.from_collection([("a", 1)], Types.ROW([Types.STRING(), Types.INT()])), DataStream[Any])
    numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
    assert_type(numbers, DataStream[int])


def operators(numbers: DataStream[int], words: DataStream[str]) -> None:
    assert_type(numbers.map(lambda number: number / 2), DataStream[float])
    assert_type(numbers.map(str, Types.STRING()), DataStream[str])
    assert_type(numbers.map(Show()), DataStream[str])
    assert_type(numbers.map(Untyped()), DataStream[Any])
    assert_type(words.flat_map(str.split), DataStream[str])
    assert_type(words.flat_map(Split()), DataStream[str])
    assert_type(words.filter(lambda word: word.isupper()), DataStream[str])
    assert_type(numbers.process(Half()), DataStream[float])
    assert_type(numbers.process(Half()).get_side_output(LATE), DataStream[Any])
    assert_type(numbers.union(words), DataStream[int | str])
    assert_type(words.rebalance().broadcast(), DataStream[str])
    assert_type(words.cache(), CachedDataStream[str])
    assert_type(AsyncDataStream.unordered_wait(numbers, Ask(), Time.seconds(1)), DataStream[str])


def declared(numbers: DataStream[int], words: DataStream[str]) -> None:
    """The declared type is that of the records; Python's types that it accepts are not flagged."""

    def parsed(word: str) -> int | None:
        return int(word) if word.isdigit() else None

    def price(number: int) -> Decimal:
        return Decimal(number)

    assert_type(numbers.map(lambda number: number * 2, Types.LONG()), DataStream[int])
    assert_type(numbers.map(lambda number: number, Types.DOUBLE()), DataStream[float])
    assert_type(numbers.map(lambda number: number > 1, Types.INT()), DataStream[int])
    assert_type(words.map(parsed, Types.INT()), DataStream[int])
    assert_type(words.map(parsed, None), DataStream[int])
    assert_type(numbers.map(Untyped(), Types.STRING()), DataStream[str])
    assert_type(numbers.map(price, Types.BIG_DEC()), DataStream[Any])
    assert_type(numbers.map(lambda number: Row(number), Types.ROW([Types.INT()])), DataStream[Row])
    assert_type(words.map(lambda word: (word, 1), PAIR), DataStream[tuple[Any, ...]])
    assert_type(words.map(lambda word: [word], Types.LIST(Types.STRING())), DataStream[list[Any]])
    assert_type(words.map(lambda word: {word: 1}, Types.MAP(Types.STRING(), Types.INT())), DataStream[dict[Any, Any]])
    assert_type(words.map(lambda word: word.encode(), Types.PRIMITIVE_ARRAY(Types.BYTE())), DataStream[Any])
    assert_type(words.map(len, Types.PICKLED_BYTE_ARRAY()), DataStream[Any])
    assert_type(words.map(len, OF_ANY), DataStream[Any])
    assert_type(words.flat_map(str.split, Types.STRING()), DataStream[str])
    assert_type(words.flat_map(lambda word: [(word, 1)], PAIR), DataStream[tuple[Any, ...]])
    assert_type(numbers.process(Half(), Types.DOUBLE()), DataStream[float])
    assert_type(words.key_by(len).process(Count(), PAIR), DataStream[tuple[str, int]])
    assert_type(words.key_by(len, Types.INT()), KeyedStream[str, int])
    field_types = [Types.INT(), Types.STRING(), PAIR]
    assert_type(words.map(lambda word: Row(1, word, (word, 1)), Types.ROW(field_types)), DataStream[Row])
    assert_type(numbers.connect(words).map(Both(), Types.STRING()), DataStream[str])
    words.map(lambda word: (word, 1), PAIR).key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))


def keyed(numbers: DataStream[int], words: DataStream[str]) -> None:
    by_length = words.key_by(len)
    assert_type(by_length, KeyedStream[str, int])
    assert_type(words.key_by(Length()), KeyedStream[str, int])
    assert_type(by_length.map(lambda word: word.encode()), DataStream[bytes])
    assert_type(by_length.process(Count()), DataStream[tuple[str, int]])
    assert_type(by_length.reduce(lambda one, other: one + other), DataStream[str])
    assert_type(numbers.key_by(lambda number: number % 2).reduce(Add()), DataStream[int])
    assert_type(numbers.key_by(lambda number: number % 2).sum(), DataStream[int])
    joined = numbers.key_by(lambda number: number).interval_join(by_length).between(Time.seconds(0), Time.seconds(1))
    assert_type(joined.process(Pair()), DataStream[tuple[int, str]])


def windows(numbers: DataStream[int]) -> None:
    assigner = TumblingEventTimeWindows.of(Time.seconds(5))
    windowed = numbers.key_by(lambda number: number % 2).window(assigner)
    assert_type(windowed, WindowedStream[int, int])
    assert_type(windowed.reduce(Add()), DataStream[int])
    assert_type(windowed.allowed_lateness(5).aggregate(Mean()), DataStream[float])
    assert_type(windowed.aggregate(Mean(), Report()), DataStream[bytes])
    assert_type(windowed.apply(Largest()), DataStream[str])
    assert_type(windowed.process(Report()), DataStream[bytes])
    assert_type(numbers.window_all(assigner).reduce(lambda one, other: one + other), DataStream[int])


def two_streams(numbers: DataStream[int], words: DataStream[str], names: DataStream[tuple[str, str]]) -> None:
    connected = numbers.connect(words)
    assert_type(connected, ConnectedStreams[int, str])
    assert_type(connected.map(Both()), DataStream[str])
    assert_type(connected.key_by(lambda number: number, len).process(Either()), DataStream[bool])
    assert_type(numbers.connect(names.broadcast(NAMES)).process(Named()), DataStream[str])


def results(numbers: DataStream[int]) -> None:
    def collect() -> None:
        assert_type(numbers.execute_and_collect(), CloseableIterator[int])
        assert_type(numbers.execute_and_collect("job", 3), list[int])
        assert_type(numbers.execute_and_collect(limit=3), list[int])
        with numbers.execute_and_collect() as records:
            assert_type(next(records), int)
        assert_type(numbers.key_by(lambda number: number).execute_and_collect(limit=1), list[Row])

    assert callable(collect)


def untyped(stream: DataStream) -> DataStream:
    """A stream of any records needs no parameter, under --strict either."""
    assert_type(stream.map(lambda record: record.anything), DataStream[Any])
    return stream.key_by(lambda record: record[0]).reduce(lambda one, other: one)
