"""Answers that are given again for a moment while many clients ask.

Pages ask for the same paths each few seconds. As in Flink, where answers are up to web.refresh-interval old, one look at a job is
enough for all of them; unlike there, a few clients always get a new one.
"""

from __future__ import annotations

from collections import OrderedDict

from flinkish.common.clock import Clock

#: From how many requests a second on answers are given again: those of 25 pages.
BUSY = 50
#: Oldest answer that is given again, in milliseconds; at most web.refresh-interval.
_OLDEST = 1_000
#: Most answers that are kept, and the most bytes of one.
_MOST, _LONGEST = 256, 262_144


class RecentAnswers:
    """Answers by path and query; used by one thread."""

    def __init__(self, clock: Clock, refresh_interval: int) -> None:
        self._clock = clock
        self._oldest = min(_OLDEST, refresh_interval)
        self._kept: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._second = 0
        #: Requests in this second and the one before.
        self._now = self._before = 0

    def find(self, target: str) -> bytes | None:
        """Return an answer that was given a moment ago; None if it is too old, or few clients ask. Counts the request."""
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
        """Keep an answer."""
        if len(content) <= _LONGEST:
            self._kept[target] = self._clock.monotonic(), content
            self._kept.move_to_end(target)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Give no earlier answer again, because something was changed."""
        self._kept.clear()
