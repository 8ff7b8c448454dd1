"""How a job treats its input: as a stream, or as one bounded batch."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """Whether a job emits as it goes, or once at the end of its bounded input."""

    #: Results are updated with every record; for bounded and unbounded input.
    STREAMING = 0
    #: Each key gives its final results only; bounded input only.
    BATCH = 1
    #: BATCH if all sources are bounded, else STREAMING.
    AUTOMATIC = 2
