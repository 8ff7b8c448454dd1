"""Decides what the failure of a checkpoint means for the job.

| what failed                                    | counts as a failure               | fails the job                    |
|------------------------------------------------|-----------------------------------|----------------------------------|
| reason that does not count (failure_reason.py) | no                                | only one that stops it, drained  |
| older than the last completed checkpoint       | no                                | no                               |
| an id that was counted before                  | no                                | no                               |
| savepoint, on the driver                       | no                                | only one that stops it, drained  |
| anything else                                  | yes                               | when more than tolerable in a row|

A completed checkpoint resets the count to 0. Source: Flink's CheckpointFailureManager. In Flink, any failed savepoint that was to
stop the job restarts it, because the tasks wait at the barrier. Here tasks continue, but ended (drained) input needs a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkish.checkpoint.failure_reason import FailureReason
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.common.ids import CheckpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed checkpoint, or a failed attempt to start one (which has no id)."""

    checkpoint_id: CheckpointId | None
    kind: CheckpointKind
    reason: FailureReason
    #: Whether a task reported it, rather than the driver.
    on_task: bool
    #: Whether the input was ended for this checkpoint.
    drained: bool = False
    detail: str = ""


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
#: Reasons for refusing a request before any task knew of it, so that the job was not affected.
_NEVER_STARTED = frozenset({FailureReason.TOO_MANY_REQUESTS, FailureReason.TASKS_NOT_RUNNING, FailureReason.TRIGGERING_STOPPED})


class CheckpointFailureManager:
    """Counts failed checkpoints in a row, and decides what a failure means."""

    def __init__(self, tolerable: int) -> None:
        """Create a manager that accepts `tolerable` failures in a row; -1 = no limit."""
        self._tolerable = tolerable
        self._failures = 0
        self._counted: set[CheckpointId] = set()
        self._last_success = CheckpointId(0)

    @property
    def failures(self) -> int:
        """The number of failures since the last completed checkpoint."""
        return self._failures

    def succeeded(self, checkpoint_id: CheckpointId) -> None:
        """Reset the count, because a checkpoint has completed."""
        if checkpoint_id > self._last_success:
            self._last_success = checkpoint_id
            self._failures = 0
            self._counted = {counted for counted in self._counted if counted > checkpoint_id}

    def restarted(self) -> None:
        """Reset the count, because the job was restarted."""
        self._failures = 0
        self._counted.clear()

    def failed(self, failure: Failure) -> Verdict:
        """Record a failure and decide what it means."""
        if failure.drained and failure.checkpoint_id is not None and failure.reason not in _JOB_IS_GOING | _NEVER_STARTED:
            # The sources have ended, so only a restart can start them again.
            return FailJob(f"The savepoint with which the job was to stop failed: {_describe(failure)}")
        if not failure.reason.counts or (failure.kind.is_savepoint and not failure.on_task):
            return Ignore()
        if failure.checkpoint_id is not None:
            if failure.checkpoint_id <= self._last_success or failure.checkpoint_id in self._counted:
                return Ignore()
            self._counted.add(failure.checkpoint_id)
        self._failures += 1
        if self._tolerable < 0 or self._failures <= self._tolerable:
            return Tolerate(self._failures)
        return FailJob(
            f"{self._failures} checkpoints in a row have failed, "
            f"execution.checkpointing.tolerable-failed-checkpoints is {self._tolerable}; the last: {_describe(failure)}"
        )


def _describe(failure: Failure) -> str:
    name = "a checkpoint" if failure.checkpoint_id is None else f"{failure.kind.value} checkpoint {failure.checkpoint_id}"
    return f"{name}: {failure.reason.sentence}{f' ({failure.detail})' if failure.detail else ''}"
