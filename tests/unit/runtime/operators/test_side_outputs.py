"""Pairs of a tag and a record go to a side output, whatever function gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from flinkish.common.errors import TypeMismatchError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream import CoFlatMapFunction, CoMapFunction, DataStream, OutputTag
from flinkish.testing import OneInputHarness, TwoInputHarness

BIG = OutputTag("big", Types.STRING())
UNREAD = OutputTag("unread", Types.LONG())


def size(value: int) -> Any:
    return (BIG, f"big {value}") if value > 5 else value


def sizes(value: int) -> Iterable[Any]:
    yield (UNREAD, value)
    yield size(value)


class Sizes(CoMapFunction):
    def map1(self, value: int) -> Any:
        return size(value)

    def map2(self, value: int) -> Any:
        return None if value == 7 else size(value)


class AllSizes(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterable[Any]:
        return sizes(value)

    def flat_map2(self, value: int) -> Iterable[Any] | None:
        return None if value == 7 else [size(value)]


def by_parity(stream: DataStream) -> DataStream:
    return stream.key_by(lambda value: value % 2)


BUILDS: dict[str, Callable[[DataStream, TypeInformation | None], DataStream]] = {
    "map": lambda stream, declared: stream.map(size, declared),
    "flat_map": lambda stream, declared: stream.flat_map(sizes, declared),
    "map by key": lambda stream, declared: by_parity(stream).map(size, declared),
    "flat_map by key": lambda stream, declared: by_parity(stream).flat_map(sizes, declared),
}


@pytest.mark.parametrize("timestamp", [None, 4])
@pytest.mark.parametrize("declared", [None, Types.LONG()])
@pytest.mark.parametrize("kind", BUILDS)
def test_pairs_of_one_input_go_to_their_side_output(kind: str, declared: Any, timestamp: int | None) -> None:
    with OneInputHarness(lambda stream: BUILDS[kind](stream, declared), Types.LONG(), side_outputs=[BIG]) as harness:
        harness.process_elements([3, 9, 4], timestamp)
        assert harness.take_output() == [(3, timestamp), (4, timestamp)]
        assert harness.take_output(BIG) == [("big 9", timestamp)]


@pytest.mark.parametrize("function", [Sizes(), AllSizes()], ids=["map", "flat_map"])
def test_pairs_of_two_inputs_go_to_their_side_output(function: Any) -> None:
    def build(one: DataStream, other: DataStream) -> DataStream:
        both = one.connect(other)
        return both.map(function) if isinstance(function, CoMapFunction) else both.flat_map(function)

    with TwoInputHarness(build, Types.LONG(), Types.LONG(), side_outputs=[BIG]) as harness:
        for value in (3, 9):
            harness.process_element1(value, value)
        for value in (7, 8, 4):
            harness.process_element2(value, value)
        assert harness.take_output() == [(3, 3), (4, 4)]
        assert harness.take_output(BIG) == [("big 9", 9), ("big 8", 8)]


def test_results_and_records_of_side_outputs_have_their_types_where_both_are_read() -> None:
    def build(stream: DataStream) -> DataStream:
        return stream.map(lambda value: (BIG, 5) if value == 5 else str(value), Types.LONG())

    for value, named in ((5, "String"), (3, "Long")):
        harness = OneInputHarness(build, Types.LONG(), side_outputs=[BIG])
        with harness, pytest.raises(TypeMismatchError, match=f"declared type {named}"):
            harness.process_element(value)
