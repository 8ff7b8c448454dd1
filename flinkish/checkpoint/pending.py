"""One checkpoint in progress: which subtasks have acknowledged it, and the parts collected so far."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from flinkish.checkpoint.failure_reason import FailureReason
from flinkish.checkpoint.manifest import CheckpointKind, CoordinatorState
from flinkish.checkpoint.statistics import SubtaskRecord
from flinkish.checkpoint.storage import CheckpointLocation
from flinkish.common.ids import CheckpointId
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import Acknowledgement, StateFile


class Subtask(NamedTuple):
    """One parallel instance of a vertex; each must acknowledge each checkpoint."""

    vertex: VertexId
    subtask: int


class AckResult(Enum):
    """The result of an acknowledgement."""

    #: It was missing, and is now counted.
    SUCCESS = "success"
    #: The subtask had already acknowledged; this one has no effect, and the files of the first one are kept.
    DUPLICATE = "duplicate"
    #: The job does not have this subtask; the files are discarded.
    UNKNOWN = "unknown"
    #: The checkpoint is no longer in progress; the files are discarded.
    DISCARDED = "discarded"


class PendingCheckpoint:
    """Collects the parts of a checkpoint, which is complete when every subtask and the driver have delivered theirs.

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
        self._records: list[SubtaskRecord] = []

    def acknowledge(self, ack: Acknowledgement, now: int = -1) -> AckResult:
        """Take the part of one subtask, which arrived at `now`, in milliseconds since the epoch (-1: unknown)."""
        if self.aborted is not None:
            return AckResult.DISCARDED
        subtask = Subtask(ack.vertex, ack.subtask)
        if subtask not in self.expected:
            return AckResult.UNKNOWN
        if subtask in self._acknowledgements:
            return AckResult.DUPLICATE
        self._acknowledgements[subtask] = ack
        self._records.append(
            SubtaskRecord(
                vertex=ack.vertex,
                subtask=ack.subtask,
                acknowledged_at=now,
                state_size=sum(file.size for file in ack.files),
                alignment_ms=ack.alignment_ms,
                snapshot_ms=ack.snapshot_ms,
            )
        )
        return AckResult.SUCCESS

    def set_coordinator_state(self, state: CoordinatorState) -> bool:
        """Take the driver's part; False if it was taken before or the checkpoint was aborted."""
        if self.aborted is not None or self.coordinator_state is not None:
            return False
        self.coordinator_state = state
        return True

    def abort(self, reason: FailureReason) -> bool:
        """Mark as aborted; False if it was aborted before."""
        if self.aborted is not None:
            return False
        self.aborted = reason
        return True

    @property
    def is_complete(self) -> bool:
        """Whether all parts have been delivered."""
        return self.aborted is None and self.coordinator_state is not None and not self.missing

    @property
    def missing(self) -> frozenset[Subtask]:
        """The subtasks that have not acknowledged yet."""
        return self.expected - self._acknowledgements.keys()

    @property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        """The acknowledgements, sorted by vertex and subtask, so that the order of arrival does not matter."""
        return tuple(self._acknowledgements[subtask] for subtask in sorted(self._acknowledgements))

    @property
    def records(self) -> tuple[SubtaskRecord, ...]:
        """Statistics of the subtasks that have acknowledged, in the order of the acknowledgements."""
        return tuple(self._records)

    @property
    def files(self) -> tuple[StateFile, ...]:
        """State files acknowledged so far, in the order of the acknowledgements."""
        return tuple(file for ack in self.acknowledgements for file in ack.files)
