"""Programs that mypy must refuse: the lines that end in E and a code, and no others; checked by test_types.py."""

from __future__ import annotations

from collections.abc import Iterator

import flinkish.datastream.functions
import flinkish.datastream.window
from flinkish.common import Row, Types
from flinkish.datastream import DataStream, KeyedProcessFunction, MapFunction, StreamExecutionEnvironment


class Show(MapFunction):
    def map(self, value: int) -> str:
        return str(value)


class Count(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        yield 1


def program(env: StreamExecutionEnvironment, numbers: DataStream[int], words: DataStream[str]) -> None:
    numbers.map(lambda number: number.upper())  # E: attr-defined
    words.map(Show())  # E: arg-type
    numbers.flat_map(lambda number: number)  # E: arg-type, return-value
    words.key_by(0.5)  # E: arg-type
    numbers.process(Count())  # E: arg-type
    numbers.key_by(lambda number: number).reduce(lambda one, other: str(one))  # E: arg-type, return-value
    numbers.execute_and_collect(limit=3).close()  # E: attr-defined
    env.set_stream_time_characteristic()  # E: operator
    print(flinkish.datastream.Keyed)  # E: attr-defined
    print(flinkish.datastream.functions.Map)  # E: attr-defined
    print(flinkish.datastream.window.Tumbling)  # E: attr-defined
    number: str = numbers.execute_and_collect("job", 1)[0]  # E: assignment
    assert number


def half(number: int) -> float:
    return number / 2


def as_row(number: int) -> Row | None:
    return Row(number)


def declared(numbers: DataStream[int], words: DataStream[str]) -> None:
    numbers.map(str, Types.INT())  # E: arg-type
    numbers.map(half, Types.LONG())  # E: arg-type
    numbers.map(half, output_type=Types.STRING())  # E: arg-type
    numbers.map(Show(), Types.INT())  # E: arg-type
    numbers.map(lambda number: (number, 1), Types.ROW([Types.INT(), Types.INT()]))  # E: arg-type, return-value
    numbers.map(as_row, Types.TUPLE([Types.INT()]))  # E: arg-type
    numbers.map(lambda number: [number], Types.MAP(Types.INT(), Types.INT()))  # E: arg-type, return-value
    words.flat_map(str.split, Types.BIG_INT())  # E: arg-type
    numbers.key_by(lambda number: number).map(half, Types.INT())  # E: arg-type
    numbers.key_by(str, Types.INT())  # E: arg-type
    numbers.map(str, Types.STRING()).map(abs)  # E: arg-type
