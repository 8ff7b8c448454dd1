"""What holds after a restore."""

from __future__ import annotations

from enum import Enum


class CheckpointingMode(Enum):
    """What the state of a restored job reflects."""

    #: Each record once.
    EXACTLY_ONCE = 0
    #: Each record at least once. As exact as EXACTLY_ONCE here, because aligning barriers costs nothing on Spark.
    AT_LEAST_ONCE = 1
