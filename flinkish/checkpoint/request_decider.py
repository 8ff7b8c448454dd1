"""Decides which checkpoint request may start now.

The decision depends on: the requests that wait, how many checkpoints are in progress, the time since the last completion, and the
settings. Rules of Flink's CheckpointRequestDecider:

- a savepoint goes before a forced checkpoint, that before one somebody asked for, that before a periodic one; then the oldest;
- a forced request (savepoints, the last checkpoint of a bounded job) starts whatever the limits say;
- others start only while fewer than max-concurrent are in progress, and periodic ones not before min-pause after the last
  completion;
- at most `max_queued` wait; beyond, the least important is dropped, a periodic one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.settings import CheckpointSettings

_FORCED = frozenset({CheckpointKind.SAVEPOINT, CheckpointKind.STOP_SAVEPOINT, CheckpointKind.FINAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Somebody, or the interval, wants a checkpoint. `sequence` names the request, `requested_at` is monotonic milliseconds."""

    sequence: int
    kind: CheckpointKind
    requested_at: int
    #: Folder below which a savepoint is wanted.
    target: str | None = None
    #: Sources are to end with it, as if their input had.
    drain: bool = False

    @property
    def forced(self) -> bool:
        """Whether it starts whatever the limits say."""
        return self.kind in _FORCED

    @property
    def _rank(self) -> tuple[bool, bool, bool, int, int]:
        periodic = self.kind is CheckpointKind.PERIODIC
        return (not self.kind.is_savepoint, not self.forced, periodic, self.requested_at, self.sequence)


@dataclass(frozen=True, slots=True)
class Admission:
    """The queue after a request has come in, most important first, and the one that had to go for it."""

    queue: tuple[Request, ...]
    dropped: Request | None


@dataclass(frozen=True, slots=True)
class Start:
    """Start this request now."""

    request: Request


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing may start now; ask again at that time (monotonic milliseconds), or when something has ended if None."""

    until: int | None


Decision = Start | Wait


def admit(queue: Sequence[Request], new: Request, settings: CheckpointSettings) -> Admission:
    """Put a request into the queue, and drop the least important one if that makes too many."""
    ordered = tuple(sorted((*queue, new), key=lambda request: request._rank))
    if len(ordered) <= settings.max_queued:
        return Admission(ordered, None)
    # several people may wait for one another's savepoints: the newest of the least important goes, never one that is ahead of it
    return Admission(ordered[:-1], ordered[-1])


def choose(
    queue: Sequence[Request], *, pending: int, now: int, last_completion: int | None, settings: CheckpointSettings
) -> Decision:
    """Choose from a queue that `admit` made. Times are monotonic milliseconds; `pending` counts checkpoints in progress."""
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
