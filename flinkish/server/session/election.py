"""Decides which Dispatcher leads. The leader regularly writes a record to the session's folder.

Clocks of two machines are never compared. A waiting Dispatcher takes over when it has seen the same record for longer than the
lease by its own clock; a leader that could not write for the length of the lease by its own clock stops leading. The new leader
claims the registry, which fences the earlier leader even if that has not noticed the change.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkish.server.session import process_location
from flinkish.server.session.driver_protocol import LeaderRecord


class Watch:
    """A waiting Dispatcher's view of the leader; times are monotonic milliseconds."""

    def __init__(self, lease: int, host: str, is_alive: Callable[[int, float], bool]) -> None:
        """Watch the leader from the location `host`; `is_alive` tells by id and start time whether a process of it runs."""
        self._lease = lease
        self._host = host
        self._is_alive = is_alive
        self._seen: tuple[int, int] | None = None
        self._since = 0

    def is_free(self, record: LeaderRecord | None, now: int) -> bool:
        """Return whether there is no leader any more, so that this Dispatcher may take over."""
        if record is None or record.ended:
            return True
        if process_location.is_alive(record.host, self._host, lambda: self._is_alive(record.pid, record.created)) is False:
            return True
        seen = (record.generation, record.beat)
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since > self._lease


class Lease:
    """The leader's own view of its lease; times are monotonic milliseconds."""

    def __init__(self, lease: int, now: int) -> None:
        self._lease = lease
        self._renewed = now

    def is_due(self, now: int) -> bool:
        """Return whether it is time to write the record again."""
        return now - self._renewed >= self._lease // 5

    def renewed(self, began: int) -> None:
        """Record a successful write that began at this time."""
        self._renewed = began

    def is_lost(self, now: int) -> bool:
        """Return whether the lease has expired, so that another Dispatcher may already lead."""
        return now - self._renewed >= self._lease
