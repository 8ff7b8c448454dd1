"""Classes of windows, their serializers, and checks of their sizes."""

from __future__ import annotations

import functools
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.limits import LONG_MAX
from flinkish.common.serializer import TypeSerializer
from flinkish.common.time import Time, milliseconds_of

if TYPE_CHECKING:
    from flinkish.metrics import MetricGroup
    from flinkish.udf.window.assigners import MergingWindowAssigner

__all__ = [
    "CountWindow",
    "CountWindowSerializer",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "TimeWindow",
    "TimeWindowSerializer",
    "Window",
]


class Window(ABC):
    """A group of records. Equal windows are the same window, so windows must be hashable."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp (ms) that belongs to the window; 2**63 - 1 if the window has no end."""


@functools.total_ordering
class TimeWindow(Window):
    """The records from `start` (inclusive) to `end` (exclusive), in milliseconds.

    >>> TimeWindow(0, 10).max_timestamp()
    9
    >>> TimeWindow(0, 10).cover(TimeWindow(10, 15))
    TimeWindow(start=0, end=15)
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that covers both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window with this timestamp; windows begin at multiples of the size plus the offset (all ms)."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Call the callback for each group of windows that overlap or touch, with the window that covers the group."""
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(set(windows)):
            if groups and groups[-1][0].intersects(window):
                cover, covered = groups[-1]
                covered.append(window)
                groups[-1] = cover.cover(window), covered
            else:
                groups.append((window, [window]))
        for cover, covered in groups:
            if len(covered) > 1:
                callback.merge(covered, cover)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and (self.start, self.end) == (other.start, other.end)

    def __lt__(self, other: TimeWindow) -> bool:
        if not isinstance(other, TimeWindow):
            raise InvalidArgumentError(f"a TimeWindow can only be compared with another one; got {other!r}.")
        return (self.start, self.end) < (other.start, other.end)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """A window of a number of records; its `id` is unique for the key."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        return LONG_MAX

    def __hash__(self) -> int:
        return hash((CountWindow, self.id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The only window of GlobalWindows, which contains all records of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return LONG_MAX

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __repr__(self) -> str:
        return "GlobalWindow"


class OperatorTimes(ABC):
    """Times and metrics of a window operator, for triggers and evictors."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Return the operator's metrics."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the operator's watermark in milliseconds; -2**63 before the first."""


_TIME_WINDOW = struct.Struct(">qq")
_COUNT_WINDOW = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Writes start and end as 64-bit big-endian integers."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TIME_WINDOW.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TIME_WINDOW.unpack(stream.read(_TIME_WINDOW.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Writes the id as a 64-bit big-endian integer."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_COUNT_WINDOW.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(_COUNT_WINDOW.unpack(stream.read(_COUNT_WINDOW.size))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Writes one byte."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow()


def size_in_ms(time: object, argument: str, method: str) -> int:
    """Return a size in milliseconds; raise InvalidArgumentError unless it is a Time or timedelta."""
    return milliseconds_of(time, f"{argument} of {method}()", kinds=(Time,), hint="for example Time.seconds(5).")


def sizes_in_ms(method: str, **times: Time | timedelta | None) -> list[int]:
    """Return sizes in milliseconds; an `offset` of None is 0."""
    return [0 if name == "offset" and time is None else size_in_ms(time, name, method) for name, time in times.items()]
