"""The line at the end of a job about the records that it dropped as too late."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.testing import JobHarness
from tests.kit.restarts import restarting

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
RESTARTS = restarting(1, 0)


def windowed(env: StreamExecutionEnvironment, job: JobHarness) -> None:
    pairs = env.from_source(job.source("pairs", PAIR), NO_WATERMARKS, "pairs").key_by(lambda pair: pair[0])
    windows = pairs.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows.reduce(lambda a, b: (a[0], a[1] + b[1])).name("Sums").sink_to(job.sink("sums"))


def told(caplog: pytest.LogCaptureFixture) -> str:
    """Return the line at the end of the last process of the job."""
    texts = [record.getMessage() for record in caplog.records if "too late" in record.getMessage()]
    return texts[-1].splitlines()[0]


@pytest.mark.parametrize("new_process", [False, True], ids=["new attempt", "new process"])
def test_late_records_that_a_restart_reads_again_count_once(caplog: pytest.LogCaptureFixture, new_process: bool) -> None:
    with JobHarness(windowed, settings=RESTARTS) as job:
        pairs = job.source("pairs")
        pairs.watermark(29)
        pairs.emit(("x", 1), 7)
        job.checkpoint()
        pairs.emit(("x", 2), 8)
        pairs.emit(("x", 3), 35)
        job.settle()
        if new_process:
            job.crash()
        else:
            pairs.fail("the disk is gone")
            job.settle()
            job.advance(1)
        job.finish()
    assert ": 2 of 3 at 'Sums'" in told(caplog)


def test_a_job_that_reads_from_the_beginning_again_counts_from_zero(caplog: pytest.LogCaptureFixture) -> None:
    with JobHarness(windowed, settings=RESTARTS) as job:
        pairs = job.source("pairs")
        pairs.watermark(29)
        pairs.emit(("x", 1), 7)
        pairs.emit(("x", 3), 35)
        job.settle()
        pairs.fail("the disk is gone")
        job.settle()
        job.advance(1)
        job.finish()
    assert ": 1 of 2 at 'Sums'" in told(caplog)


def test_a_job_does_not_count_records_that_the_job_of_its_savepoint_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with JobHarness(windowed) as job:
        pairs = job.source("pairs")
        pairs.watermark(29)
        pairs.emit(("x", 1), 7)
        savepoint = job.stop()
        job.restart(savepoint=savepoint)
        pairs.emit(("x", 2), 8)
        pairs.emit(("x", 3), 35)
        job.finish()
    assert ": 1 of 2 at 'Sums'" in told(caplog)


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left, right


def test_records_of_an_interval_join_are_dropped_if_nobody_reads_their_side_output(caplog: pytest.LogCaptureFixture) -> None:
    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        left, right = (env.from_source(job.source(name, PAIR), NO_WATERMARKS, name).key_by(lambda p: p[0]) for name in "lr")
        join = left.interval_join(right).between(Time.milliseconds(-5), Time.milliseconds(5))
        late = join.side_output_left_late_data(OutputTag("left", PAIR)).side_output_right_late_data(OutputTag("right", PAIR))
        late.process(Pairs()).name("Join").sink_to(job.sink("out"))

    with JobHarness(program) as job:
        for name in "lr":
            job.source(name).watermark(29)
        job.settle()
        job.source("l").emit(("a", 1), 28)
        job.source("r").emit(("b", 2), 28)
        job.source("r").emit(("b", 2), 29)
        job.finish()
    assert ": 2 of 3 at 'Join'" in told(caplog)
