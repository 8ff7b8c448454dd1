"""The order in which results of asynchronous calls are emitted, together with the watermarks between them.

Used by the task's own thread only. A queue contains the calls and, as callables, the control elements that arrived between them;
`take_ready` returns those that may be emitted. Source: Flink's OrderedStreamElementQueue and UnorderedStreamElementQueue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Control = Callable[[], None]


class Call:
    """One call of an asynchronous function, for one record."""

    __slots__ = ("ended", "error", "results", "segment", "task", "timer", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        #: The outcome of the call; set by the loop's thread before it returns the call.
        self.results: Iterable[Any] = ()
        self.error: Exception | None = None
        #: Whether the call has an outcome; used by the loop's thread.
        self.ended = False
        self.task: Any = None
        self.timer: Any = None
        #: Its segment of the queue; used by the task's thread.
        self.segment: Any = None


class _Segment:
    """Calls whose results may be emitted in any order, and the control element after them, if there is one."""

    __slots__ = ("control", "pending", "ready")

    def __init__(self) -> None:
        self.pending = 0
        self.ready: deque[Call] = deque()
        self.control: Control | None = None


class CallQueue:
    """The calls whose results have not been emitted yet.

    Ordered: results are emitted in the order of the records. Otherwise in the order of completion, but no result passes a control
    element.
    """

    def __init__(self, *, ordered: bool) -> None:
        #: Number of calls in the queue.
        self.size = 0
        self._ordered = ordered
        self._segments: deque[_Segment] = deque([_Segment()])

    def add(self, call: Call) -> None:
        """Add a call that is about to be made."""
        call.segment = segment = self._segments[-1]
        segment.pending += 1
        self.size += 1
        if self._ordered:
            self._segments.append(_Segment())

    def add_control(self, control: Control) -> None:
        """Add a control element; it is emitted after everything that was added before it, and before everything added later."""
        self._segments[-1].control = control
        self._segments.append(_Segment())

    def returned(self, call: Call) -> None:
        """Record that a call has an outcome."""
        segment: _Segment = call.segment
        segment.pending -= 1
        segment.ready.append(call)

    def take_ready(self) -> Iterator[Call | Control]:
        """Remove and return the elements that may be emitted."""
        segments = self._segments
        while True:
            segment = segments[0]
            while segment.ready:
                self.size -= 1
                yield segment.ready.popleft()
            if segment.pending or len(segments) == 1:
                return
            segments.popleft()
            if segment.control is not None:
                yield segment.control
