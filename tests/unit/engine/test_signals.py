"""Signals while jobs run."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from flinkish.common import JobID
from flinkish.common.clock import ManualClock
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import JobList
from flinkish.engine.signals import SignalWatch


class Job:
    """A job that ends when the test says so."""

    def __init__(self) -> None:
        self.stopped: list[str] = []
        self.stopping = threading.Event()
        self.released = threading.Event()
        #: Signals that are sent again when the job has ended.
        self.sent: queue.SimpleQueue[int] = queue.SimpleQueue()

    def get_job_id(self) -> JobID:
        return JobID("a" * 32)

    def stop_for_signal(self, name: str) -> None:
        self.stopped.append(name)
        self.stopping.set()

    def wait_released(self, timeout: float) -> bool:
        return self.released.wait(timeout)


@pytest.fixture
def job() -> Iterator[Job]:
    job = Job()
    yield job
    job.released.set()


def watched(job: Job, clock: ManualClock) -> SignalWatch:
    """A watch over a running job, without handlers: it was started by another thread than the main one."""
    jobs = JobList()
    watch = SignalWatch(jobs, clock, job.sent.put)
    jobs.subscribe(watch)
    starter = threading.Thread(target=jobs.add, args=(cast(EmbeddedJobClient, job),))
    starter.start()
    starter.join()
    return watch


def test_a_signal_that_is_sent_to_the_process_and_to_its_group_is_one_signal(job: Job) -> None:
    clock = ManualClock()
    watch = watched(job, clock)
    watch.handle(signal.SIGTERM, None)
    clock.advance(100)
    watch.handle(signal.SIGTERM, None)
    assert job.stopping.wait(60)
    assert job.stopped == ["SIGTERM"]
    job.released.set()
    assert job.sent.get(timeout=120) == signal.SIGTERM
    with pytest.raises(SystemExit):
        watch.handle(signal.SIGTERM, None)


@pytest.mark.parametrize(("second", "after", "code"), [(signal.SIGTERM, 1_000, 143), (signal.SIGINT, 100, 130)])
def test_a_second_signal_while_jobs_are_being_stopped_ends_the_program_at_once(
    job: Job, second: signal.Signals, after: int, code: int
) -> None:
    clock = ManualClock()
    watch = watched(job, clock)
    watch.handle(signal.SIGTERM, None)
    assert job.stopping.wait(60)
    clock.advance(after)
    with pytest.raises(SystemExit) as ended:
        watch.handle(second, None)
    assert ended.value.code == code
