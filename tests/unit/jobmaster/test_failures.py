from __future__ import annotations

import threading

import pytest

from flinkish.common.clock import ManualClock
from flinkish.common.errors import (
    CorruptCheckpointError,
    ForeignCheckpointError,
    SinkError,
    StaleGenerationError,
)
from flinkish.jobmaster import failures
from flinkish.jobmaster.wakeup import Wakeup

from .support import VERTEX, command, failed_report


@pytest.mark.parametrize(
    ("error", "recoverable"),
    [
        (ValueError("bad record"), True),
        (SinkError("table is gone"), True),
        (CorruptCheckpointError("truncated"), False),
        (ForeignCheckpointError("other format"), False),
        (StaleGenerationError("generation 2"), False),
    ],
)
def test_what_a_restart_would_meet_again_is_not_recoverable(error: Exception, recoverable: bool) -> None:
    assert failures.from_error(error, "the driver").recoverable is recoverable
    task = failed_report(command(), error).failure
    assert task is not None
    assert failures.from_task(task, 1).recoverable is recoverable


def test_a_failure_of_a_task_names_operator_uid_and_subtask() -> None:
    task = failed_report(command(), ValueError("bad record")).failure
    assert task is not None
    failure = failures.from_task(task, 4)
    assert failure.message == "operator 'Notes' (uid notes), subtask 1/4: ValueError: bad record"
    assert failure.vertex == VERTEX


def test_an_error_that_did_not_pickle_is_told_by_its_traceback() -> None:
    task = failed_report(command(), ValueError("bad record")).failure
    assert task is not None
    from dataclasses import replace

    assert failures.from_task(replace(task, error=None), 1).summary == "ValueError: bad record"


def test_the_jobs_error_holds_the_users_text_once() -> None:
    task = failed_report(command(), ValueError("bad record")).failure
    assert task is not None
    error = failures.to_error(failures.from_task(task, 1), "orders", "abc", "no attempts are left")
    assert str(error).startswith("Job 'orders' (abc) failed in operator 'Notes'")
    assert "no attempts are left" in str(error)
    assert str(error).count("in user code") == 1
    assert isinstance(error.__cause__, ValueError)


class TestBell:
    def test_a_signal_before_the_wait_ends_it_at_once(self) -> None:
        wakeup = Wakeup(ManualClock())
        since = wakeup.signals
        wakeup.signal()
        wakeup.wait(since, None)

    def test_a_signal_from_another_thread_ends_the_wait(self) -> None:
        wakeup = Wakeup(ManualClock())
        since = wakeup.signals
        threading.Thread(target=wakeup.signal).start()
        wakeup.wait(since, None)
        assert wakeup.signals == since + 1

    def test_what_was_posted_is_taken_once_and_in_order(self) -> None:
        wakeup, called = Wakeup(ManualClock()), []
        for number in range(3):
            wakeup.post(lambda number=number: called.append(number))
        for call in wakeup.take_posted():
            call()
        assert called == [0, 1, 2]
        assert wakeup.take_posted() == []
