"""RuntimeExecutionMode: whether a job processes its input as a stream or as one bounded batch."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """Whether a job emits results continuously, or once at the end of its bounded input."""

    #: Results are updated with every record; for bounded and unbounded input.
    STREAMING = 0
    #: Only the final results of each key are emitted; for bounded input only.
    BATCH = 1
    #: BATCH if all sources are bounded, else STREAMING.
    AUTOMATIC = 2
