"""The closed list of reasons why a checkpoint did not complete; for each, whether it counts as a failure.

Sources: Flink's CheckpointFailureReason (the list) and CheckpointFailureManager (which ones count).
"""

from __future__ import annotations

from enum import Enum


class FailureReason(Enum):
    """A reason, as (sentence for the user, whether it counts against the tolerable number of failures)."""

    # before any task was involved
    TOO_MANY_REQUESTS = ("too many checkpoint requests are waiting already", False)
    TASKS_NOT_RUNNING = ("not all tasks of the job are running", False)
    TRIGGERING_STOPPED = ("checkpoints are not triggered any more, the job is ending", False)
    IO_ERROR = ("the place for the checkpoint could not be prepared", True)
    # while it was pending
    EXPIRED = ("the checkpoint did not complete within its timeout", True)
    DECLINED = ("a task declined the checkpoint", True)
    SNAPSHOT_FAILED = ("a task failed to write its part of the checkpoint", True)
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
