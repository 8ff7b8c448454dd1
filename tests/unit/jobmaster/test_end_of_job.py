"""When a job is done: after its input, its last checkpoint, and the epoch in which functions hear of that checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.common.clock import ManualClock
from flinkish.common.ids import CheckpointId, Epoch
from flinkish.common.job_status import JobStatus
from flinkish.jobmaster.end_of_job import EndOfJob
from flinkish.jobmaster.restart_strategies import FixedDelay
from flinkish.runtime.protocol import EpochReport, VertexMetrics

from .support import VERTEX, Job, Numbers, NumbersEnumerator


class Step(Enum):
    """What follows after an epoch."""

    GO_ON = "further epochs"
    FAREWELL = "one more epoch"
    FINISH = "nothing"


GO_ON, FAREWELL, FINISH = Step


@dataclass
class End:
    """The end of a job with two subtasks."""

    checkpointing: bool = True

    def __post_init__(self) -> None:
        self.clock = ManualClock(1_000)
        job = Job(Numbers(), parallelism=2, interval=60_000 if self.checkpointing else None)
        self.part = EndOfJob(job.setup, self.clock)
        self.checkpoints = 0

    def epoch(self, *finished: int, completes: CheckpointKind | None = None, closes: bool = False) -> Step:
        """Take the reports of an epoch in which these subtasks have finished, and a checkpoint that it has completed."""
        self.part.take([report(subtask, finished=subtask in finished, closes=closes) for subtask in (0, 1)])
        if completes is not None:
            self.checkpoints += 1
            self.part.barrier_passed(CheckpointId(self.checkpoints))
            self.part.checkpoint_completed(CheckpointId(self.checkpoints), completes)
        return self.step()

    def step(self) -> Step:
        if self.part.after_epoch():
            return FINISH
        return FAREWELL if self.part.farewell else GO_ON


def report(subtask: int, *, finished: bool, closes: bool = False) -> EpochReport:
    metrics = VertexMetrics(
        vertex=VERTEX, subtask=subtask, records_in=0, records_out=0, busy_ms=0.0, watermark=0, finished=finished, user={}
    )
    return EpochReport(epoch=Epoch(0), level=0, slot=subtask, metrics=(metrics,), closes=closes)


def test_the_input_has_ended_when_all_subtasks_have_finished_in_whatever_epochs() -> None:
    end = End(checkpointing=False)
    assert end.epoch(0) is GO_ON
    assert not end.part.input_ended
    assert end.epoch(1) is FINISH
    assert end.part.input_ended


def test_a_job_with_checkpoints_goes_on_until_one_behind_the_end_of_its_input_is_complete() -> None:
    end = End()
    assert end.epoch(0, completes=CheckpointKind.PERIODIC) is GO_ON
    assert end.epoch(1) is GO_ON
    assert end.epoch(completes=CheckpointKind.FINAL) is FINISH


def test_a_checkpoint_of_the_epoch_in_which_the_input_ended_is_the_last_one() -> None:
    assert End().epoch(0, 1, completes=CheckpointKind.PERIODIC) is FINISH


def test_a_checkpoint_that_began_before_the_end_of_the_input_is_not_the_last_one_even_if_it_completes_after_it() -> None:
    end = End()
    end.part.barrier_passed(CheckpointId(1))
    assert end.epoch(0, 1) is GO_ON
    end.part.checkpoint_completed(CheckpointId(1), CheckpointKind.PERIODIC)
    assert end.step() is GO_ON
    assert not end.part.last_checkpoint_complete
    assert end.epoch(completes=CheckpointKind.FINAL) is not GO_ON


def test_a_savepoint_ends_a_job_only_if_it_was_taken_to_stop_it() -> None:
    assert End().epoch(completes=CheckpointKind.SAVEPOINT) is GO_ON
    assert End().epoch(completes=CheckpointKind.STOP_SAVEPOINT) is FINISH


def test_a_stop_that_failed_is_forgotten_unless_the_input_has_ended() -> None:
    for finished, step in [((), GO_ON), ((0, 1), FINISH)]:
        end = End()
        end.part.take([report(subtask, finished=subtask in finished) for subtask in (0, 1)])
        end.part.checkpoint_completed(CheckpointId(1), CheckpointKind.STOP_SAVEPOINT)
        end.part.stop_failed()
        assert end.step() is step


@pytest.mark.parametrize("checkpointing", [True, False])
def test_one_more_epoch_runs_if_something_is_to_be_closed(checkpointing: bool) -> None:
    end = End(checkpointing)
    assert end.epoch(0, 1, closes=True, completes=CheckpointKind.FINAL if checkpointing else None) is FAREWELL
    assert end.part.farewell
    assert end.epoch(closes=True) is FINISH


def test_what_was_closed_before_the_last_epoch_needs_no_farewell() -> None:
    end = End()
    assert end.epoch(0, 1, closes=True) is GO_ON
    assert end.epoch(completes=CheckpointKind.FINAL) is FINISH


def test_the_final_checkpoint_is_due_at_once_and_again_after_a_second() -> None:
    end = End()
    assert not end.part.final_checkpoint_due()
    end.epoch(0, 1)
    assert end.part.final_checkpoint_due()
    assert not end.part.final_checkpoint_due()
    end.clock.advance(999)
    assert not end.part.final_checkpoint_due()
    end.clock.advance(1)
    assert end.part.final_checkpoint_due()


class FailingEnumerator(NumbersEnumerator):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        raise ValueError("cannot release the splits")


class FailsAtTheEnd(Numbers):
    """Its first enumerator fails when it hears of a completed checkpoint."""

    def restore_enumerator(self, context: Any, checkpoint: Any) -> NumbersEnumerator:
        kind = NumbersEnumerator if self.enumerators else FailingEnumerator
        self.enumerators.append(kind(context, checkpoint, self.lasting))
        return self.enumerators[-1]


def test_an_enumerator_that_fails_at_the_last_checkpoint_fails_a_job_that_has_committed() -> None:
    job = Job(FailsAtTheEnd((0, 5)), interval=60_000).run()
    assert "notify_checkpoint_complete of its enumerator failed: ValueError('cannot release the splits')" in str(job.error)
    assert job.sink.commits == [(1, ["0", "1", "2", "3", "4"])]


def test_a_job_whose_enumerator_failed_at_the_last_checkpoint_ends_from_it() -> None:
    job = Job(FailsAtTheEnd((0, 5)), interval=60_000, restart=FixedDelay(attempts=1, delay=1_000)).run(JobStatus.FINISHED)
    # The checkpoint is committed again, as after each restart; nothing is read again.
    assert job.sink.commits == [(1, ["0", "1", "2", "3", "4"]), (1, ["0", "1", "2", "3", "4"]), (2, [])]
    assert job.results == [0, 1, 2, 3, 4]
