"""Functions and key selectors of windowed joins are opened and closed."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common.time import Time
from flinkish.datastream.functions import Function, KeySelector
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.datastream.window_join import CoGroupFunction, FlatJoinFunction, JoinFunction
from flinkish.testing import TwoInputHarness

opened: list[str] = []


class _Noted(Function):
    def open(self, runtime_context: Any) -> None:
        opened.append(type(self).__name__)

    def close(self) -> None:
        opened.remove(type(self).__name__)


class Pair(_Noted, JoinFunction):
    @staticmethod
    def join(first: Any, second: Any) -> Any:
        return first, second


class Pairs(_Noted, FlatJoinFunction):
    @staticmethod
    def join(first: Any, second: Any) -> Any:
        return [(first, second)]


class Groups(_Noted, CoGroupFunction):
    @staticmethod
    def co_group(first: Any, second: Any) -> Any:
        return [(*first, *second)]


class Empty(_Noted, KeySelector):
    def __len__(self) -> int:
        return 0

    def get_key(self, value: Any) -> Any:
        return "key"


@pytest.mark.parametrize("function", [Pair(), Pairs(), Groups()])
def test_static_functions_and_empty_objects_are_opened_and_closed(function: Any) -> None:
    def build(first: Any, second: Any) -> Any:
        streams = first.co_group(second) if isinstance(function, CoGroupFunction) else first.join(second)
        keyed = streams.where(Empty()).equal_to(Empty())
        return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(function)

    opened.clear()
    with TwoInputHarness(build) as harness:
        assert type(function).__name__ in opened
        assert "Empty" in opened
        harness.process_element1(1, 10)
        harness.process_element2(2, 20)
        harness.end_inputs()
        assert harness.take_values() == [(1, 2)]
    assert opened == []
