"""Watermark alignment: who holds back whom, and when a source that waits is worth an epoch."""

from __future__ import annotations

from dataclasses import replace

from flinkish.common.clock import ManualClock
from flinkish.common.configuration import Configuration
from flinkish.common.watermark_strategy import WatermarkAlignment
from flinkish.jobmaster.enumerator_coordinator import EnumeratorCoordinator
from flinkish.jobmaster.job_sources import align
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.runtime.protocol import ReaderReport, SplitState

from .support import SOURCE, Numbers

SPLIT = SplitState(split_id="0", split=b"")


def source(group: str | None, drift: int = 10, parallelism: int = 1) -> EnumeratorCoordinator:
    alignment = None if group is None else WatermarkAlignment(group=group, max_drift_ms=drift)
    node = SourceNode(uid=SOURCE, name="Numbers", parallelism=parallelism, source=Numbers((0, 5)), alignment=alignment)
    return EnumeratorCoordinator(node, Configuration(), ManualClock(), post=lambda call: call())


def at(watermark: int | None, *, held: bool = False, finished: bool = False, splits: bool = True) -> ReaderReport:
    return ReaderReport(
        splits=(SPLIT,) if splits else (),
        records=1,
        more_available=splits and not finished,
        finished=finished,
        wants_split=False,
        watermark=watermark,
        held_back=held,
    )


def limits(*sources: EnumeratorCoordinator) -> list[int | None]:
    align(sources)
    return [sources.commands(1)[0].max_watermark for sources in sources]


def test_the_least_watermark_of_a_group_and_the_sources_own_drift_are_its_limit() -> None:
    slow, fast, other, free = source("a", 10, parallelism=2), source("a", 30), source("b"), source(None)
    slow.apply(0, at(100))
    slow.apply(1, at(70))
    fast.apply(0, at(500))
    other.apply(0, at(5))
    free.apply(0, at(1))
    assert limits(slow, fast, other, free) == [80, 100, 15, None]


def test_readers_that_are_idle_or_ended_or_without_a_split_hold_nobody_back() -> None:
    sources = [source("a") for _ in range(4)]
    for one, report in zip(sources, [at(None), at(3, finished=True), at(4, splits=False), at(50)], strict=True):
        one.apply(0, report)
    assert limits(*sources) == [60] * 4
    sources[3].apply(0, at(50, finished=True))
    assert limits(*sources) == [None] * 4


def test_a_reader_that_waits_for_its_group_is_no_reason_for_an_epoch_until_it_may_go_on() -> None:
    slow, fast = source("a"), source("a")
    slow.apply(0, at(100))
    fast.apply(0, at(111, held=True))
    limits(slow, fast)
    assert (slow.input_ready, fast.input_ready, fast.wants_poll) == (True, False, False)
    slow.apply(0, at(101))
    limits(slow, fast)
    assert (fast.input_ready, fast.wants_poll) == (True, True)


def test_a_reader_with_paused_splits_gets_an_epoch_when_its_limit_reaches_one_of_them() -> None:
    reader, other = source("a"), source("a")
    paused = ReaderReport(
        splits=(SPLIT,), records=1, more_available=False, finished=False, wants_split=False, watermark=100, paused_from=150
    )
    reader.apply(0, paused)
    other.apply(0, at(139))
    limits(reader, other)
    assert not reader.input_ready
    other.apply(0, at(140))
    reader.apply(0, replace(paused, watermark=140))
    assert limits(reader, other) == [150, 150]
    assert reader.input_ready
    reader.apply(0, replace(paused, watermark=140, paused_from=None))
    assert not reader.input_ready
