"""Windows against a plain model, with disorder, lateness, lost heaps, checkpoints and other parallelisms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.common.time import Time
from flinkish.datastream import DataStream
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkish.datastream.windowed_stream import WindowedStream
from flinkish.testing import OneInputHarness
from flinkish.testing.steps import Emit, EmitWatermark, End, Step
from flinkish.testing.strategies import operator_faults, streams, with_faults
from tests.models.testing.examples import examples
from tests.unit.runtime.operators.window.functions import (
    LATE,
    PAIRS,
    AnotherEventTimeTrigger,
    Folded,
    Sum,
    SumWithoutMerge,
    WithWindow,
    by_key,
)

LONG_MIN = -(2**63)

Finish = Callable[[WindowedStream], DataStream]


class Model:
    """What windows hold, in a dict; `windows_of` gives those of a timestamp."""

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.watermark = LONG_MIN
        #: (key, start, end) -> numbers
        self.windows: dict[tuple[str, int, int], list[int]] = {}
        self.output: Counter[Any] = Counter()
        self.late: Counter[Any] = Counter()

    def emit(self, window: tuple[str, int, int], timestamp: int) -> None:
        numbers = self.windows[window]
        self.output[((*window, sum(numbers), len(numbers)), timestamp)] += 1

    def windows_of(self, key: str, timestamp: int) -> list[tuple[str, int, int]]:
        raise NotImplementedError

    def element(self, key: str, number: int, timestamp: int) -> None:
        taken = False
        for window in self.windows_of(key, timestamp):
            end = window[2] - 1
            if end + self.lateness <= self.watermark:
                self.windows.pop(window, None)
                continue
            taken = True
            self.windows.setdefault(window, []).append(number)
            if end <= self.watermark:
                self.emit(window, timestamp)
        if not taken and timestamp + self.lateness <= self.watermark:
            self.late[((key, number), timestamp)] += 1

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        before, self.watermark = self.watermark, watermark
        for window in list(self.windows):
            end = window[2] - 1
            if before < end <= watermark:
                self.emit(window, end)
            if end + self.lateness <= watermark:
                del self.windows[window]


class Sliding(Model):
    def __init__(self, lateness: int, size: int, slide: int, offset: int) -> None:
        super().__init__(lateness)
        self.size, self.slide, self.offset = size, slide, offset

    def windows_of(self, key: str, timestamp: int) -> list[tuple[str, int, int]]:
        starts = range(timestamp - self.size + 1, timestamp + 1)
        return [(key, start, start + self.size) for start in starts if (start - self.offset) % self.slide == 0]


class Sessions(Model):
    def __init__(self, lateness: int, gap: int) -> None:
        super().__init__(lateness)
        self.gap = gap

    def windows_of(self, key: str, timestamp: int) -> list[tuple[str, int, int]]:
        start, end = timestamp, timestamp + self.gap
        touching = [window for window in self.windows if window[0] == key and window[1] <= end and window[2] >= start]
        merged = (key, min([start, *(window[1] for window in touching)]), max([end, *(window[2] for window in touching)]))
        numbers = [number for window in touching for number in self.windows.pop(window)]
        if numbers:
            self.windows[merged] = numbers
        return [merged]


STEPS = with_faults(
    streams(st.integers(1, 9), keys=st.sampled_from("abc"), max_size=25, max_gap=8, disorder=12, late=40),
    operator_faults(),
    max_faults=5,
)

FINISHES: dict[str, Finish] = {
    "aggregate": lambda windows: windows.aggregate(Sum(), WithWindow()),
    "aggregate without merge": lambda windows: windows.aggregate(SumWithoutMerge(), WithWindow()),
    "aggregate by any trigger": lambda windows: windows.trigger(AnotherEventTimeTrigger()).aggregate(Sum(), WithWindow()),
    "process": lambda windows: windows.process(Folded()),
    "process by any trigger": lambda windows: windows.trigger(AnotherEventTimeTrigger()).process(Folded()),
}


#: What FINISHES allow.
SHARED = {"execution.windows.share-panes": "true"}


def check(
    model: Model,
    windows: Callable[[KeyedStream], WindowedStream],
    finish: Finish,
    steps: list[Step],
    settings: dict[str, str] | None = None,
) -> None:
    def build(stream: DataStream) -> DataStream:
        return finish(windows(by_key(stream)).allowed_lateness(model.lateness).side_output_late_data(LATE))

    harness = OneInputHarness(build, PAIRS, side_outputs=[LATE], max_parallelism=8, settings=settings)
    try:
        for step in [*steps, End()]:
            harness.play([step])
            match step:
                case Emit(value=(key, number), timestamp=int() as timestamp):
                    model.element(key, number, timestamp)
                case EmitWatermark(timestamp=watermark):
                    model.advance(watermark)
                case End():
                    model.advance(2**63 - 1)
            output = Counter((record.value, record.timestamp) for record in harness.take_output())
            assert output == model.output, step
            model.output.clear()
            late = Counter((record.value, record.timestamp) for record in harness.take_output(LATE))
            assert late == model.late, step
            model.late.clear()
    finally:
        harness.close()


patient = examples(10)


@pytest.mark.parametrize("finish", FINISHES)
@patient
@given(steps=STEPS, size=st.integers(1, 20), offset=st.integers(-3, 3), lateness=st.sampled_from([0, 0, 1, 10]))
def test_tumbling_windows_are_those_of_the_model(finish: str, steps: list[Step], size: int, offset: int, lateness: int) -> None:
    offset = offset % size
    assigner = TumblingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(offset))
    check(Sliding(lateness, size, size, offset), lambda stream: stream.window(assigner), FINISHES[finish], steps)


@pytest.mark.parametrize(("finish", "settings"), [*((finish, None) for finish in FINISHES), ("aggregate", SHARED)])
@patient
@given(
    steps=STEPS,
    size=st.integers(1, 25),
    slide=st.integers(1, 12),
    offset=st.integers(-3, 3),
    lateness=st.sampled_from([0, 0, 1, 10]),
)
def test_sliding_windows_are_those_of_the_model(
    finish: str, settings: dict[str, str] | None, steps: list[Step], size: int, slide: int, offset: int, lateness: int
) -> None:
    offset = offset % slide
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide), Time.milliseconds(offset))
    check(Sliding(lateness, size, slide, offset), lambda stream: stream.window(assigner), FINISHES[finish], steps, settings)


@pytest.mark.parametrize("finish", ["aggregate", "process", "process by any trigger"])
@patient
@given(steps=STEPS, gap=st.integers(1, 15), lateness=st.sampled_from([0, 0, 1, 10]))
def test_sessions_are_those_of_the_model(finish: str, steps: list[Step], gap: int, lateness: int) -> None:
    assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(gap))
    check(Sessions(lateness, gap), lambda stream: stream.window(assigner), FINISHES[finish], steps)
