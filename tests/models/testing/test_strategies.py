"""What streams and faults made at random promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from flinkish.testing.steps import (
    Advance,
    Crash,
    CrashPoint,
    Emit,
    EmitWatermark,
    End,
    LoseHeap,
    MarkActive,
    MarkIdle,
    Restart,
    Settle,
    Step,
    TakeCheckpoint,
)
from flinkish.testing.strategies import advances, interleaved, job_faults, operator_faults, streams, with_faults
from tests.models.testing.examples import examples

NUMBERS = st.integers(0, 3)


@examples(50)
@given(script=streams(NUMBERS, splits=3, idle=True, disorder=7, max_gap=5))
def test_no_record_is_late_whatever_split_it_comes_from(script: list[Step]) -> None:
    highest, newest, idle = -(2**63), -(2**63), set()
    for step in script:
        match step:
            case Emit(timestamp=int() as timestamp, split=split):
                assert timestamp > highest
                assert split not in idle
                assert timestamp >= newest - 7
                newest = max(newest, timestamp)
            case EmitWatermark(timestamp=watermark, split=split):
                highest = max(highest, watermark)
                idle.discard(split)
            case MarkIdle(split=split):
                idle.add(split)
            case MarkActive(split=split):
                idle.remove(split)


@examples(50)
@given(script=streams(NUMBERS, splits=2, disorder=3, late=20))
def test_late_records_are_as_late_as_they_may_be(script: list[Step]) -> None:
    watermarks: dict[int, int] = {}
    for step in script:
        if isinstance(step, EmitWatermark):
            watermarks[step.split] = max(step.timestamp, watermarks.get(step.split, step.timestamp))
        if isinstance(step, Emit) and step.timestamp is not None:
            assert step.timestamp > watermarks.get(step.split, step.timestamp - 1) - 20


def in_order(steps: list[Step]) -> bool:
    times = [step.timestamp for step in steps if isinstance(step, Emit) and step.timestamp is not None]
    return times == sorted(times)


def is_late(steps: list[Step]) -> bool:
    watermark = None
    for step in steps:
        if isinstance(step, EmitWatermark):
            watermark = step.timestamp
        elif watermark is not None and isinstance(step, Emit) and step.timestamp is not None and step.timestamp <= watermark:
            return True
    return False


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (streams(NUMBERS, late=5), is_late),
        (streams(NUMBERS, disorder=5), lambda steps: not in_order(steps)),
        (streams(NUMBERS, splits=2), lambda steps: {s.split for s in steps if isinstance(s, Emit)} == {0, 1}),
        (streams(NUMBERS, keys=st.just("k")), lambda steps: any(isinstance(s, Emit) and s.value == ("k", 2) for s in steps)),
        (streams(NUMBERS, idle=True), lambda steps: MarkActive() in steps),
        (streams(NUMBERS, source="other", splits=2, end=True), lambda steps: steps[-2:] == [End("other", 0), End("other", 1)]),
        (streams(NUMBERS, watermarks=False), lambda steps: len(steps) > 3),
        (advances(5), lambda step: step == Advance(5)),
        (operator_faults(2), lambda step: step == Restart(2)),
        (operator_faults(), lambda step: step == LoseHeap()),
        (job_faults(), lambda step: step == Crash()),
        (job_faults(points=[CrashPoint.DURING_COMMIT]), lambda step: step == Crash(CrashPoint.DURING_COMMIT)),
        (job_faults(), lambda step: step == TakeCheckpoint()),
        (with_faults(streams(NUMBERS), st.just(Settle())), lambda steps: len(steps) > 3 and steps[2] == Settle()),
    ],
)
def test_what_can_happen_is_found(strategy: st.SearchStrategy[Any], wanted: Callable[[Any], bool]) -> None:
    assert wanted(find(strategy, wanted, settings=examples(150)))


@examples(50)
@given(data=st.data())
def test_scripts_that_are_interleaved_keep_their_order(data: st.DataObject) -> None:
    scripts = [st.just([(name, number) for number in range(4)]) for name in "abc"]
    mixed: list[Any] = data.draw(interleaved(*scripts))
    assert [[number for name, number in mixed if name == wanted] for wanted in "abc"] == [list(range(4))] * 3


@examples(50)
@given(script=streams(NUMBERS, watermarks=False, disorder=0))
def test_watermarks_and_disorder_can_be_left_out(script: list[Step]) -> None:
    assert not any(isinstance(step, EmitWatermark) for step in script)
    assert in_order(script)
