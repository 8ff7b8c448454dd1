"""Decides which checkpoint request may start now.

The decision depends on the waiting requests, the number of checkpoints in progress, the time since the last completion, and the
settings. Source of the rules: Flink's CheckpointRequestDecider.

- the order is: savepoints, forced checkpoints, checkpoints requested by a user, periodic ones; among equals the oldest first;
- a forced request (a savepoint, or the final checkpoint of a bounded job) starts regardless of the limits;
- other requests start only while fewer than max-concurrent are in progress; periodic ones only after min-pause has passed since
  the last completion;
- at most `max_queued` requests wait; if there are more, the least important is dropped, a periodic one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.checkpoint.checkpoint_settings import CheckpointSettings
from flinkish.checkpoint.manifest import CheckpointKind

_FORCED = frozenset({CheckpointKind.SAVEPOINT, CheckpointKind.STOP_SAVEPOINT, CheckpointKind.FINAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of a user or of the interval; `sequence` identifies it, `requested_at` is in monotonic milliseconds."""

    sequence: int
    kind: CheckpointKind
    requested_at: int
    #: Folder below which the savepoint is to be written.
    target: str | None = None
    #: Whether sources end with it, as if their input had ended.
    drain: bool = False
    #: Whether it contains no files of earlier checkpoints, also if checkpoints are incremental.
    full: bool = False

    @property
    def forced(self) -> bool:
        """Whether it starts regardless of the limits."""
        return self.kind in _FORCED

    @property
    def _rank(self) -> tuple[bool, bool, bool, int, int]:
        periodic = self.kind is CheckpointKind.PERIODIC
        return (not self.kind.is_savepoint, not self.forced, periodic, self.requested_at, self.sequence)


@dataclass(frozen=True, slots=True)
class Admission:
    """The queue after a request has been added, most important first, and the request that was dropped for it."""

    queue: tuple[Request, ...]
    dropped: Request | None


@dataclass(frozen=True, slots=True)
class Start:
    """Start this request now."""

    request: Request


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing may start now; ask again at `until` (monotonic ms), or, if it is None, when a checkpoint has ended."""

    until: int | None


Decision = Start | Wait


def admit(queue: Sequence[Request], new: Request, settings: CheckpointSettings) -> Admission:
    """Add a request to the queue, and drop the least important one if there are too many."""
    ordered = tuple(sorted((*queue, new), key=lambda request: request._rank))
    if len(ordered) <= settings.max_queued:
        return Admission(ordered, None)
    # Drop the newest of the least important requests, so that a request never pushes out one that is ahead of it.
    return Admission(ordered[:-1], ordered[-1])


def choose(
    queue: Sequence[Request], *, pending: int, now: int, last_completion: int | None, settings: CheckpointSettings
) -> Decision:
    """Choose from a queue that `admit` returned. Times are monotonic ms; `pending` is the number of checkpoints in progress."""
    if not queue:
        return Wait(None)
    first = queue[0]
    if pending >= settings.effective_max_concurrent:
        forced = next((request for request in queue if request.forced), None)
        return Wait(None) if forced is None else Start(forced)
    if first.kind is CheckpointKind.PERIODIC and last_completion is not None:
        earliest = last_completion + settings.min_pause
        if now < earliest:
            return Wait(earliest)
    return Start(first)
