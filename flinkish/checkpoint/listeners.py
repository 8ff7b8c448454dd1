"""The listener of the checkpoint coordinator: the job."""

from __future__ import annotations

from typing import Protocol

from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CheckpointError
from flinkish.common.ids import CheckpointId


class CoordinatorListener(Protocol):
    """The job, as the coordinator sees it (jobmaster/checkpointing.py). No call is made while the coordinator's lock is held."""

    def checkpoint_completed(self, checkpoint: StoredCheckpoint) -> None:
        """Commit `checkpoint.manifest.committables` and notify the enumerators; the id is in `take_notifications()` by itself.

        Called once for each recovery point (not for a savepoint of a job that continues), in the order of ids, in the thread that
        delivered the last part. That thread's `receive_...` call raises the errors; the checkpoint stays completed.
        """

    def checkpoint_aborted(self, checkpoint_id: CheckpointId, reason: FailureReason, detail: str) -> None:
        """Learn that a checkpoint will not complete."""

    def stop_failed(self, checkpoint: StoredCheckpoint) -> str:
        """Learn, after `checkpoint_completed`, that the job does not stop with this checkpoint after all.

        The reason is that its savepoint could not be written. Returns a clause for the requester that says how the job continues.
        """

    def fail_job(self, error: CheckpointError) -> None:
        """Fail the attempt. A StaleGenerationError must end this driver process's work for good, without any restart."""

    def wake_up(self) -> None:
        """Check `next_trigger_time()` again, because a request has arrived from another thread."""
