"""Access to time and timers from within a keyed function."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Reads the time and manages timers of the current key; all times are milliseconds since 1970-01-01 UTC.

    A timer is identified by key and time: a timer that is registered twice fires once. Timers are part of checkpoints. On streams
    without keys the time can be read, but registering a timer raises an error.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time.

        Differs from Flink: the time does not change within an epoch, so that a repeated epoch gives the same results.
        """

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current event-time watermark; -2**63 before the first one, 2**63 - 1 once the input has ended."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer that calls `on_timer` when processing time reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer that calls `on_timer` when the watermark reaches `timestamp`, or at the next one if it already has."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Remove a processing-time timer; nothing happens if there is none at that time."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove an event-time timer; nothing happens if there is none at that time."""
