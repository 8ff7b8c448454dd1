"""Processing time goes on until all inputs have ended, whatever the watermark is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from flinkish.common import Time, Types
from flinkish.datastream import DataStream, KeyedProcessFunction, WindowFunction
from flinkish.datastream.window import ProcessingTimeSessionWindows, TumblingProcessingTimeWindows
from flinkish.testing import TwoInputHarness

TEN = Time.milliseconds(10)


class InTen(KeyedProcessFunction):
    """Emits each record ten milliseconds later."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 10)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key()


class Contents(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


BUILDS: dict[str, Callable[[Any], DataStream]] = {
    "timers": lambda keyed: keyed.process(InTen()),
    "tumbling windows": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(TEN)).reduce(max),
    "lists of records": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(TEN)).apply(Contents()),
    "sessions": lambda keyed: keyed.window(ProcessingTimeSessionWindows.with_gap(TEN)).reduce(max),
}


def harness(build: Callable[[Any], DataStream]) -> TwoInputHarness:
    return TwoInputHarness(lambda one, other: build(one.union(other).key_by(lambda value: value)), Types.LONG(), Types.LONG())


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("build", BUILDS.values(), ids=list(BUILDS))
def test_it_goes_on_when_one_input_has_ended_and_the_other_is_idle(build: Callable[[Any], DataStream], lost: bool) -> None:
    with harness(build) as operator:
        operator.process_status1(idle=True)
        operator.end_input2()
        operator.process_element1(1)
        if lost:
            operator.lose_heap()
        operator.set_processing_time(operator.processing_time + 20)
        assert operator.take_values() == [1]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("build", BUILDS.values(), ids=list(BUILDS))
def test_what_is_pending_when_all_inputs_have_ended_is_dropped(build: Callable[[Any], DataStream], lost: bool) -> None:
    with harness(build) as operator:
        operator.process_element1(1)
        operator.end_inputs()
        if lost:
            operator.lose_heap()
        operator.set_processing_time(operator.processing_time + 20)
        assert operator.take_values() == []
