"""Sliding windows fold their records in the order in which these came, unless the user has declared that it does not matter."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.time import Time
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.datastream import AggregateFunction, ReduceFunction, StreamExecutionEnvironment
from flinkish.datastream.window import SlidingEventTimeWindows
from flinkish.testing import OneInputHarness
from tests.unit.runtime.operators.window.functions import PAIRS, AnotherEventTimeTrigger, Numbers, SumWithoutMerge, by_key

SHARED = {"execution.windows.share-panes": "true"}


#: By which operator windows run.
WAYS: dict[str, Callable[[Any], Any]] = {
    "fast": lambda windows: windows,
    "general": lambda windows: windows.trigger(AnotherEventTimeTrigger()),
}
each_way = pytest.mark.parametrize("way", WAYS)


def sliding(keyed: Any) -> Any:
    return keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(6), Time.milliseconds(3)))


class Doubling(ReduceFunction):
    """Is not associative: what came before counts twice."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2[0], value1[1] * 2 + value2[1]


class Collect(AggregateFunction):
    """All numbers, in the order in which they came: associative, but not commutative."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        return [*accumulator, value[1]]

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


def results(build: Callable[[Any], Any], *steps: int | str, settings: dict[str, str] | None = None) -> list[Any]:
    """Return what windows make of records, whose times are their numbers, and of watermarks, which are text."""
    with OneInputHarness(lambda stream: build(sliding(by_key(stream))), PAIRS, settings=settings) as window:
        for step in steps:
            if isinstance(step, str):
                window.process_watermark(int(step))
            else:
                window.process_element(("a", step), step)
        window.end_input()
        return [value[1] if isinstance(value, tuple) else value for value in window.take_values()]


@each_way
def test_records_in_disorder_are_folded_as_they_came(way: str) -> None:
    assert results(lambda windows: WAYS[way](windows).reduce(lambda a, b: b), 1, 4, 2) == [2, 2, 4]
    assert results(lambda windows: WAYS[way](windows).reduce(Doubling()), 1, 4, 2) == [4, 14, 4]
    assert results(lambda windows: WAYS[way](windows).aggregate(Collect()), 1, 4, 2) == [[1, 2], [1, 4, 2], [4]]


@each_way
def test_records_of_one_run_are_folded_as_they_came(way: str) -> None:
    def of_one_run(build: Callable[[Any], Any]) -> list[Any]:
        env = StreamExecutionEnvironment(Configuration.from_dict({"execution.engine": "local", "parallelism.default": "1"}))
        by_number = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
        records = env.from_collection([("a", 1), ("a", 4), ("a", 2)], PAIRS).assign_timestamps_and_watermarks(by_number)
        with build(WAYS[way](sliding(by_key(records)))).execute_and_collect() as found:
            return list(found)

    assert of_one_run(lambda windows: windows.aggregate(Collect())) == [[1, 2], [1, 4, 2], [4]]
    assert of_one_run(lambda windows: windows.reduce(Doubling())) == [("a", 4), ("a", 14), ("a", 4)]


@each_way
def test_late_records_are_folded_as_they_came(way: str) -> None:
    # As PyFlink 2.3 gives it.
    found = results(lambda windows: WAYS[way](windows.allowed_lateness(4)).aggregate(Collect()), 1, 4, 2, "5", 8, 3, 7, "9", 6, 5)
    assert found == [[1, 2], [1, 4, 2], [1, 4, 2, 3], [4, 8, 3, 7], [4, 8, 3, 7, 6], [4, 8, 3, 7, 6, 5], [8, 7, 6]]


@each_way
def test_floats_are_added_up_as_they_came(way: str) -> None:
    numbers = {1: 0.1, 4: 1e16, 2: -1e16, 5: 0.2, 3: 0.3}
    with OneInputHarness(
        lambda stream: WAYS[way](sliding(stream.key_by(lambda _: 0))).reduce(operator.add), Types.DOUBLE()
    ) as window:
        for time, number in numbers.items():
            window.process_element(number, time)
        window.end_input()
        assert window.take_values() == [
            functools.reduce(operator.add, [number for time, number in numbers.items() if start <= time < start + 6])
            for start in (-3, 0, 3)
        ]


@each_way
def test_a_function_that_changes_the_first_record_in_place_changes_it_in_one_window(way: str) -> None:
    def extend(first: Any, second: Any) -> Any:
        first[1].extend(second[1])
        return first

    rows = Types.ROW([Types.STRING(), Types.LIST(Types.LONG())])
    with OneInputHarness(lambda stream: WAYS[way](sliding(stream.key_by(lambda row: row[0]))).reduce(extend), rows) as window:
        for time in (1, 4, 2):
            window.process_element(Row("a", [time]), time)
        window.end_input()
        assert [row[1] for row in window.take_values()] == [[1, 2], [1, 4, 2], [4]]


@each_way
def test_windows_with_all_records_get_them_as_they_came(way: str) -> None:
    assert results(lambda windows: WAYS[way](windows).apply(Numbers()), 1, 4, 2) == [[1, 2], [1, 4, 2], [4]]


@each_way
def test_the_order_survives_a_checkpoint_and_another_parallelism(way: str) -> None:
    window = OneInputHarness(lambda stream: WAYS[way](sliding(by_key(stream))).aggregate(Collect()), PAIRS)
    for step, time in enumerate((1, 4, 2, 5)):
        window.process_element(("a", time), time)
        if step == 1:
            window.lose_heap()
        elif step == 2:
            window.restart(parallelism=3)
    window.end_input()
    assert window.take_values() == [[1, 2], [1, 4, 2, 5], [4, 5]]
    window.close()


@pytest.mark.parametrize(("settings", "middle"), [(None, [1, 4, 2, 5]), (SHARED, [1, 2, 4, 5])])
def test_panes_are_shared_only_where_functions_are_declared_to_allow_it(settings: Any, middle: list[int]) -> None:
    assert results(lambda windows: windows.aggregate(Collect()), 1, 4, 2, 5, settings=settings) == [[1, 2], middle, [4, 5]]


def test_a_function_without_merge_is_named_where_panes_are_declared_to_be_mergeable() -> None:
    with pytest.raises(InvalidArgumentError, match=r"SumWithoutMerge\.merge\(\) of .* must return .*windows\.share-panes"):
        results(lambda windows: windows.aggregate(SumWithoutMerge()), 1, 4, settings=SHARED)
