"""Strategies for hypothesis: realistic streams, and faults of the operators and jobs that read them.

All of them generate steps (`flinkish.testing.steps`) that harnesses play:

    @given(script=with_faults(streams(st.integers(), disorder=10, late=20), operator_faults()))
    def test_...(script):
        with OneInputHarness(build) as harness:
            harness.play(script)

Examples shrink to few records with small numbers, without faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkish.common.requirements import need
from flinkish.testing.steps import (
    SOURCE,
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

if TYPE_CHECKING:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
else:
    need("hypothesis", "flinkish.testing.strategies", "testing")
    from hypothesis import strategies as st

__all__ = ["advances", "interleaved", "job_faults", "operator_faults", "streams", "with_faults"]


def streams(
    values: SearchStrategy[Any],
    *,
    keys: SearchStrategy[Any] | None = None,
    source: str = SOURCE,
    splits: int = 1,
    max_size: int = 30,
    max_gap: int = 10,
    disorder: int = 10,
    late: int = 0,
    watermarks: bool = True,
    idle: bool = False,
    end: bool = False,
) -> SearchStrategy[list[Step]]:
    """Return a strategy for the steps of one source: records in disorder, and watermarks in between that no record contradicts.

    Event times begin near 0 and go on by 0 to `max_gap` milliseconds from record to record; a record is behind the newest one of
    any split by up to `disorder`. Watermarks are as high as that allows, so no record is late, however many splits there are.
    `late`: some records are up to this many milliseconds behind a watermark of their split.

    Args:
        values: What records are; with `keys` they are pairs of a key and a value.
        source: The name of the source in the steps.
        splits: How many splits the source has; each has watermarks of its own.
        max_size: The most steps.
        idle: Whether splits fall idle in between; they are marked active again before their next record.
        end: Whether all splits end, when all before is handled, as the last steps.

    >>> from hypothesis import find
    >>> find(streams(st.integers(), watermarks=False), bool)
    [Emit(value=0, timestamp=0, source='source', split=0)]
    """
    records = values if keys is None else st.tuples(keys, values)
    split = st.integers(0, splits - 1)
    plans: list[SearchStrategy[Any]] = [
        st.tuples(st.just("record"), split, records, st.integers(0, max_gap), st.integers(0, disorder))
    ]
    # Twice, because most steps should be records.
    plans *= 2
    if watermarks:
        plans.append(st.tuples(st.just("watermark"), split))
    if late:
        plans.append(st.tuples(st.just("late"), split, records, st.integers(0, late - 1)))
    if idle:
        plans.append(st.tuples(st.just("idle"), split))
    return st.lists(st.one_of(plans), max_size=max_size).map(lambda plan: _stream(plan, source, splits, disorder, end))


def _stream(plan: Sequence[tuple[Any, ...]], source: str, splits: int, disorder: int, end: bool) -> list[Step]:
    """Convert drawn values into steps, whose event times depend on earlier steps."""
    newest = 0
    watermarks: dict[int, int] = {}
    idle: set[int] = set()
    steps: list[Step] = []

    def emit(value: Any, timestamp: int, split: int) -> None:
        if split in idle:
            # Otherwise other splits may have passed it, because an idle split does not hold back the watermark.
            idle.discard(split)
            steps.append(MarkActive(source, split))
        steps.append(Emit(value, timestamp, source, split))

    for kind, split, *rest in plan:
        match kind, rest:
            case "record", (value, gap, behind):
                newest += gap
                emit(value, newest - behind, split)
            case "late", (value, behind):
                emit(value, watermarks.get(split, newest) - behind, split)
            case "watermark", _:
                watermarks[split] = newest - disorder - 1
                idle.discard(split)
                steps.append(EmitWatermark(watermarks[split], source, split))
            case _:
                idle.add(split)
                steps.append(MarkIdle(source, split))
    return [*steps, Settle(), *(End(source, split) for split in range(splits))] if end else steps


def advances(max_milliseconds: int = 100) -> SearchStrategy[Step]:
    """Return a strategy for steps of processing time, of 1 ms at least."""
    return st.builds(Advance, st.integers(1, max_milliseconds))


@st.composite
def interleaved(draw: st.DrawFn, *scripts: SearchStrategy[list[Any]]) -> list[Step]:
    """Return a strategy for several scripts at once: each in its own order, mixed in any way.

    >>> from hypothesis import find
    >>> find(interleaved(st.just([1, 2]), st.just([3])), lambda steps: steps[0] == 3)
    [3, 1, 2]
    """
    left = [list(reversed(draw(script))) for script in scripts]
    mixed: list[Step] = []
    while left := [script for script in left if script]:
        mixed.append(left[draw(st.integers(0, len(left) - 1))].pop())
    return mixed


@st.composite
def with_faults(
    draw: st.DrawFn, script: SearchStrategy[list[Any]], faults: SearchStrategy[Step], *, max_faults: int = 3
) -> list[Step]:
    """Return a strategy for a script in which things happen at any place; `faults` may be any steps.

    >>> from hypothesis import find
    >>> find(with_faults(st.just([Settle()]), st.just(Crash())), lambda steps: Crash() in steps)
    [Crash(at=None), Settle()]
    """
    steps: list[Step] = list(draw(script))
    for fault in draw(st.lists(faults, max_size=max_faults)):
        steps.insert(draw(st.integers(0, len(steps))), fault)
    return steps


def operator_faults(max_parallelism: int = 3) -> SearchStrategy[Step]:
    """Return a strategy for faults of an operator: lost processes, a restore at any parallelism."""
    return st.one_of(st.just(LoseHeap()), st.builds(Restart, st.integers(1, max_parallelism)))


def job_faults(max_parallelism: int = 3, points: Sequence[CrashPoint] = tuple(CrashPoint)) -> SearchStrategy[Step]:
    """Return a strategy for events of a job: checkpoints, crashes at any point, a start at any parallelism.

    `Settle` is one of them: all earlier records are processed before later ones.
    """
    return st.one_of(
        st.just(Settle()),
        st.just(TakeCheckpoint()),
        st.builds(Crash, st.sampled_from([None, *points])),
        st.builds(Restart, st.integers(1, max_parallelism)),
    )
