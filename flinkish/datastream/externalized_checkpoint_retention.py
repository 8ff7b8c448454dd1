"""ExternalizedCheckpointRetention: whether checkpoints are kept when the job ends."""

from __future__ import annotations

from enum import Enum


class ExternalizedCheckpointRetention(Enum):
    """Whether the last checkpoints of a job are kept when it ends."""

    #: Removed when the job is cancelled, kept when it fails.
    DELETE_ON_CANCELLATION = 0
    #: Kept when the job is cancelled or fails; you must remove them yourself.
    RETAIN_ON_CANCELLATION = 1
    #: Always removed when the job ends.
    NO_EXTERNALIZED_CHECKPOINTS = 2
