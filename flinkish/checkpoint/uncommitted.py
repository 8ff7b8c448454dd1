"""The committables that writers have prepared, until a completed recovery point contains them."""

from __future__ import annotations

from flinkish.checkpoint.manifest import Committable
from flinkish.checkpoint.pending import Subtask
from flinkish.common.ids import CheckpointId
from flinkish.runtime.protocol import Acknowledgement, Decline

#: Number of checkpoints whose repeated messages are recognized.
_REMEMBERED = 100


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

    def take(self, message: Acknowledgement | Decline, subtask: Subtask) -> None:
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
