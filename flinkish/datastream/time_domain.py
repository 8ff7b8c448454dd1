"""Which clock a timer goes by."""

from __future__ import annotations

from enum import Enum


class TimeDomain(Enum):
    """Whether a timer that fires was set in event time or in processing time."""

    #: Time of the records, as told by their timestamps and the watermarks.
    EVENT_TIME = 0
    #: Time of the machine that runs the job.
    PROCESSING_TIME = 1
