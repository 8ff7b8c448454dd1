"""What becomes of checkpoints when the job ends."""

from __future__ import annotations

from enum import Enum


class ExternalizedCheckpointRetention(Enum):
    """What becomes of the last checkpoints of a job."""

    #: Removed when the job is cancelled, kept when it fails.
    DELETE_ON_CANCELLATION = 0
    #: Kept when the job is cancelled or fails; removing them is up to you.
    RETAIN_ON_CANCELLATION = 1
    #: Removed when the job ends in any way.
    NO_EXTERNALIZED_CHECKPOINTS = 2
