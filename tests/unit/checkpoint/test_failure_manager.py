"""What a failed checkpoint means for the job; after Flink's CheckpointFailureManager."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.failure_manager import CheckpointFailureManager, FailJob, Failure, FailureReason, Ignore, Tolerate
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.common.ids import CheckpointId

COUNTING = [reason for reason in FailureReason if reason.counts]


def failure(
    checkpoint_id: int | None,
    reason: FailureReason = FailureReason.DECLINED,
    *,
    kind: CheckpointKind = CheckpointKind.PERIODIC,
    drained: bool = False,
) -> Failure:
    number = None if checkpoint_id is None else CheckpointId(checkpoint_id)
    return Failure(checkpoint_id=number, kind=kind, reason=reason, drained=drained)


def test_the_reasons_that_count_are_those_of_flink() -> None:
    assert {reason.name for reason in COUNTING} == {"IO_ERROR", "EXPIRED", "DECLINED", "SNAPSHOT_FAILED", "FINALIZE_FAILED"}


def test_every_reason_has_a_sentence_of_its_own() -> None:
    sentences = [reason.sentence for reason in FailureReason]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("reason", COUNTING)
def test_with_no_failure_tolerated_the_first_one_that_counts_fails_the_job(reason: FailureReason) -> None:
    assert isinstance(CheckpointFailureManager(0).failed(failure(1, reason)), FailJob)


@pytest.mark.parametrize("reason", [reason for reason in FailureReason if not reason.counts])
def test_reasons_that_do_not_count_never_fail_the_job(reason: FailureReason) -> None:
    manager = CheckpointFailureManager(0)
    assert [manager.failed(failure(number, reason)) for number in range(1, 10)] == [Ignore()] * 9


def test_the_job_fails_when_more_than_tolerable_fail_in_a_row() -> None:
    manager = CheckpointFailureManager(2)
    assert [manager.failed(failure(1)), manager.failed(failure(2))] == [Tolerate(1), Tolerate(2)]
    verdict = manager.failed(failure(3, FailureReason.EXPIRED))
    assert isinstance(verdict, FailJob)
    assert "3 checkpoints in a row" in verdict.message
    assert "timeout" in verdict.message


def test_a_completed_checkpoint_sets_the_count_back() -> None:
    manager = CheckpointFailureManager(1)
    assert manager.failed(failure(1)) == Tolerate(1)
    manager.succeeded(CheckpointId(2))
    assert manager.failed(failure(3)) == Tolerate(1)


def test_a_restart_sets_the_count_back() -> None:
    manager = CheckpointFailureManager(1)
    manager.failed(failure(1))
    manager.restarted()
    assert manager.failed(failure(2)) == Tolerate(1)


def test_a_failure_older_than_the_last_success_is_ignored() -> None:
    manager = CheckpointFailureManager(0)
    manager.succeeded(CheckpointId(5))
    assert manager.failed(failure(4)) == Ignore()
    assert manager.failed(failure(5)) == Ignore()


def test_a_savepoint_counts_only_if_a_part_of_it_failed() -> None:
    verdicts = {
        reason: CheckpointFailureManager(1).failed(failure(1, reason, kind=CheckpointKind.SAVEPOINT)) for reason in COUNTING
    }
    counting = {FailureReason.DECLINED, FailureReason.SNAPSHOT_FAILED}
    assert verdicts == {reason: Tolerate(1) if reason in counting else Ignore() for reason in COUNTING}


def test_a_failed_savepoint_for_which_the_input_was_ended_fails_the_job_however_many_are_tolerated() -> None:
    manager = CheckpointFailureManager(100)
    kind = CheckpointKind.STOP_SAVEPOINT
    assert isinstance(manager.failed(failure(1, FailureReason.EXPIRED, kind=kind, drained=True)), FailJob)
    assert manager.failed(failure(2, FailureReason.EXPIRED, kind=kind)) == Ignore()
    assert manager.failed(failure(3, FailureReason.DECLINED, kind=kind)) == Tolerate(1)


def test_a_stop_that_never_started_or_ended_with_the_job_does_not_fail_it() -> None:
    manager = CheckpointFailureManager(0)
    stop = CheckpointKind.STOP_SAVEPOINT
    assert manager.failed(failure(None, FailureReason.TASKS_NOT_RUNNING, kind=stop)) == Ignore()
    assert manager.failed(failure(None, FailureReason.IO_ERROR, kind=stop)) == Ignore()
    assert manager.failed(failure(3, FailureReason.JOB_FAILED, kind=stop)) == Ignore()


def test_attempts_to_start_that_fail_on_storage_count_each() -> None:
    manager = CheckpointFailureManager(1)
    assert manager.failed(failure(None, FailureReason.IO_ERROR)) == Tolerate(1)
    assert isinstance(manager.failed(failure(None, FailureReason.IO_ERROR)), FailJob)


def test_minus_one_tolerates_any_number_of_failures() -> None:
    manager = CheckpointFailureManager(-1)
    assert [manager.failed(failure(number)) for number in range(1, 50)][-1] == Tolerate(49)
