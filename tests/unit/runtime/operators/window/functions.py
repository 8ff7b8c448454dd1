"""Functions that the tests of windows share. Records are (key, number)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flinkish.common.typeinfo import Types
from flinkish.datastream import AggregateFunction, DataStream, OutputTag, ProcessWindowFunction, WindowFunction
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.window import EventTimeTrigger

PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = OutputTag("late", PAIRS)


def by_key(stream: DataStream) -> KeyedStream:
    return stream.key_by(lambda record: record[0], Types.STRING())


class Sum(AggregateFunction):
    """Sum and number of the records; the accumulator is changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += value[1]
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, int]:
        return accumulator[0], accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        acc_a[0] += acc_b[0]
        acc_a[1] += acc_b[1]
        return acc_a


class SumWithoutMerge(Sum):
    """As many are written for Flink, where only sessions need merge."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        pass


class WithWindow(ProcessWindowFunction[Any, Any, str, Any]):
    """(key, start, end, what the window holds)."""

    def process(self, key: str, context: ProcessWindowFunction.Context[Any], elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        for element in elements:
            yield key, window.start, window.end, *element


class Folded(ProcessWindowFunction[Any, Any, str, Any]):
    """The same as Sum and WithWindow, of all records."""

    def process(self, key: str, context: ProcessWindowFunction.Context[Any], elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        numbers = [number for _, number in elements]
        return [(key, window.start, window.end, sum(numbers), len(numbers))]


class Numbers(WindowFunction[Any, Any, str, Any]):
    """(key, all numbers in the order in which they came)."""

    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, [number for _, number in inputs])]


class AnotherEventTimeTrigger(EventTimeTrigger):
    """The same, but the operator does not know that: windows go the general way."""
