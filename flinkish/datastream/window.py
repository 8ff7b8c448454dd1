"""Windows, what assigns records to them, and what makes them fire.

A WindowAssigner names the windows of each record, a Trigger says when a window's contents go to the window function. Both are
pickled once when the job is built. Times and sizes are milliseconds; sizes are given as `Time`.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import Enum
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.serializer import TypeSerializer
from flinkish.common.time import Time
from flinkish.common.typeinfo import Types
from flinkish.datastream.functions import ReduceFunction
from flinkish.datastream.state import ReducingStateDescriptor, ValueStateDescriptor

if TYPE_CHECKING:
    from flinkish.datastream.functions import RuntimeContext
    from flinkish.datastream.state import State, StateDescriptor
    from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkish.metrics import MetricGroup

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]

T = TypeVar("T")
W = TypeVar("W", bound="Window")
W2 = TypeVar("W2", bound="Window")

#: Java's Long.MAX_VALUE: the end of a window that time does not end.
_MAX_LONG = 2**63 - 1
#: Java's Long.MIN_VALUE: the timestamp of a record that has none.
_MIN_LONG = -(2**63)


# -- windows ---------------------------------------------------------------------------------------------------------------------


class Window(ABC):
    """A finite group of records; equal windows are the same window, so it must be hashable."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the greatest timestamp (ms) that still belongs to the window; Long.MAX if time does not bound it."""


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
        """Return the start of the window of a size (ms), aligned to the epoch plus an offset (ms), that holds a timestamp."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Tell the callback which windows overlap or touch, and what covers them."""
        cover: TimeWindow | None = None
        covered: list[TimeWindow] = []
        for window in sorted(set(windows)):
            if cover is not None and cover.intersects(window):
                cover = cover.cover(window)
                covered.append(window)
                continue
            if cover is not None and len(covered) > 1:
                callback.merge(covered, cover)
            cover, covered = window, [window]
        if cover is not None and len(covered) > 1:
            callback.merge(covered, cover)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and (self.start, self.end) == (other.start, other.end)

    def __lt__(self, other: TimeWindow) -> bool:
        return self._bounds() < _bounds_of(other)

    def __le__(self, other: TimeWindow) -> bool:
        return self._bounds() <= _bounds_of(other)

    def __gt__(self, other: TimeWindow) -> bool:
        return self._bounds() > _bounds_of(other)

    def __ge__(self, other: TimeWindow) -> bool:
        return self._bounds() >= _bounds_of(other)

    def _bounds(self) -> tuple[int, int]:
        return self.start, self.end

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


def _bounds_of(window: object) -> tuple[int, int]:
    if not isinstance(window, TimeWindow):
        raise InvalidArgumentError(f"a TimeWindow can only be compared with another one; got {window!r}.")
    return window._bounds()


class CountWindow(Window):
    """A window that is bounded by a number of records; `id` tells it from the others of its key."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        return _MAX_LONG

    def __hash__(self) -> int:
        return hash((CountWindow, self.id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window of GlobalWindows, which holds all records."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return _MAX_LONG

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __repr__(self) -> str:
        return "GlobalWindow"


_TIME_WINDOW = struct.Struct(">qq")
_COUNT_WINDOW = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Writes start and end as 64-bit big-endian integers."""

    def __init__(self) -> None:
        pass

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TIME_WINDOW.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TIME_WINDOW.unpack(stream.read(_TIME_WINDOW.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Writes the id as a 64-bit big-endian integer."""

    def __init__(self) -> None:
        pass

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_COUNT_WINDOW.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(_COUNT_WINDOW.unpack(stream.read(_COUNT_WINDOW.size))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Writes one byte."""

    def __init__(self) -> None:
        pass

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow()


# -- triggers --------------------------------------------------------------------------------------------------------------------


class TriggerResult(Enum):
    """What a trigger decides: FIRE hands the contents to the window function, PURGE drops them; the window itself stays."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether the window function is to be called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the contents are to be dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window fires.

    One object serves all windows of all keys of a subtask: what belongs to one window goes into partitioned state, which `clear`
    must empty.
    """

    class TriggerContext(ABC):
        """What a trigger may do; state and timers are those of the window at hand."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in milliseconds."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the operator's metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the operator's watermark in milliseconds; Long.MIN before the first."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called at `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called when the watermark passes `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete the processing-time timer for `time`."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete the event-time timer for `time`."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Return the state of the current key and window."""

    class OnMergeContext(TriggerContext):
        """What a trigger may do when windows were merged."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the merged windows into that of the new one; of list, reducing and aggregating state."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide after a record (timestamp in ms, Long.MIN for none) was added to a window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide when a processing-time timer fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide when an event-time timer fires."""

    def can_merge(self) -> bool:
        """Return whether the trigger can serve a merging assigner."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Take over from the windows that were merged into `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Drop state and timers of a window that is gone."""


class EventTimeTrigger(Trigger[Any, TimeWindow]):
    """Fires once the watermark passes the end of the window, and then again for each late record."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # A window whose end has passed already is fired by the record that caused the merge.
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()


class ProcessingTimeTrigger(Trigger[Any, TimeWindow]):
    """Fires when the processing time passes the end of the window."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return the trigger."""
        return ProcessingTimeTrigger()


class _Min(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return min(value1, value2)


class _Sum(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class _ContinuousTrigger(Trigger[Any, TimeWindow]):
    """What both continuous triggers share: the state that holds when the window fires next."""

    def __init__(self, interval: int) -> None:
        if interval <= 0:
            raise InvalidProgramError(f"the interval of a {type(self).__name__} must be positive; got {interval} ms.")
        self.interval = interval
        self.state_desc = ReducingStateDescriptor(f"_trigger.{type(self).__name__}.fire-time", _Min(), Types.LONG())

    def can_merge(self) -> bool:
        return True

    def _fire_time(self, ctx: Trigger.TriggerContext) -> Any:
        return ctx.get_partitioned_state(self.state_desc)


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires at each interval of event time, aligned to the epoch, and at the end of the window."""

    @staticmethod
    def of(interval: Time) -> ContinuousEventTimeTrigger:
        """Return a trigger with an interval."""
        return ContinuousEventTimeTrigger(_size(interval, "interval", "ContinuousEventTimeTrigger.of"))

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        fire_time = self._fire_time(ctx)
        if fire_time.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, fire_time)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        fire_time = self._fire_time(ctx)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        self.register_next_fire_timestamp(time, window, ctx, fire_time)
        return TriggerResult.FIRE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = self._fire_time(ctx).get()
        if next_fire is not None:
            ctx.register_event_time_timer(next_fire)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        fire_time = self._fire_time(ctx)
        next_fire = fire_time.get()
        if next_fire is not None:
            ctx.delete_event_time_timer(next_fire)
            fire_time.clear()

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Set the timer one interval after `time`, at the latest at the window's end."""
        next_fire = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_fire)
        ctx.register_event_time_timer(next_fire)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires at each interval of processing time, aligned to the epoch, up to the end of the window."""

    @staticmethod
    def of(interval: Time) -> ContinuousProcessingTimeTrigger:
        """Return a trigger with an interval."""
        return ContinuousProcessingTimeTrigger(_size(interval, "interval", "ContinuousProcessingTimeTrigger.of"))

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        fire_time = self._fire_time(ctx)
        if fire_time.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, fire_time)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        fire_time = self._fire_time(ctx)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        self.register_next_fire_timestamp(time, window, ctx, fire_time)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = self._fire_time(ctx).get()
        if next_fire is not None:
            ctx.register_processing_time_timer(next_fire)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        fire_time = self._fire_time(ctx)
        next_fire = fire_time.get()
        if next_fire is not None:
            ctx.delete_processing_time_timer(next_fire)
            fire_time.clear()

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Set the timer one interval after `time`, at the latest at the window's end; at the end itself no further one."""
        next_fire = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_fire)
        if next_fire > time:
            ctx.register_processing_time_timer(next_fire)


class PurgingTrigger(Trigger[Any, Any]):
    """Makes another trigger drop the window's contents whenever it fires."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise InvalidArgumentError(f"PurgingTrigger.of() needs a Trigger; got {nested_trigger!r}.")
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """Return a purging trigger around another."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class CountTrigger(Trigger[Any, Any]):
    """Fires with each `window_size`-th record of a window, keeping the contents."""

    def __init__(self, window_size: int) -> None:
        self._window_size = _count(window_size, "CountTrigger")
        self._count_state_descriptor = ReducingStateDescriptor("_trigger.CountTrigger.count", _Sum(), Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return a trigger that fires with each so many records."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        count: Any = ctx.get_partitioned_state(self._count_state_descriptor)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count_state_descriptor)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        state: Any = ctx.get_partitioned_state(self._count_state_descriptor)
        state.clear()


class NeverTrigger(Trigger[Any, Any]):
    """Never fires; the default of GlobalWindows."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        pass


# -- assigners -------------------------------------------------------------------------------------------------------------------


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns records to windows."""

    class WindowAssignerContext(ABC):
        """What an assigner may know."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in milliseconds."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the runtime context of the operator; its state is that of the record's key."""

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> Collection[W]:
        """Return the windows of a record; `timestamp` (ms) is Long.MIN if it has none."""

    @abstractmethod
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, W]:
        """Return the trigger to use where the program sets none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return what writes windows; used for windows of other classes than TimeWindow, CountWindow and GlobalWindow."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether windows end, and are cleaned up, by event time; by processing time if not."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows are merged, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Takes the decisions of `merge_windows`."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Have windows merged into one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Tell the callback which of a key's windows are to be merged, and into what."""


class SessionWindowTimeGapExtractor(ABC):
    """Tells the gap of a session by the record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the session's gap in milliseconds; must be positive."""


class _CountAssigner(WindowAssigner[Any, CountWindow]):
    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountAssigner):
    """Windows of so many records of a key each; the rest at the end never fires."""

    def __init__(self, window_size: int) -> None:
        self._window_size = _count(window_size, "CountTumblingWindowAssigner")
        self._count_descriptor = ValueStateDescriptor("_assigner.tumble-count", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return an assigner of windows of so many records."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        state = context.get_runtime_context().get_state(self._count_descriptor)
        count = state.value() or 0
        state.update(count + 1)
        return [CountWindow(count // self._window_size)]

    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[Any, CountWindow]:
        return CountTrigger(self._window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountAssigner):
    """Windows of `window_size` records of a key, one beginning every `window_slide` records.

    As in PyFlink only full windows fire; Java's also fire with fewer records at the beginning.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._window_size = _count(window_size, "CountSlidingWindowAssigner")
        self._window_slide = _count(window_slide, "CountSlidingWindowAssigner")
        self._count_descriptor = ValueStateDescriptor("_assigner.slide-count", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return an assigner of windows of so many records, one every so many."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        state = context.get_runtime_context().get_state(self._count_descriptor)
        count = state.value() or 0
        state.update(count + 1)
        last = count // self._window_slide
        first = max(0, (count - self._window_size) // self._window_slide + 1)
        return [CountWindow(window) for window in range(last, first - 1, -1)]

    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[Any, CountWindow]:
        return CountTrigger(self._window_size)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


class _TimeAssigner(WindowAssigner[Any, TimeWindow]):
    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class _EventTimeAssigner(_TimeAssigner):
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeAssigner(_TimeAssigner):
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[Any, TimeWindow]:
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

    def _window_at(self, timestamp: int) -> TimeWindow:
        start = timestamp - (timestamp - self._offset) % self._size
        return TimeWindow(start, start + self._size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._offset})"


class TumblingProcessingTimeWindows(_TumblingWindows, _ProcessingTimeAssigner):
    """Windows of one size by processing time, without gaps or overlaps."""

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> TumblingProcessingTimeWindows:
        """Return an assigner of windows of a size, which begin at multiples of it plus the offset."""
        return TumblingProcessingTimeWindows(*_sizes("TumblingProcessingTimeWindows.of", size=size, offset=offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self._window_at(context.get_current_processing_time())]


class TumblingEventTimeWindows(_TumblingWindows, _EventTimeAssigner):
    """Windows of one size by event time, without gaps or overlaps."""

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> TumblingEventTimeWindows:
        """Return an assigner of windows of a size, which begin at multiples of it plus the offset.

        >>> TumblingEventTimeWindows.of(Time.hours(1), Time.minutes(15))
        TumblingEventTimeWindows(3600000, 900000)
        """
        return TumblingEventTimeWindows(*_sizes("TumblingEventTimeWindows.of", size=size, offset=offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if timestamp == _MIN_LONG:
            raise no_timestamp(self)
        return [self._window_at(timestamp)]


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

    def _windows_at(self, timestamp: int) -> list[TimeWindow]:
        last = timestamp - (timestamp - self._offset) % self._slide
        return [TimeWindow(start, start + self._size) for start in range(last, timestamp - self._size, -self._slide)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class SlidingProcessingTimeWindows(_SlidingWindows, _ProcessingTimeAssigner):
    """Windows of one size by processing time, one beginning every slide."""

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> SlidingProcessingTimeWindows:
        """Return an assigner of windows of a size, which begin at multiples of the slide plus the offset."""
        return SlidingProcessingTimeWindows(*_sizes("SlidingProcessingTimeWindows.of", size=size, slide=slide, offset=offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows_at(context.get_current_processing_time())


class SlidingEventTimeWindows(_SlidingWindows, _EventTimeAssigner):
    """Windows of one size by event time, one beginning every slide."""

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> SlidingEventTimeWindows:
        """Return an assigner of windows of a size, which begin at multiples of the slide plus the offset."""
        return SlidingEventTimeWindows(*_sizes("SlidingEventTimeWindows.of", size=size, slide=slide, offset=offset))

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if timestamp == _MIN_LONG:
            raise no_timestamp(self)
        return self._windows_at(timestamp)


class _SessionWindows(MergingWindowAssigner[Any, TimeWindow]):
    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class _StaticSessionWindows(_SessionWindows):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise InvalidProgramError(f"{type(self).__name__} needs a gap > 0; got {session_gap} ms.")
        self._session_gap = session_gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicSessionWindows(_SessionWindows):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not isinstance(session_window_time_gap_extractor, SessionWindowTimeGapExtractor):
            raise InvalidArgumentError(
                f"{type(self).__name__} needs a SessionWindowTimeGapExtractor; got {session_window_time_gap_extractor!r}."
            )
        self._session_window_time_gap_extractor = session_window_time_gap_extractor

    def _window(self, element: Any, time: int) -> TimeWindow:
        gap = self._session_window_time_gap_extractor.extract(element)
        if gap <= 0:
            raise InvalidProgramError(f"the gap of a session must be positive; got {gap} ms for {element!r}.")
        return TimeWindow(time, time + gap)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_window_time_gap_extractor!r})"


class ProcessingTimeSessionWindows(_StaticSessionWindows, _ProcessingTimeAssigner):
    """Sessions by processing time: a window ends when no record came for the gap."""

    @staticmethod
    def with_gap(size: Time) -> ProcessingTimeSessionWindows:
        """Return an assigner of sessions with one gap for all."""
        return ProcessingTimeSessionWindows(_size(size, "size", "ProcessingTimeSessionWindows.with_gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return an assigner of sessions whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self._session_gap)]


class EventTimeSessionWindows(_StaticSessionWindows, _EventTimeAssigner):
    """Sessions by event time: a window ends where no record lies within the gap."""

    @staticmethod
    def with_gap(size: Time) -> EventTimeSessionWindows:
        """Return an assigner of sessions with one gap for all."""
        return EventTimeSessionWindows(_size(size, "size", "EventTimeSessionWindows.with_gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Return an assigner of sessions whose gap depends on the record."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + self._session_gap)]


class DynamicProcessingTimeSessionWindows(_DynamicSessionWindows, _ProcessingTimeAssigner):
    """Sessions by processing time, with a gap that depends on the record."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return an assigner of sessions whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self._window(element, context.get_current_processing_time())]


class DynamicEventTimeSessionWindows(_DynamicSessionWindows, _EventTimeAssigner):
    """Sessions by event time, with a gap that depends on the record."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Return an assigner of sessions whose gap depends on the record."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self._window(element, timestamp)]


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """Puts all records of a key into one window; useful with a trigger of one's own."""

    def __init__(self) -> None:
        pass

    @staticmethod
    def create() -> GlobalWindows:
        """Return the assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return [GlobalWindow()]

    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[Any, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


def no_timestamp(assigner: WindowAssigner[Any, Any]) -> InvalidProgramError:
    """Return the error for a record without event time, with Flink's words."""
    return InvalidProgramError(
        f"Record has Java Long.MIN_VALUE timestamp (= no timestamp marker), but {assigner!r} goes by event time.",
        hint="call assign_timestamps_and_watermarks(...) with a timestamp assigner before the window, "
        "or use processing-time windows.",
    )


def _size(time: object, argument: str, method: str) -> int:
    if not isinstance(time, Time):
        raise InvalidArgumentError(
            f"{argument} of {method}() must be a Time; got {time!r} of type {type(time).__name__}.",
            hint="for example Time.seconds(5).",
        )
    return time.to_milliseconds()


def _sizes(method: str, **times: Time | None) -> list[int]:
    return [0 if name == "offset" and time is None else _size(time, name, method) for name, time in times.items()]


def _count(number: object, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidArgumentError(f"{what} needs an int; got {number!r} of type {type(number).__name__}.")
    if number < 1:
        raise InvalidProgramError(f"{what} needs at least 1 record; got {number}.")
    return number
