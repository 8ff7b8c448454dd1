"""CheckpointingMode: the guarantee for state after a restore."""

from __future__ import annotations

from enum import Enum


class CheckpointingMode(Enum):
    """Whether the state of a restored job reflects each record exactly once or at least once."""

    #: The state reflects each record exactly once.
    EXACTLY_ONCE = 0
    #: The state reflects each record at least once. Here it does so exactly once, too, as aligning barriers costs nothing on
    #: Spark.
    AT_LEAST_ONCE = 1
