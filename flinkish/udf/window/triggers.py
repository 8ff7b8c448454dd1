"""Triggers, which decide when windows fire. A trigger is pickled once, when the job is built."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Self, TypeVar

from flinkish.common.arguments import instance_of, int_of
from flinkish.common.errors import InvalidProgramError
from flinkish.common.time import Time
from flinkish.common.typeinfo import Types
from flinkish.udf.state import ReducingStateDescriptor, State, StateDescriptor
from flinkish.udf.window.windows import OperatorTimes, TimeWindow, Window, size_in_ms

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerResult",
]

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TriggerResult(Enum):
    """The decision of a trigger: FIRE passes the contents to the window function, PURGE drops them; the window remains."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether to call the window function."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether to drop the contents."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window fires.

    One object serves all windows of all keys of a subtask, so data of one window must be kept in partitioned state, which `clear`
    must empty.
    """

    class TriggerContext(OperatorTimes):
        """Time, state and timers for a trigger; state and timers belong to the current key and window."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Register a timer that calls `on_processing_time` at `time` (milliseconds)."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Register a timer that calls `on_event_time` when the watermark reaches `time` (milliseconds)."""

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
        """Like TriggerContext, with access to the state of merged windows."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the states of the merged windows into the state of the new one; for list, reducing and aggregating state."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide after a record was added to a window; `timestamp` is in milliseconds, -2**63 if the record has none."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide when a processing-time timer fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide when an event-time timer fires."""

    def can_merge(self) -> bool:
        """Return whether the trigger can be used with a merging assigner."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Merge the state of the windows that were merged into `window`, and set its timers."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Delete the state and timers of a removed window."""


class _Trigger(Trigger[Any, W]):
    """A trigger that ignores timers, unless its class handles them, and whose state can be merged."""

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True


class EventTimeTrigger(_Trigger[TimeWindow]):
    """Fires once the watermark passes the end of the window, and then again for each late record."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # If the end has already passed, the record that caused the merge fires the window.
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()


class ProcessingTimeTrigger(_Trigger[TimeWindow]):
    """Fires when the processing time passes the end of the window."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

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


class _ContinuousTrigger(_Trigger[TimeWindow]):
    """Base of both continuous triggers, which differ in the time domain; state holds the time when a window fires next."""

    def __init__(self, interval: int) -> None:
        if interval <= 0:
            raise InvalidProgramError(f"the interval of a {type(self).__name__} must be positive; got {interval} ms.")
        self.interval = interval
        self.state_desc = ReducingStateDescriptor(f"_trigger.{type(self).__name__}.fire-time", min, Types.LONG())

    @classmethod
    def of(cls, interval: Time | timedelta) -> Self:
        """Return a trigger with an interval."""
        return cls(size_in_ms(interval, "interval", f"{cls.__name__}.of"))

    def _fire_time(self, ctx: Trigger.TriggerContext) -> Any:
        return ctx.get_partitioned_state(self.state_desc)

    def _begin(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Set the first timer of a window at or after `time`, unless it has one."""
        fire_time = self._fire_time(ctx)
        if fire_time.get() is None:
            self.register_next_fire_timestamp(time - time % self.interval, window, ctx, fire_time)

    def _on_timer(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        fire_time = self._fire_time(ctx)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        self.register_next_fire_timestamp(time, window, ctx, fire_time)
        return TriggerResult.FIRE

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Set the timer one interval after `time`, but not after the window's end; set none if `time` is the end."""
        next_fire = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_fire)
        if next_fire > time:
            self._register(next_fire, ctx)

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = self._fire_time(ctx).get()
        if next_fire is not None:
            self._register(next_fire, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        fire_time = self._fire_time(ctx)
        next_fire = fire_time.get()
        if next_fire is not None:
            self._delete(next_fire, ctx)
            fire_time.clear()

    @abstractmethod
    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Set a timer of the trigger's time domain."""

    @abstractmethod
    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Delete a timer of the trigger's time domain."""


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires after each interval of event time, counted from 1970-01-01 UTC, and at the end of the window."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        self._begin(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else self._on_timer(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires after each interval of processing time, counted from 1970-01-01 UTC, until the end of the window."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._on_timer(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class PurgingTrigger(Trigger[Any, Any]):
    """Wraps another trigger, and drops the window's contents whenever that one fires."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        self.nested_trigger = instance_of("PurgingTrigger.of()", nested_trigger, Trigger)

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


class CountTrigger(_Trigger[Any]):
    """Fires at every `window_size`-th record of a window, and keeps the contents."""

    def __init__(self, window_size: int) -> None:
        self._window_size = int_of("CountTrigger()", window_size, minimum=1)
        self._count_state_descriptor = ReducingStateDescriptor("_trigger.CountTrigger.count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return a trigger that fires at every `window_size`-th record."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        count: Any = ctx.get_partitioned_state(self._count_state_descriptor)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count_state_descriptor)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        state: Any = ctx.get_partitioned_state(self._count_state_descriptor)
        state.clear()


class NeverTrigger(_Trigger[Any]):
    """Never fires; the default of GlobalWindows."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return False

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        pass
