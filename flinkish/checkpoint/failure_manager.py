"""Decides what the failure of a checkpoint means for the job.

| what failed                                    | counts as a failure               | fails the job                    |
|------------------------------------------------|-----------------------------------|----------------------------------|
| reason that does not count (FailureReason)     | no                                | only one that stops it, drained  |
| older than the last completed checkpoint       | no                                | no                               |
| savepoint: all but DECLINED, SNAPSHOT_FAILED   | no                                | only one that stops it, drained  |
| anything else                                  | yes                               | when more than tolerable in a row|

A completed checkpoint resets the count to 0. Source: Flink's CheckpointFailureManager. In Flink, any failed savepoint that was to
stop the job restarts it, because the tasks wait at the barrier. Here tasks continue, but ended (drained) input needs a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.common.ids import CheckpointId


class FailureReason(Enum):
    """Why a checkpoint did not complete, and whether that counts as a failure. Source: Flink's CheckpointFailureReason."""

    # before any task was involved
    TOO_MANY_REQUESTS = ("too many checkpoint requests are waiting already", False)
    TASKS_NOT_RUNNING = ("not all tasks of the job are running", False)
    TRIGGERING_STOPPED = ("checkpoints are not triggered any more, the job is ending", False)
    IO_ERROR = ("the place for the checkpoint could not be prepared", True)
    # while it was pending
    EXPIRED = ("the checkpoint did not complete within its timeout", True)
    DECLINED = ("a task declined the checkpoint", True)
    SNAPSHOT_FAILED = ("a task failed to write its part of the checkpoint", True)
    SNAPSHOT_LOST = ("the process of a task has ended while it wrote its part of the checkpoint", False)
    SUBSUMED = ("a later checkpoint completed first", False)
    # while it was written
    FINALIZE_FAILED = ("the checkpoint could not be committed to its storage", True)
    # caused by the job
    JOB_FAILED = ("the job failed over while the checkpoint was in progress", False)
    JOB_ENDED = ("the job ended while the checkpoint was in progress", False)
    SUPERSEDED_DRIVER = ("another driver process has taken over the job", False)

    def __init__(self, sentence: str, counts: bool) -> None:
        #: A clause about what happened, which follows "checkpoint 7: " in messages.
        self.sentence = sentence
        #: Whether it adds to the count that is compared with `execution.checkpointing.tolerable-failed-checkpoints`.
        self.counts = counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed checkpoint, or a failed attempt to start one (which has no id)."""

    checkpoint_id: CheckpointId | None
    kind: CheckpointKind
    reason: FailureReason
    #: Whether the input was ended for this checkpoint.
    drained: bool = False
    detail: str = ""

    @property
    def text(self) -> str:
        """A clause about what happened, which follows "checkpoint 7: " in messages."""
        return f"{self.reason.sentence} ({self.detail})" if self.detail else self.reason.sentence


@dataclass(frozen=True, slots=True)
class Ignore:
    """The job continues, and the failure is not counted."""


@dataclass(frozen=True, slots=True)
class Tolerate:
    """The job continues, after the given number of failures in a row."""

    failures: int


@dataclass(frozen=True, slots=True)
class FailJob:
    """The attempt must fail; `message` says why."""

    message: str


Verdict = Ignore | Tolerate | FailJob

#: Reasons for which a savepoint that was to stop the job may fail without failing the job: the job is ending or failing anyway.
_JOB_IS_GOING = frozenset({FailureReason.JOB_FAILED, FailureReason.JOB_ENDED, FailureReason.SUPERSEDED_DRIVER})
#: Reasons for which a savepoint counts, too: a part of it failed. All others concern its place, its time or its commit.
_OF_A_PART = frozenset({FailureReason.DECLINED, FailureReason.SNAPSHOT_FAILED})


class CheckpointFailureManager:
    """Counts failed checkpoints in a row, and decides what a failure means."""

    def __init__(self, tolerable: int) -> None:
        """Create a manager that accepts `tolerable` failures in a row; -1 = no limit."""
        self._tolerable = tolerable
        #: The number of failures since the last completed checkpoint.
        self._failures = 0
        self._last_success = CheckpointId(0)

    def succeeded(self, checkpoint_id: CheckpointId) -> None:
        """Reset the count, because a checkpoint has completed."""
        if checkpoint_id > self._last_success:
            self._last_success = checkpoint_id
            self._failures = 0

    def restarted(self) -> None:
        """Reset the count, because the job was restarted."""
        self._failures = 0

    def failed(self, failure: Failure) -> Verdict:
        """Record a failure and decide what it means; a checkpoint fails once, however many tasks fail it."""
        if failure.drained and failure.reason not in _JOB_IS_GOING:
            # The sources have ended, so only a restart can start them again.
            return FailJob(f"The savepoint with which the job was to stop failed: {_describe(failure)}")
        if not failure.reason.counts or (failure.kind.is_savepoint and failure.reason not in _OF_A_PART):
            return Ignore()
        if failure.checkpoint_id is not None and failure.checkpoint_id <= self._last_success:
            return Ignore()
        self._failures += 1
        if self._tolerable < 0 or self._failures <= self._tolerable:
            return Tolerate(self._failures)
        return FailJob(
            f"{self._failures} checkpoints in a row have failed, "
            f"execution.checkpointing.tolerable-failed-checkpoints is {self._tolerable}; the last: {_describe(failure)}"
        )


def _describe(failure: Failure) -> str:
    name = "a checkpoint" if failure.checkpoint_id is None else f"{failure.kind.value} checkpoint {failure.checkpoint_id}"
    return f"{name}: {failure.text}"
