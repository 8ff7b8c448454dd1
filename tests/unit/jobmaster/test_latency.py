from __future__ import annotations

from typing import Any

import pytest

from flinkish.common.clock import ManualClock
from flinkish.common.ids import Epoch
from flinkish.jobmaster.job_metrics import JobMetrics
from flinkish.jobmaster.latency import Granularity, LatencySettings
from flinkish.metrics.samples import Histogram
from flinkish.runtime.protocol import EpochReport, ReaderReport, VertexMetrics

from .support import SOURCE, VERTEX, Notes, Numbers, make_plan


class Job:
    """Epochs of 40 ms of a job whose subtasks end 30 and 40 ms after the command."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        latency = LatencySettings(**{"interval": 100, **settings})
        self.metrics = JobMetrics(make_plan(Numbers(), Notes(), parallelism=2), self.clock, latency)

    def epoch(self, *, read: tuple[int, int] = (1, 1), waited: bool = False) -> None:
        self.metrics.epoch_begins(self.clock.monotonic(), 100, waited=waited)
        self.clock.advance(40)
        reports = [
            EpochReport(
                epoch=Epoch(0),
                level=0,
                slot=slot,
                readers={
                    (SOURCE, slot): ReaderReport(
                        splits=(), records=read[slot], more_available=True, finished=False, wants_split=False
                    )
                },
                metrics=(
                    VertexMetrics(
                        vertex=VERTEX, subtask=slot, records_in=1, records_out=1, busy_ms=1, watermark=0, ended_ms=30 + 10 * slot
                    ),
                ),
            )
            for slot in (0, 1)
        ]
        self.metrics.add(reports, elapsed_ms=40)

    def found(self) -> dict[tuple[Any, ...], Histogram]:
        """Return the latencies by what they are of, in the order of subtasks."""
        latencies = sorted(self.metrics.figures().latencies.items(), key=lambda each: each[0].subtask)
        return {(key.source, key.source_subtask, key.vertex, key.subtask): values for key, values in latencies}


def test_a_latency_is_the_wait_for_the_epoch_and_the_time_until_its_work_is_done() -> None:
    job = Job()
    job.clock.advance(120)  # a marker came at 100
    job.epoch()
    found = job.found()
    assert {key: values.max for key, values in found.items()} == {(VERTEX, None, VERTEX, 0): 50, (VERTEX, None, VERTEX, 1): 60}


def test_without_a_marker_nothing_is_measured() -> None:
    job = Job()
    job.clock.advance(50)
    job.epoch()
    assert job.found() == {}


def test_a_marker_does_not_wait_while_there_is_nothing_to_read() -> None:
    job = Job()
    job.clock.advance(990)
    job.epoch(waited=True)
    assert [(values.count, values.max) for values in job.found().values()] == [(1, 30), (1, 40)]


def test_an_epoch_that_read_nothing_measures_nothing() -> None:
    job = Job()
    job.clock.advance(150)
    job.epoch(read=(0, 0))
    assert job.found() == {}
    job.clock.advance(10)
    job.epoch()
    assert [values.count for values in job.found().values()] == [1, 1]


def test_several_markers_of_one_epoch_have_waited_for_different_times() -> None:
    job = Job(interval=10)
    job.clock.advance(35)
    job.epoch()
    values = job.found()[VERTEX, None, VERTEX, 0]
    assert (values.count, values.min, values.max, values.quantiles[0.5]) == (3, 35, 55, 45)


def test_an_interval_far_below_the_length_of_an_epoch_costs_little() -> None:
    job = Job(interval=1)
    job.clock.advance(10_000)
    job.epoch()
    values = job.found()[VERTEX, None, VERTEX, 0]
    assert values.count <= 32
    assert values.max - values.min > 9_000


def test_only_the_last_latencies_are_remembered() -> None:
    job = Job(history_size=2)
    for _ in range(5):
        job.clock.advance(100)
        job.epoch()
    values = job.found()[VERTEX, None, VERTEX, 0]
    assert values.count > 5
    assert values.max < 200


@pytest.mark.parametrize(
    ("granularity", "sources"),
    [
        (Granularity.SINGLE, {(None, None)}),
        (Granularity.OPERATOR, {(VERTEX, None)}),
        (Granularity.SUBTASK, {(VERTEX, 0), (VERTEX, 1)}),
    ],
)
def test_sources_are_told_apart_as_configured(granularity: Granularity, sources: set[Any]) -> None:
    job = Job(granularity=granularity)
    job.clock.advance(120)
    job.epoch()
    assert {(source, index) for source, index, _, _ in job.found()} == sources


def test_a_marker_of_a_failed_attempt_is_lost() -> None:
    job = Job()
    job.clock.advance(120)
    job.metrics.epoch_begins(job.clock.monotonic(), 100)
    job.metrics.restarted()
    job.epoch()
    assert job.found() == {}
