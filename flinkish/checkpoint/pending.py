"""One checkpoint in progress: who has acknowledged it, what was collected."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from flinkish.checkpoint.failure_reason import FailureReason
from flinkish.checkpoint.manifest import CheckpointKind, CoordinatorState
from flinkish.checkpoint.storage import CheckpointLocation
from flinkish.common.ids import CheckpointId
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import Acknowledgement, StateFile


class Subtask(NamedTuple):
    """One parallel instance of a vertex; each must acknowledge each checkpoint."""

    vertex: VertexId
    subtask: int


class AckResult(Enum):
    """What became of an acknowledgement."""

    #: It was missing and is counted now.
    SUCCESS = "success"
    #: The subtask had acknowledged before; this one has no effect and the first one's files stay.
    DUPLICATE = "duplicate"
    #: No subtask of this job has that name; its files are discarded.
    UNKNOWN = "unknown"
    #: The checkpoint is not in progress any more; the files are discarded.
    DISCARDED = "discarded"


class PendingCheckpoint:
    """Collects the parts of a checkpoint. Complete when every subtask and the driver have given theirs, unless it was aborted.

    `trigger_time` is milliseconds since the epoch, `started` and `deadline` are monotonic milliseconds.
    """

    def __init__(
        self,
        *,
        checkpoint_id: CheckpointId,
        kind: CheckpointKind,
        location: CheckpointLocation,
        trigger_time: int,
        started: int,
        deadline: int,
        expected: Collection[Subtask],
        export: str | None = None,
        drain: bool = False,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.kind = kind
        self.location = location
        self.trigger_time = trigger_time
        self.started = started
        self.deadline = deadline
        #: Prepared folder that a savepoint which stops the job is copied to.
        self.export = export
        self.drain = drain
        self.expected = frozenset(expected)
        self.aborted: FailureReason | None = None
        self.coordinator_state: CoordinatorState | None = None
        self._acknowledgements: dict[Subtask, Acknowledgement] = {}

    def acknowledge(self, ack: Acknowledgement) -> AckResult:
        """Take the part of one subtask."""
        if self.aborted is not None:
            return AckResult.DISCARDED
        subtask = Subtask(ack.vertex, ack.subtask)
        if subtask not in self.expected:
            return AckResult.UNKNOWN
        if subtask in self._acknowledgements:
            return AckResult.DUPLICATE
        self._acknowledgements[subtask] = ack
        return AckResult.SUCCESS

    def set_coordinator_state(self, state: CoordinatorState) -> bool:
        """Take the driver's part; False if it was there already or the checkpoint was aborted."""
        if self.aborted is not None or self.coordinator_state is not None:
            return False
        self.coordinator_state = state
        return True

    def abort(self, reason: FailureReason) -> bool:
        """Give up; False if that was done before."""
        if self.aborted is not None:
            return False
        self.aborted = reason
        return True

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return self.aborted is None and self.coordinator_state is not None and not self.missing

    @property
    def missing(self) -> frozenset[Subtask]:
        """Subtasks that have not acknowledged."""
        return self.expected - self._acknowledgements.keys()

    @property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        """What came in, by vertex and subtask: the same whatever the order of arrival."""
        return tuple(self._acknowledgements[subtask] for subtask in sorted(self._acknowledgements))

    @property
    def files(self) -> tuple[StateFile, ...]:
        """State files acknowledged so far, in the order of the acknowledgements."""
        return tuple(file for ack in self.acknowledgements for file in ack.files)
