"""Events of a test as data: steps that harnesses play, made by hand or by `flinkish.testing.strategies`.

`JobHarness.play` plays steps on a whole job, on either engine; `OneInputHarness.play` and `TwoInputHarness.play` on operators.
A harness raises InvalidArgumentError for a step that it cannot play.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from flinkish.runtime.faults import Point

#: Name of the source of steps that do not name one.
SOURCE = "source"


class CrashPoint(Enum):
    """Points at which a test can kill the driver process of a job; the values are points of `flinkish.runtime.faults`.

    The first seven are those of one checkpoint, in their order.
    """

    #: A checkpoint has begun; no task knows of it.
    BEFORE_SNAPSHOT = Point.CHECKPOINT_BEGUN
    #: At least one task has written its state; nothing is acknowledged.
    AFTER_SNAPSHOT = Point.STATE_WRITTEN
    #: All tasks have acknowledged; the checkpoint is not written yet.
    BEFORE_COMMIT = Point.ALL_ACKNOWLEDGED
    #: The checkpoint's list of files is written, but not committed: the checkpoint does not count.
    DURING_COMMIT = Point.MANIFEST_WRITTEN
    #: The checkpoint counts; nobody has been notified, and sinks have committed nothing of it.
    AFTER_COMMIT = Point.CHECKPOINT_COMMITTED
    #: The same a moment later: sinks are about to commit.
    BEFORE_SINK_COMMIT = Point.SINKS_TO_COMMIT
    #: Sinks have committed the data of the checkpoint; this is not recorded yet.
    AFTER_SINK_COMMIT = Point.SINKS_COMMITTED
    #: The job is restarted from the last checkpoint, and dies again before it has restored anything.
    DURING_RESTORE = Point.RESTORING


@dataclass(frozen=True, slots=True)
class Emit:
    """A source emits a record with its event time in milliseconds; None = no event time."""

    value: Any
    timestamp: int | None = None
    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class EmitWatermark:
    """A source emits a watermark: no records with event time <= `timestamp` (milliseconds) will follow."""

    timestamp: int
    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class MarkIdle:
    """A source becomes idle, so that it does not hold back watermarks."""

    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class MarkActive:
    """An idle source becomes active, so that it holds back watermarks again."""

    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """A source emits nothing until this many milliseconds of processing time have passed; only in whole jobs."""

    milliseconds: int
    source: str = SOURCE


@dataclass(frozen=True, slots=True)
class Fail:
    """The reader of a source raises an error once; the job's restart strategy decides what follows. Only in whole jobs."""

    message: str = "the script says so"
    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """A source, or one of its splits, ends."""

    source: str = SOURCE
    split: int | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """Processing time advances by this many milliseconds; timers in between fire at their times."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class Settle:
    """All earlier steps are processed before the next one."""


@dataclass(frozen=True, slots=True)
class TakeCheckpoint:
    """A checkpoint is taken and completes."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The driver process dies, now or at a point of the checkpoint that it takes; the job continues from its last checkpoint.

    Only in whole jobs.
    """

    at: CrashPoint | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    """Everything is stopped and started again, possibly with another parallelism.

    A job continues from its last checkpoint, an operator from a checkpoint that is taken for this purpose.
    """

    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class LoseHeap:
    """The processes of the tasks die and are replaced; only for operators."""


#: Steps of an operator's input.
InputStep = Emit | EmitWatermark | MarkIdle | MarkActive | End
#: Steps of a source.
SourceStep = InputStep | Pause | Fail
Step = SourceStep | Advance | Settle | TakeCheckpoint | Crash | Restart | LoseHeap
