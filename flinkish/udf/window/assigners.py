"""Window assigners, which assign each record to windows. An assigner is pickled once, when the job is built."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, Generic, Self, TypeAlias, TypeVar

from flinkish.common.arguments import instance_of, int_of
from flinkish.common.errors import InvalidProgramError
from flinkish.common.limits import LONG_MIN
from flinkish.common.serializer import TypeSerializer
from flinkish.common.time import Time, milliseconds_of
from flinkish.common.typeinfo import Types
from flinkish.udf.functions import RuntimeContext
from flinkish.udf.state import ValueStateDescriptor
from flinkish.udf.window.triggers import CountTrigger, EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger, Trigger
from flinkish.udf.window.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    size_in_ms,
    sizes_in_ms,
)

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindows",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
]

T = TypeVar("T")
W = TypeVar("W", bound=Window)
W2 = TypeVar("W2", bound=Window)


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns records to windows."""

    class WindowAssignerContext(ABC):
        """Information for an assigner on time and runtime context."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in milliseconds."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the operator's runtime context; its state belongs to the key of the record."""

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> Collection[W]:
        """Return the windows of a record; `timestamp` is in milliseconds, -2**63 if the record has none."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Return the trigger to use if the program sets none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return the serializer of windows; it is used for all classes except TimeWindow, CountWindow and GlobalWindow."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether windows end, and are removed, by event time (True) or by processing time (False)."""


_Context: TypeAlias = WindowAssigner.WindowAssignerContext


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can be merged, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the decisions of `merge_windows`."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Merge the windows `to_be_merged` into `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Call the callback for each group of a key's windows to merge, with the window that results."""


class SessionWindowTimeGapExtractor(ABC):
    """Determines the gap of a session by its record."""

    @abstractmethod
    def extract(self, element: Any) -> int | Time | timedelta:
        """Return the session's gap, which must be positive: an int (milliseconds), a Time or a timedelta."""


class _CountAssigner(WindowAssigner[Any, CountWindow]):
    def __init__(self, window_size: int, counter: str) -> None:
        self._window_size = int_of(f"{type(self).__name__}()", window_size, minimum=1)
        self._count_descriptor = ValueStateDescriptor(f"_assigner.{counter}", Types.LONG())

    def _count(self, context: _Context) -> int:
        """Count a record of the current key, and return the number of records before it."""
        state = context.get_runtime_context().get_state(self._count_descriptor)
        count: int = state.value() or 0
        state.update(count + 1)
        return count

    def get_default_trigger(self, env: Any) -> Trigger[Any, CountWindow]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountAssigner):
    """Windows of `window_size` records of a key; an incomplete last window never fires."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, "tumble-count")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return an assigner of windows of `window_size` records. Raises an error unless it is an int of at least 1."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[CountWindow]:
        return [CountWindow(self._count(context) // self._window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountAssigner):
    """Windows of `window_size` records of a key; a new one begins every `window_slide` records.

    As in PyFlink, only full windows fire; in Java, the first windows also fire with fewer records.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, "slide-count")
        self._window_slide = int_of("CountSlidingWindowAssigner()", window_slide, minimum=1)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return an assigner of windows of `window_size` records, one for every `window_slide` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[CountWindow]:
        count = self._count(context)
        last = count // self._window_slide
        first = max(0, (count - self._window_size) // self._window_slide + 1)
        return [CountWindow(window) for window in range(last, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


class _TimeAssigner(WindowAssigner[Any, TimeWindow]):
    @abstractmethod
    def _time(self, timestamp: int, context: _Context) -> int:
        """Return the time in milliseconds by which a record is assigned to windows."""

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class _EventTimeAssigner(_TimeAssigner):
    def _time(self, timestamp: int, context: _Context) -> int:
        return timestamp

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeAssigner(_TimeAssigner):
    def _time(self, timestamp: int, context: _Context) -> int:
        return context.get_current_processing_time()

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class _TumblingWindows(_TimeAssigner):
    def __init__(self, size: int, offset: int) -> None:
        if size <= 0 or abs(offset) >= size:
            raise InvalidProgramError(
                f"{type(self).__name__} needs size > 0 and abs(offset) < size; got size {size} ms, offset {offset} ms."
            )
        self._size = size
        self._offset = offset

    @classmethod
    def of(cls, size: Time | timedelta, offset: Time | timedelta | None = None) -> Self:
        """Return an assigner of windows of this size, which begin at multiples of the size plus the offset."""
        return cls(*sizes_in_ms(f"{cls.__name__}.of", size=size, offset=offset))

    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        time = self._time(timestamp, context)
        if time == LONG_MIN:
            raise no_timestamp(self)
        start = time - (time - self._offset) % self._size
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._offset})"


class TumblingProcessingTimeWindows(_TumblingWindows, _ProcessingTimeAssigner):
    """Windows of a fixed size in processing time, without gaps or overlaps."""


class TumblingEventTimeWindows(_TumblingWindows, _EventTimeAssigner):
    """Windows of a fixed size in event time, without gaps or overlaps.

    >>> TumblingEventTimeWindows.of(Time.hours(1), Time.minutes(15))
    TumblingEventTimeWindows(3600000, 900000)
    """


class _SlidingWindows(_TimeAssigner):
    def __init__(self, size: int, slide: int, offset: int) -> None:
        if size <= 0 or abs(offset) >= slide:
            raise InvalidProgramError(
                f"{type(self).__name__} needs size > 0 and abs(offset) < slide; "
                f"got size {size} ms, slide {slide} ms, offset {offset} ms."
            )
        self._size = size
        self._slide = slide
        self._offset = offset
        self._pane_size = math.gcd(size, slide)

    @classmethod
    def of(cls, size: Time | timedelta, slide: Time | timedelta, offset: Time | timedelta | None = None) -> Self:
        """Return an assigner of windows of a size, which begin at multiples of the slide plus the offset."""
        return cls(*sizes_in_ms(f"{cls.__name__}.of", size=size, slide=slide, offset=offset))

    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        time = self._time(timestamp, context)
        if time == LONG_MIN:
            raise no_timestamp(self)
        last = time - (time - self._offset) % self._slide
        return [TimeWindow(start, start + self._size) for start in range(last, time - self._size, -self._slide)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class SlidingProcessingTimeWindows(_SlidingWindows, _ProcessingTimeAssigner):
    """Windows of a fixed size in processing time; a new one begins after each slide."""


class SlidingEventTimeWindows(_SlidingWindows, _EventTimeAssigner):
    """Windows of a fixed size in event time; a new one begins after each slide."""


class _SessionWindows(_TimeAssigner, MergingWindowAssigner[Any, TimeWindow]):
    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        TimeWindow.merge_windows(windows, callback)


class _StaticSessionWindows(_SessionWindows):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise InvalidProgramError(f"{type(self).__name__} needs a gap > 0; got {session_gap} ms.")
        self._session_gap = session_gap

    @classmethod
    def with_gap(cls, size: Time | timedelta) -> Self:
        """Return an assigner of sessions with one gap for all."""
        return cls(size_in_ms(size, "size", f"{cls.__name__}.with_gap"))

    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        time = self._time(timestamp, context)
        return [TimeWindow(time, time + self._session_gap)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicSessionWindows(_SessionWindows):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._session_window_time_gap_extractor = instance_of(
            f"{type(self).__name__}()", session_window_time_gap_extractor, SessionWindowTimeGapExtractor
        )

    @classmethod
    def with_dynamic_gap(cls, extractor: SessionWindowTimeGapExtractor) -> Self:
        """Return an assigner of sessions whose gap depends on the record."""
        return cls(extractor)

    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[TimeWindow]:
        return [self._window(element, self._time(timestamp, context))]

    def _window(self, element: Any, time: int) -> TimeWindow:
        gap = self._session_window_time_gap_extractor.extract(element)
        if gap.__class__ is not int:
            gap = milliseconds_of(gap, "the gap of a session", kinds=(Time,), or_number=True)
        if gap <= 0:
            raise InvalidProgramError(f"the gap of a session must be positive; got {gap} ms for {element!r}.")
        return TimeWindow(time, time + gap)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_window_time_gap_extractor!r})"


class DynamicProcessingTimeSessionWindows(_DynamicSessionWindows, _ProcessingTimeAssigner):
    """Sessions in processing time, with a gap that depends on the record."""


class DynamicEventTimeSessionWindows(_DynamicSessionWindows, _EventTimeAssigner):
    """Sessions in event time, with a gap that depends on the record."""


class ProcessingTimeSessionWindows(_StaticSessionWindows, _ProcessingTimeAssigner):
    """Sessions in processing time: a window ends when no record arrived for the time of the gap."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return an assigner of sessions whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_StaticSessionWindows, _EventTimeAssigner):
    """Sessions in event time: a window ends when no record has a timestamp within the gap."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Return an assigner of sessions whose gap depends on the record."""
        return DynamicEventTimeSessionWindows(extractor)


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """Assigns all records of a key to one window; its default trigger never fires, so set another one."""

    @staticmethod
    def create() -> GlobalWindows:
        """Return the assigner."""
        return GlobalWindows()

    def assign_windows(self, element: Any, timestamp: int, context: _Context) -> Collection[GlobalWindow]:
        return [GlobalWindow()]

    def get_default_trigger(self, env: Any) -> Trigger[Any, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


def no_timestamp(assigner: WindowAssigner[Any, Any]) -> InvalidProgramError:
    """Return the error for a record without event time, with Flink's message."""
    return InvalidProgramError(
        f"Record has Java Long.MIN_VALUE timestamp (= no timestamp marker), but {assigner!r} uses event time.",
        hint="call assign_timestamps_and_watermarks(...) with a timestamp assigner before the window, "
        "or use processing-time windows.",
    )
