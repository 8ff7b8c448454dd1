"""TimeDomain: the kind of time of a timer."""

from __future__ import annotations

from enum import Enum


class TimeDomain(Enum):
    """Whether a timer that fires is an event-time or a processing-time timer."""

    #: The time of the records, given by their timestamps and the watermarks.
    EVENT_TIME = 0
    #: The time of the machine that runs the job.
    PROCESSING_TIME = 1
