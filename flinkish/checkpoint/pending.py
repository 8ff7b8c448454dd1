"""Checkpoints in progress: who has acknowledged, the parts collected so far, and committables that none contains yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from flinkish.checkpoint.manifest import CheckpointKind, Committable, CoordinatorState
from flinkish.checkpoint.statistics import SubtaskRecord
from flinkish.checkpoint.storage import CheckpointLocation
from flinkish.common.ids import CheckpointId
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import Acknowledgement, CheckpointPart, StateFile

#: Number of checkpoints whose repeated messages are recognized.
_REMEMBERED = 100


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


@dataclass(slots=True, kw_only=True)
class PendingCheckpoint:
    """Collects the parts of a checkpoint, which is complete when every subtask and the driver have delivered theirs.

    `trigger_time` is milliseconds since the epoch, `started` and `deadline` are monotonic milliseconds.
    """

    checkpoint_id: CheckpointId
    #: The sequence of the request that it fulfils.
    request: int
    kind: CheckpointKind
    location: CheckpointLocation
    trigger_time: int
    started: int
    deadline: int
    expected: frozenset[Subtask]
    #: Prepared folder that a savepoint which stops the job is copied to.
    export: str | None = None
    drain: bool = False
    #: The driver's part.
    coordinator_state: CoordinatorState | None = None
    #: Statistics of the subtasks that have acknowledged, in the order of the acknowledgements.
    records: tuple[SubtaskRecord, ...] = ()
    _files: dict[Subtask, tuple[StateFile, ...]] = field(default_factory=dict)

    def acknowledge(self, ack: Acknowledgement, now: int) -> AckResult:
        """Take the part of one subtask, which arrived at `now`, in milliseconds since the epoch."""
        subtask = Subtask(ack.vertex, ack.subtask)
        if subtask not in self.expected:
            return AckResult.UNKNOWN
        if subtask in self._files:
            return AckResult.DUPLICATE
        self._files[subtask] = ack.files
        record = SubtaskRecord(
            vertex=ack.vertex,
            subtask=ack.subtask,
            acknowledged_at=now,
            state_size=sum(file.size for file in ack.files),
            checkpointed_size=sum(file.size for file in ack.files if file.checkpoint_id == self.checkpoint_id),
            alignment_ms=ack.alignment_ms,
            snapshot_ms=ack.snapshot_ms,
            upload_ms=ack.upload_ms,
        )
        self.records = (*self.records, record)
        return AckResult.SUCCESS

    def set_coordinator_state(self, state: CoordinatorState) -> bool:
        """Take the driver's part; False if it was taken before."""
        if self.coordinator_state is not None:
            return False
        self.coordinator_state = state
        return True

    @property
    def is_complete(self) -> bool:
        """Whether all parts have been delivered."""
        return self.coordinator_state is not None and not self.missing

    @property
    def missing(self) -> frozenset[Subtask]:
        """The subtasks that have not acknowledged yet."""
        return self.expected - self._files.keys()

    @property
    def files(self) -> tuple[StateFile, ...]:
        """State files acknowledged so far, sorted by vertex and subtask, so that the order of arrival does not matter."""
        return tuple(file for _, files in sorted(self._files.items()) for file in files)


class Uncommitted:
    """The committables of one attempt that no completed recovery point contains yet.

    A writer drops committables after it has prepared them, even if the checkpoint is then aborted or is a savepoint. So they are
    kept here and go into the next recovery point that completes, each of them once.
    """

    def __init__(self) -> None:
        #: By the checkpoint and subtask that delivered them.
        self._kept: dict[tuple[CheckpointId, Subtask], tuple[Committable, ...]] = {}
        #: The messages whose committables were taken: a repeated one must not add them again.
        self._seen: set[tuple[CheckpointId, Subtask]] = set()

    def clear(self) -> None:
        """Remove everything, because a new attempt begins."""
        self._kept.clear()
        self._seen.clear()

    def take(self, message: CheckpointPart, subtask: Subtask) -> None:
        """Keep the committables of a message, unless they were taken before."""
        key = (message.checkpoint_id, subtask)
        if key in self._seen:
            return
        self._seen.add(key)
        committables = tuple(
            Committable(operator_uid=uid, subtask=message.subtask, data=data)
            for uid, many in message.committables.items()
            for data in many
        )
        if committables:
            self._kept[key] = committables

    def up_to(self, checkpoint_id: CheckpointId | None = None) -> tuple[Committable, ...]:
        """Return the committables of checkpoints up to this one (None = of all), in the order of checkpoints and subtasks."""
        return tuple(
            committable
            for key in sorted(self._kept)
            if checkpoint_id is None or key[0] <= checkpoint_id
            for committable in self._kept[key]
        )

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """Remove the committables that a completed recovery point contains."""
        self._kept = {key: committables for key, committables in self._kept.items() if key[0] > checkpoint_id}
        self._seen = {key for key in self._seen if key[0] > checkpoint_id - _REMEMBERED}
