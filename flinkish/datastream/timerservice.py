"""Access to time and timers from within a keyed function."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Tells the time and keeps timers of the current key; all times are milliseconds since the epoch.

    A timer is identified by key and time: registering it twice fires it once. Timers are part of checkpoints. Outside a keyed
    stream the time can be read, but registering raises.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time.

        Differs from Flink: it stands still within one epoch, so that an epoch that is run again gives the same results.
        """

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current event-time watermark; -2**63 before the first one, 2**63 - 1 once the input has ended."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when processing time reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when the watermark reaches `timestamp`; with the next watermark if it already has."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Remove a processing-time timer; nothing happens if there is none at that time."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove an event-time timer; nothing happens if there is none at that time."""
