"""The driver's side of a source: its operations, for every kind of source.

All calls come from the thread that also calls begin_epoch and finish_epoch. The kinds are in enumerator_coordinator.py,
driver_coordinator.py and native_coordinator.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from flinkish.checkpoint.manifest import SourceState
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.runtime.protocol import ReaderCommand, ReaderReport


class SourceCoordinator(ABC):
    """The operations that the JobMaster needs from each source; some kinds need no action in some of them."""

    node: SourceNode

    @abstractmethod
    def start(self, restored: SourceState | None, *, trusted: bool = True) -> None:
        """Begin an attempt, from a checkpoint if there is one; `trusted` = our key signed it.

        Raises ForeignCheckpointError if the state in the checkpoint is not of this source.
        """

    def refresh(self) -> None:  # noqa: B027 - optional
        """Check for new input; called before each decision about an epoch."""

    @property
    @abstractmethod
    def input_ready(self) -> bool:
        """Whether an epoch would read records, or has news for a reader."""

    @property
    @abstractmethod
    def wants_poll(self) -> bool:
        """Whether a reader that had no records must be polled again."""

    def ends_within(self, credit: int) -> bool:
        """Whether the readers are known to reach the end of their input in an epoch in which each may read `credit` records."""
        return False

    @abstractmethod
    def commands(self, credit: int) -> dict[int, ReaderCommand]:
        """Return the commands of the readers for the epoch that begins, by subtask."""

    @abstractmethod
    def apply(self, subtask: int, report: ReaderReport) -> None:
        """Record the position of a reader after the epoch."""

    def after_epoch(self) -> None:  # noqa: B027 - optional
        """Answer the requests of the readers; called once all reports of the epoch are in."""

    def prepare_snapshot(self) -> None:  # noqa: B027 - optional
        """Learn that the epoch whose command is made ends with a checkpoint."""

    @abstractmethod
    def snapshot(self, checkpoint_id: int) -> SourceState:
        """Return the source's part of a checkpoint."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:  # noqa: B027 - optional
        """Notify the enumerator."""

    def close(self) -> None:  # noqa: B027 - optional
        """Release all resources."""
