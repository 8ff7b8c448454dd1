"""Decides when a job is done: its input has ended, or it was stopped, and everything is committed.

The parts of the attempt report events here (subtasks that finished, completed checkpoints); nothing in this module acts.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.pending import Subtask
from flinkish.common.clock import Clock
from flinkish.common.ids import CheckpointId
from flinkish.jobmaster import program_parts
from flinkish.jobmaster.setup import JobSetup
from flinkish.runtime.protocol import EpochReport

#: Pause before the final checkpoint of a job whose input has ended is retried.
_FINAL_RETRY_MS = 1_000


class EndOfJob:
    """The way of one attempt to the end of the job."""

    def __init__(self, setup: JobSetup, clock: Clock) -> None:
        self._checkpointing = setup.checkpointing
        self._clock = clock
        graph = setup.plan.job_graph
        #: All subtasks of the job.
        self.subtasks = tuple(
            Subtask(vertex.id, subtask) for vertex in graph.vertices.values() for subtask in range(vertex.parallelism)
        )
        self._listens = program_parts.listens_to_checkpoints(graph)
        #: The subtasks that have finished.
        self.finished: set[Subtask] = set()
        #: Whether an object in the tasks has its own close().
        self._closes = False
        #: When to trigger the final checkpoint; None = the input has not ended.
        self.final_due: int | None = None
        #: The checkpoints whose barriers came after all input had ended.
        self._final: set[CheckpointId] = set()
        #: Whether the checkpoint with which the job ends is complete.
        self.last_checkpoint_complete = False
        #: Whether only the farewell epoch is left.
        self.farewell = False

    @property
    def input_ended(self) -> bool:
        return len(self.finished) == len(self.subtasks)

    def final_checkpoint_due(self) -> bool:
        """Return whether to trigger the final checkpoint now; if so, it is due again after a pause, in case it fails."""
        now = self._clock.monotonic()
        if self.final_due is None or now < self.final_due:
            return False
        self.final_due = now + _FINAL_RETRY_MS
        return True

    def take(self, reports: Iterable[EpochReport]) -> None:
        """Note which subtasks have finished."""
        self._closes = False
        for report in reports:
            self._closes = self._closes or report.closes
            self.finished.update(Subtask(each.vertex, each.subtask) for each in report.metrics if each.finished)

    def barrier_passed(self, checkpoint_id: CheckpointId) -> None:
        """Note that a barrier has passed all tasks, after the reports of its epoch.

        The barrier of a checkpoint in the epoch in which the last input ended follows that end, so it is the final one.
        """
        if self.input_ended:
            self._final.add(checkpoint_id)

    def checkpoint_completed(self, checkpoint_id: CheckpointId, kind: CheckpointKind) -> None:
        """Note a completed checkpoint, perhaps some epochs after its barrier."""
        if kind is CheckpointKind.STOP_SAVEPOINT or checkpoint_id in self._final:
            self.last_checkpoint_complete = True

    def stop_failed(self) -> None:
        """Continue after the checkpoint that was just completed, unless the input has ended."""
        self.last_checkpoint_complete = self.input_ended

    def after_epoch(self) -> bool:
        """Return whether to finish the job after an epoch; if not, the next epochs follow, of which the farewell is the last.

        In the farewell epoch, functions are notified of the last checkpoint and closed. It takes 0.2 s on Spark, so it runs only
        if a function needs it.
        """
        if self.farewell:
            return True
        if self.last_checkpoint_complete:
            self.farewell = self._listens or self._closes
        elif self.input_ended and not self._checkpointing:
            self.farewell = self._closes
        else:
            if self.input_ended and self.final_due is None:
                self.final_due = self._clock.monotonic()
            return False
        return not self.farewell
