"""The timers of a keyed operator in both time domains, as the runtime uses them."""

from __future__ import annotations

from typing import Any

from flinkish.runtime.state.backend import Fire, Look, TimerTable
from flinkish.runtime.state.tables import Namespaced, namespace_of


def _go_on(fired: int) -> None:
    pass


class InternalTimerService:
    """Registers, deletes and fires the timers of one keyed operator.

    Timestamps are milliseconds. A namespace of None is the void one.
    """

    __slots__ = ("_event_time", "_processing_time")

    def __init__(self, table: TimerTable) -> None:
        self._event_time = table.event_time
        self._processing_time = table.processing_time

    def register_event_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Register a timer that fires when the watermark reaches `timestamp`, or at the next watermark if it already has."""
        self._event_time.register(timestamp, key if namespace is None else Namespaced(key, namespace))

    def delete_event_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Remove the timer if there is such a one."""
        self._event_time.delete(timestamp, key if namespace is None else Namespaced(key, namespace))

    def register_processing_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Register a timer that fires when processing time reaches `timestamp`."""
        self._processing_time.register(timestamp, key if namespace is None else Namespaced(key, namespace))

    def delete_processing_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Remove the timer if there is such a one."""
        self._processing_time.delete(timestamp, key if namespace is None else Namespaced(key, namespace))

    def advance_watermark(self, timestamp: int, fire: Fire, look: Look = _go_on) -> None:
        """Fire all event-time timers up to `timestamp`, in time order, including those that are registered in the meantime."""
        self._event_time.advance(timestamp, fire, look)

    def advance_processing_time(self, timestamp: int, fire: Fire, look: Look = _go_on) -> None:
        """Fire all processing-time timers up to `timestamp`, in time order, including those registered in the meantime.

        Timers that are registered in the meantime for exactly `timestamp` wait for the next call.
        """
        self._processing_time.advance_clock(timestamp, fire, look)

    def next_processing_time(self) -> int | None:
        """Return when the earliest processing-time timer is due."""
        return self._processing_time.next()

    def num_event_time_timers(self) -> int:
        """Return the number of event-time timers."""
        return self._event_time.size

    def num_processing_time_timers(self) -> int:
        """Return the number of processing-time timers."""
        return self._processing_time.size

    def namespace_kinds(self) -> set[type]:
        """Return the classes of the namespaces of all timers; that of None for the void namespace."""
        queues = self._event_time, self._processing_time
        return {type(namespace_of(address)) for queue in queues for _, address in queue}

    def forget(self, *, logged: bool) -> None:
        """Drop all timers and their changes, as if there had never been any."""
        self._event_time.forget(logged=logged)
        self._processing_time.forget(logged=logged)
