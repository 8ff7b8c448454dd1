"""A cache of recent answers, used only while many clients send requests.

Pages request the same paths every few seconds. Under load, one view of a job serves all of them, as in Flink, where answers are
up to web.refresh-interval old. Unlike in Flink, a few clients always get a new answer.
"""

from __future__ import annotations

from collections import OrderedDict

from flinkish.common.clock import Clock

#: Requests per second from which on the cache is used: as many as 25 pages send.
BUSY = 50
#: Maximum age of an answer from the cache, in milliseconds; it is also limited by web.refresh-interval.
_OLDEST = 1_000
#: Maximum number of answers in the cache, and of bytes in one of them.
_MOST, _LONGEST = 256, 262_144


class RecentAnswers:
    """Recent answers by path and query; used by one thread only."""

    def __init__(self, clock: Clock, refresh_interval: int) -> None:
        self._clock = clock
        self._oldest = min(_OLDEST, refresh_interval)
        self._kept: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._second = 0
        #: Requests in this second, and in the one before.
        self._now = self._before = 0

    def find(self, target: str) -> bytes | None:
        """Return a recent answer; None if there is none, or if there are few requests. Counts the request."""
        now = self._clock.monotonic()
        second = now // 1_000
        if second != self._second:
            self._before = self._now if second == self._second + 1 else 0
            self._second, self._now = second, 0
        self._now += 1
        if max(self._before, self._now) < BUSY:
            return None
        at, content = self._kept.get(target, (now - self._oldest, b""))
        return content if now - at < self._oldest else None

    def keep(self, target: str, content: bytes) -> None:
        """Add an answer to the cache, unless it is too long."""
        if len(content) <= _LONGEST:
            self._kept[target] = self._clock.monotonic(), content
            self._kept.move_to_end(target)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Clear the cache, because a request may have changed something."""
        self._kept.clear()
