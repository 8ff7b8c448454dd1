"""What a person is told of a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.statistics import CheckpointFigures, CheckpointRecord, CheckpointStatus
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import Configuration
from flinkish.common.clock import ManualClock
from flinkish.common.ids import CheckpointId
from flinkish.common.job_status import JobStatus
from flinkish.jobmaster import user_messages
from flinkish.jobmaster.event_time import EventTime
from flinkish.jobmaster.exception_history import ExceptionHistory, FailureRecord
from flinkish.jobmaster.failures import from_error
from flinkish.jobmaster.job_metrics import JobFigures
from flinkish.jobmaster.setup import JobSetup
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK

from ..checkpoint.support import claimed_storage, take
from .support import JOB_ID, Job, Numbers

HELD = "held back by 'Source: Orders'"
NOON = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def setup(interval: int | None = 60_000, **settings: Any) -> JobSetup:
    return Job(Numbers((0, 5)), interval=interval, configuration=Configuration.from_dict(settings)).setup


def figures(**changes: Any) -> JobFigures:
    none = JobFigures(
        epochs=9,
        restarts=0,
        records_read=0,
        records_written=0,
        last_epoch_ms=0,
        credit=0,
        epoch_began=None,
        vertices=(),
        user={},
    )
    return replace(none, **changes)


def record(checkpoint_id: int, **changes: Any) -> CheckpointRecord:
    completed = CheckpointRecord(
        checkpoint_id=CheckpointId(checkpoint_id),
        kind=CheckpointKind.PERIODIC,
        status=CheckpointStatus.COMPLETED,
        trigger_time=NOON - 9_000,
        duration=1_000,
    )
    return replace(completed, **changes)


def progress(
    now: JobFigures,
    *,
    job: JobSetup | None = None,
    status: JobStatus = JobStatus.RUNNING,
    event_time: EventTime | None = None,
    checkpoints: CheckpointFigures | None = None,
    before: JobFigures | None = None,
    last_failure: FailureRecord | None = None,
) -> str:
    return user_messages.progress(
        job or setup(None),
        status,
        now,
        event_time,
        checkpoints or CheckpointFigures(),
        last_failure=last_failure,
        before=before,
        elapsed=30_000,
        wall=NOON,
        now=500_000,
    )


def stored_checkpoint(folder: Path, job_id: str = JOB_ID) -> StoredCheckpoint:
    storage = claimed_storage(folder, job_id=job_id)
    return take(storage, 1)


def test_progress_counts_all_records_and_tells_how_many_came_a_second_since_the_last_line() -> None:
    text = progress(figures(records_read=1_204_332, records_written=77), before=figures(records_read=1_144_332))
    assert text == "Job 'test job': 1,204,332 records in (2,000/s), 77 out."


@pytest.mark.parametrize(
    ("watermark", "subtasks", "text"),
    [
        (NOON - 11_500, (1,), f"watermark 2023-11-14 22:13:08.500 UTC (11 s behind), {HELD} (subtask 2 of 4)"),
        (NOON - 11_500, (0, 1, 2, 3), "watermark 2023-11-14 22:13:08.500 UTC (11 s behind), held back by 'Source: Orders'"),
        (NOON + 1, (0,), "watermark 2023-11-14 22:13:20.001 UTC, held back by 'Source: Orders' (subtask 1 of 4)"),
        (0, (0,), "watermark 1970-01-01 00:00:00.000 UTC, held back by 'Source: Orders' (subtask 1 of 4)"),
        (2**62, (0,), f"watermark {2**62}, held back by 'Source: Orders' (subtask 1 of 4)"),
        (MIN_WATERMARK, (0, 2), "no watermark yet, waiting for 'Source: Orders' (subtask 1, 3 of 4)"),
        (MAX_WATERMARK, (0, 1, 2, 3), "all input has ended"),
    ],
)
def test_progress_tells_the_watermark_and_what_holds_it_back(watermark: int, subtasks: tuple[int, ...], text: str) -> None:
    event_time = EventTime(watermark=watermark, operator="Source: Orders", subtasks=subtasks, parallelism=4)
    assert progress(figures(), event_time=event_time) == f"Job 'test job': 0 records in (0/s), 0 out; {text}."


def test_many_subtasks_that_hold_the_watermark_back_are_not_all_named() -> None:
    event_time = EventTime(watermark=MIN_WATERMARK, operator="Source: Orders", subtasks=tuple(range(50)), parallelism=64)
    assert "(subtask 1, 2, 3, ... of 64)" in progress(figures(), event_time=event_time)


@pytest.mark.parametrize(
    ("checkpoints", "text"),
    [
        (CheckpointFigures(), "no checkpoint yet"),
        (CheckpointFigures(latest_completed=record(12)), "last checkpoint 12 (8 s ago)"),
        (CheckpointFigures(latest_completed=record(12, kind=CheckpointKind.SAVEPOINT)), "last savepoint 12 (8 s ago)"),
        (CheckpointFigures(latest_completed=record(12), latest_failed=record(3, failure="no")), "last checkpoint 12 (8 s ago)"),
        (
            CheckpointFigures(latest_completed=record(12), latest_failed=record(13, failure="no space")),
            "last checkpoint 12 (8 s ago), checkpoint 13 failed: no space",
        ),
        (CheckpointFigures(latest_failed=record(1, failure="no space")), "no checkpoint yet, checkpoint 1 failed: no space"),
    ],
)
def test_progress_of_a_job_that_takes_checkpoints_tells_of_the_last_one(checkpoints: CheckpointFigures, text: str) -> None:
    assert progress(figures(), job=setup(), checkpoints=checkpoints) == f"Job 'test job': 0 records in (0/s), 0 out; {text}."


@pytest.mark.parametrize(
    ("now", "status", "text"),
    [
        (figures(epochs=0), JobStatus.RUNNING, "its tasks are starting"),
        (figures(epoch_began=500_000 - 45_000), JobStatus.RUNNING, "this epoch has taken 45 s so far"),
        (figures(restarts=2), JobStatus.RESTARTING, "status RESTARTING; 2 restarts"),
    ],
)
def test_progress_tells_why_nothing_moves(now: JobFigures, status: JobStatus, text: str) -> None:
    assert progress(now, status=status) == f"Job 'test job': 0 records in (0/s), 0 out; {text}."


def test_progress_of_a_job_that_restarts_again_and_again_tells_since_when_and_why() -> None:
    clock = ManualClock(NOON - 9_000)
    history = ExceptionHistory(clock, size=1)
    for wait, message in ((0, "first"), (6_000, "bad\n  price")):
        clock.advance(wait)
        history.add(from_error(ValueError(message), "operator 'price'"), None, full_traceback=False)
    last = history.last()
    assert last is not None

    text = progress(figures(restarts=2), last_failure=last)

    since = "restarting since 2023-11-14 22:13:11.000 UTC, after operator 'price': ValueError: bad price"
    assert text == f"Job 'test job': 0 records in (0/s), 0 out; 2 restarts; {since}."
    # Half an hour later it runs again, and a new failure is not one of that series.
    clock.advance(1_800_000)
    assert last.restarting_since(clock.wall_time()) is None
    history.add(from_error(ValueError("later"), "operator 'price'"), None, full_traceback=False)
    later = history.last()
    assert later is not None
    assert later.restarting_since(clock.wall_time()) is None


LONG_EPOCH = figures(epochs=0, epoch_began=500_000 - 27_000)
WAITING = EventTime(watermark=MIN_WATERMARK, operator="Source: Orders", subtasks=(0,), parallelism=1)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"busy": ("Sink: book",)}, "no watermark yet; this epoch has taken 27 s so far, in 'Sink: book'"),
        ({"busy": ("a", "b")}, "no watermark yet; this epoch has taken 27 s so far, in 'a', 'b'"),
        ({"committing": "committing checkpoint 7 to sink 'book'"}, "no watermark yet; committing checkpoint 7 to sink 'book'"),
        ({}, "no watermark yet, waiting for 'Source: Orders'; its tasks are starting"),
    ],
)
def test_progress_names_what_takes_the_time_and_then_does_not_blame_a_source(told: dict[str, Any], text: str) -> None:
    line = user_messages.progress(
        setup(None),
        JobStatus.RUNNING,
        LONG_EPOCH,
        WAITING,
        CheckpointFigures(),
        before=None,
        elapsed=30_000,
        wall=NOON,
        now=500_000,
        **told,
    )
    assert line == f"Job 'test job': 0 records in (0/s), 0 out; {text}."


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(-5, "0 s"), (999, "0 s"), (119_000, "119 s"), (120_000, "2 min"), (3 * 3_600_000, "3 h")]
)
def test_durations_are_rounded_down_to_a_unit(milliseconds: int, text: str) -> None:
    assert user_messages.duration(milliseconds) == text


def test_the_start_tells_the_id_and_where_checkpoints_are(tmp_path: Path) -> None:
    job = f"Job 'test job' ({JOB_ID}) starts"
    assert user_messages.starts(setup(None), None) == f"{job}."
    assert (
        user_messages.starts(setup(), None) == f"{job}; its checkpoints end with it, as execution.checkpointing.dir is not set."
    )
    kept = setup(**{"execution.checkpointing.dir": "/data/checkpoints/"})
    assert user_messages.starts(kept, None) == f"{job}; its checkpoints: /data/checkpoints/{JOB_ID}."
    stored = stored_checkpoint(tmp_path)
    assert user_messages.starts(setup(None), stored) == f"{job} from checkpoint 1 ({stored.external_path})."


def test_the_start_of_a_job_that_resumes_by_itself_tells_that_a_given_path_is_not_used(tmp_path: Path) -> None:
    own, given = stored_checkpoint(tmp_path), setup(None, **{"execution.state-recovery.path": "/data/older"})
    text = f"Job 'test job' ({JOB_ID}) starts from checkpoint 1 ({own.external_path})"
    reason = "as the job goes on from its own last checkpoint"
    assert user_messages.starts(given, own) == f"{text}; execution.state-recovery.path = /data/older has no effect, {reason}."
    other = replace(own, manifest=replace(own.manifest, job_id="0" * 32))
    assert user_messages.starts(given, other) == f"{text}."


DIRECTORY = {"execution.checkpointing.dir": "/data"}


def test_a_suspended_job_that_finds_its_checkpoint_by_itself_is_just_started_again(tmp_path: Path) -> None:
    stored = stored_checkpoint(tmp_path)
    settings = {**DIRECTORY, "high-availability.cluster-id": "orders"}
    text = user_messages.suspended(setup(**settings), "it was stopped by SIGTERM", stored)
    assert text == (
        f"Job 'test job' ({JOB_ID}) is suspended at checkpoint 1, as it was stopped by SIGTERM; start it again to go on."
    )


def test_a_suspended_job_without_a_cluster_id_has_to_be_given_the_path(tmp_path: Path) -> None:
    stored = stored_checkpoint(tmp_path)
    text = user_messages.suspended(setup(**DIRECTORY), "it was stopped by SIGTERM", stored)
    assert "is suspended at checkpoint 1, as it was stopped by SIGTERM; to go on, start it again with " in text
    assert f"execution.state-recovery.path = {stored.external_path}" in text


@pytest.mark.parametrize(
    ("interval", "settings", "own", "lost"),
    [
        (None, {}, False, "it takes no checkpoints"),
        (60_000, {}, True, "its checkpoints ended with it, as execution.checkpointing.dir is not set"),
        (60_000, DIRECTORY, False, "it had not completed a checkpoint"),
    ],
)
@pytest.mark.parametrize("path", [None, "/old/savepoint"])
def test_what_is_not_kept_is_not_promised(
    tmp_path: Path, interval: int | None, settings: dict[str, str], own: bool, lost: str, path: str | None
) -> None:
    # Without an own checkpoint the job's latest is the one that it was started from.
    stored = stored_checkpoint(tmp_path, JOB_ID if own else "another")
    given = settings if path is None else {**settings, "execution.state-recovery.path": path}
    text = user_messages.suspended(setup(interval, **given), "it was stopped by SIGTERM", stored if own or path else None)
    assert "suspended" not in text
    assert f"; {lost}: started again, it begins from {path or 'the start'}." in text
