"""What can happen in a test, as data: steps that harnesses play, made by hand or by `flinkish.testing.strategies`.

`JobHarness.play` plays steps on a whole job, on either engine; `OneInputHarness.play` and `TwoInputHarness.play` on operators.
A step that a harness cannot play is refused by it with InvalidArgumentError.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from flinkish.runtime.faults import Point

#: Name of the source of steps that name none.
SOURCE = "source"


class CrashPoint(Enum):
    """Where the process of a job's driver can be made to die; the value is the point of `flinkish.runtime.faults`.

    The first seven are those of one checkpoint, in their order.
    """

    #: A checkpoint has begun; no task has heard of it.
    BEFORE_SNAPSHOT = Point.CHECKPOINT_BEGUN
    #: At least one task has written its state; nothing is acknowledged.
    AFTER_SNAPSHOT = Point.STATE_WRITTEN
    #: All tasks have acknowledged; nothing of the checkpoint is stored as such.
    BEFORE_COMMIT = Point.ALL_ACKNOWLEDGED
    #: The checkpoint's list of files is written, but it is not committed: it does not count.
    DURING_COMMIT = Point.MANIFEST_WRITTEN
    #: The checkpoint counts; nobody has learned of it, sinks have committed nothing of it.
    AFTER_COMMIT = Point.CHECKPOINT_COMMITTED
    #: The same a moment later: sinks are about to commit.
    BEFORE_SINK_COMMIT = Point.SINKS_TO_COMMIT
    #: Sinks have committed what the checkpoint holds; that is not noted anywhere.
    AFTER_SINK_COMMIT = Point.SINKS_COMMITTED
    #: The job is started anew, from the last checkpoint, and dies again before it has restored anything.
    DURING_RESTORE = Point.RESTORING


@dataclass(frozen=True, slots=True)
class Emit:
    """A record comes, with its event time in milliseconds; None: without one."""

    value: Any
    timestamp: int | None = None
    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class EmitWatermark:
    """A source says that no record with event time <= `timestamp` (milliseconds) is to come."""

    timestamp: int
    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class MarkIdle:
    """A source says that nothing is to be expected for now, so that it holds back no watermark."""

    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class MarkActive:
    """A source that was idle holds back watermarks again."""

    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """A source gives nothing more until so many milliseconds of processing time have passed; whole jobs only."""

    milliseconds: int
    source: str = SOURCE


@dataclass(frozen=True, slots=True)
class Fail:
    """Reading the source raises an error in its task, once; the job's restart strategy decides what follows. Whole jobs only."""

    message: str = "the script says so"
    source: str = SOURCE
    split: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """A source, or one split of it, has come to its end."""

    source: str = SOURCE
    split: int | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """Processing time goes on by so many milliseconds; what is due in between happens at its time."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class Settle:
    """All that came so far is handled before what follows."""


@dataclass(frozen=True, slots=True)
class TakeCheckpoint:
    """A checkpoint is taken, and completes."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The driver's process dies, now or at a point of the checkpoint that it takes; the job goes on from its last checkpoint.

    Whole jobs only.
    """

    at: CrashPoint | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    """Everything is stopped and started anew, perhaps at another parallelism.

    A job goes on from its last checkpoint, an operator from one that is taken for it.
    """

    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class LoseHeap:
    """The processes of the tasks die and are replaced; operators only."""


#: What comes in at an input of an operator.
InputStep = Emit | EmitWatermark | MarkIdle | MarkActive | End
#: What a source does.
SourceStep = InputStep | Pause | Fail
Step = SourceStep | Advance | Settle | TakeCheckpoint | Crash | Restart | LoseHeap
