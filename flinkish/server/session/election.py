"""Decides which Dispatcher leads. The leader writes a record to the session's folder again and again.

Clocks of two machines are never compared. A Dispatcher that waits takes over when it has seen the same record for the length of
the lease by its own clock; a leader that could not write for that long by its own clock stops before. Whoever takes over claims
the registry, which fences the earlier leader even if it has not noticed.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkish.server.session.wire import LeaderRecord


class Watch:
    """What a waiting Dispatcher has seen of the leader; times are monotonic milliseconds."""

    def __init__(self, lease: int, host: str, is_alive: Callable[[int, float], bool]) -> None:
        """Watch with a lease; `is_alive` tells whether a process of this host, with its start time, lives."""
        self._lease = lease
        self._host = host
        self._is_alive = is_alive
        self._seen: tuple[int, int] | None = None
        self._since = 0

    def is_free(self, record: LeaderRecord | None, now: int) -> bool:
        """Tell whether nobody leads any more."""
        if record is None or record.ended:
            return True
        if record.host == self._host and not self._is_alive(record.pid, record.created):
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
        """Tell whether the record is to be written again."""
        return now - self._renewed >= self._lease // 5

    def renewed(self, began: int) -> None:
        """Note a write that was begun at this time and has succeeded."""
        self._renewed = began

    def is_lost(self, now: int) -> bool:
        """Tell whether another Dispatcher may lead already."""
        return now - self._renewed >= self._lease
