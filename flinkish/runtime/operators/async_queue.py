"""The order in which results of asynchronous calls are emitted, together with the watermarks between them.

Used by the task's own thread only. A queue contains the calls and, as callables, the control elements that arrived between them;
`take_ready` returns those that may be emitted. Source: Flink's OrderedStreamElementQueue and UnorderedStreamElementQueue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Control = Callable[[], None]


class Call:
    """One call of an asynchronous function, for one record."""

    __slots__ = ("ended", "error", "results", "returned", "segment", "task", "timer", "timestamp", "value")

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
        #: Whether the call was returned to the task; used by the task's thread.
        self.returned = False
        self.segment: Any = None


class CallQueue(ABC):
    """The calls whose results have not been emitted yet."""

    def __init__(self) -> None:
        #: Number of calls in the queue.
        self.size = 0

    @abstractmethod
    def add(self, call: Call) -> None:
        """Add a call that is about to be made."""

    @abstractmethod
    def add_control(self, control: Control) -> None:
        """Add a control element; it is emitted after everything that was added before it, and before everything added later."""

    @abstractmethod
    def returned(self, call: Call) -> None:
        """Record that a call has an outcome."""

    @abstractmethod
    def take_ready(self) -> Iterator[Call | Control]:
        """Remove and return the elements that may be emitted."""


class OrderedQueue(CallQueue):
    """Emits results in the order of the records."""

    def __init__(self) -> None:
        super().__init__()
        self._items: deque[Call | Control] = deque()

    def add(self, call: Call) -> None:
        self._items.append(call)
        self.size += 1

    def add_control(self, control: Control) -> None:
        self._items.append(control)

    def returned(self, call: Call) -> None:
        call.returned = True

    def take_ready(self) -> Iterator[Call | Control]:
        items = self._items
        while items:
            item = items[0]
            if isinstance(item, Call):
                if not item.returned:
                    return
                self.size -= 1
            yield items.popleft()


class _Segment:
    """The calls between two control elements, and the second of the two elements."""

    __slots__ = ("control", "pending", "ready")

    def __init__(self) -> None:
        self.pending = 0
        self.ready: deque[Call] = deque()
        self.control: Control | None = None


class UnorderedQueue(CallQueue):
    """Emits results in the order of completion, but no result passes a control element."""

    def __init__(self) -> None:
        super().__init__()
        self._segments: deque[_Segment] = deque([_Segment()])

    def add(self, call: Call) -> None:
        call.segment = segment = self._segments[-1]
        segment.pending += 1
        self.size += 1

    def add_control(self, control: Control) -> None:
        self._segments[-1].control = control
        self._segments.append(_Segment())

    def returned(self, call: Call) -> None:
        segment: _Segment = call.segment
        segment.pending -= 1
        segment.ready.append(call)

    def take_ready(self) -> Iterator[Call | Control]:
        segments = self._segments
        while True:
            segment = segments[0]
            while segment.ready:
                self.size -= 1
                yield segment.ready.popleft()
            if segment.pending or segment.control is None:
                return
            segments.popleft()
            yield segment.control
