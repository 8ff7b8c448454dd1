"""Lines about a running job every now and then."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Duration, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.jobmaster.job_master import JobMaster
from flinkish.testing import JobHarness


def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    orders = env.from_source(job.source("orders", Types.LONG()), strategy, "Orders")
    orders.filter(lambda n: n > 1).sink_to(job.sink("large"))


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "flinkish.job"]


def await_lines(job: JobHarness, caplog: pytest.LogCaptureFixture, count: int) -> list[str]:
    """Wait for that many lines: the reporter's thread is none that the harness waits for."""
    pause, rounds = threading.Event(), 0
    while len(lines_of(caplog)) < count:
        job.settle()
        rounds += 1
        assert rounds < 2_000, f"not {count} lines: {lines_of(caplog)}"
        pause.wait(0.01)
    return lines_of(caplog)


def test_a_job_tells_how_it_goes_every_30_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flinkish.job")
    with JobHarness(program, settings={"execution.progress.interval": "30 s"}) as job:
        job.source("orders").emit(1, 10_000)
        job.source("orders").emit(2, 12_000)
        completed = job.checkpoint()
        job.advance(30_000)
        start, line = await_lines(job, caplog, 2)
        assert start.startswith("Job 'harness' (")
        assert line == (
            "Job 'harness': 2 records in (0/s), 1 out; watermark 1970-01-01 00:00:10.999 UTC (19 s behind), held back by "
            f"'Source: Orders'; last checkpoint {completed} (30 s ago)."
        )
        job.advance(30_000)
        assert len(await_lines(job, caplog, 3)) == 3


def test_lines_that_cannot_be_made_end_and_nothing_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no figures")

    monkeypatch.setattr(JobMaster, "progress", fail)
    with JobHarness(program, settings={"execution.progress.interval": "30 s"}) as job:
        (thread,) = (thread for thread in threading.enumerate() if thread.name.startswith("flinkish-progress-"))
        job.advance(30_000)
        thread.join(120)
        assert not thread.is_alive()
        job.source("orders").emit(2, 12_000)
        job.sink("large").assert_output(2)
    assert caplog.text.count("no more lines come") == 1


@pytest.mark.parametrize("interval", [0, "0 ms"])
def test_an_interval_of_0_ends_the_lines(caplog: pytest.LogCaptureFixture, interval: Any) -> None:
    caplog.set_level(logging.INFO, "flinkish.job")
    with JobHarness(program, settings={"execution.progress.interval": interval}) as job:
        assert job.client.job_master.setup.progress_interval is None
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("flinkish-progress-")]


def test_a_suspended_job_tells_from_where_it_goes_on(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO, "flinkish.job")
    settings = {"execution.checkpointing.dir": str(tmp_path), "high-availability.cluster-id": "orders"}
    with JobHarness(program, settings=settings) as job:
        job.source("orders").emit(2, 1_000)
        completed = job.checkpoint()
        job.client.stop_for_signal("SIGTERM")
        assert job.client.wait_released(20)
    assert lines_of(caplog)[-1].endswith(
        f"is suspended at checkpoint {completed}, as it was stopped by SIGTERM; start it again to go on."
    )


def test_a_job_without_checkpoints_does_not_claim_to_be_suspended(caplog: pytest.LogCaptureFixture) -> None:
    def printing(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        env.from_source(job.source("orders", Types.LONG()), WatermarkStrategy.no_watermarks(), "Orders").print()

    caplog.set_level(logging.INFO, "flinkish.job")
    with JobHarness(printing, settings={"execution.checkpointing.interval": 0}) as job:
        job.client.stop_for_signal("SIGTERM")
        assert job.client.wait_released(20)
    assert lines_of(caplog)[-1].endswith(
        "has ended, as it was stopped by SIGTERM; it takes no checkpoints: started again, it begins from the start."
    )
