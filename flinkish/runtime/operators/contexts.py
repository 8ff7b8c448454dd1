"""The contexts of process functions; an operator has one object, which is updated for each record."""

from __future__ import annotations

from typing import Any

from flinkish.common.errors import StateError
from flinkish.runtime.keys import CanonicalKey, original_key
from flinkish.runtime.operators.base import Operator
from flinkish.runtime.operators.timestamps import timer_time
from flinkish.runtime.protocol import MIN_WATERMARK
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.functions import CoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from flinkish.udf.time_domain import TimeDomain
from flinkish.udf.timerservice import TimerService


class _TimesOnly(TimerService):
    """The timer service of operators without keys, which returns times but refuses timers."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._now = operator.context.time.now

    def current_processing_time(self) -> int:
        return self._now()

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        self._refuse("register_event_time_timer")

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._refuse("register_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._refuse("delete_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._refuse("delete_processing_time_timer")

    def _refuse(self, method: str) -> None:
        raise StateError(
            f"{method}() of operator {self._operator.node.name!r}: timers can only be set on keyed streams",
            hint="put key_by(...) before this operator.",
        )


class _KeyedTimers(_TimesOnly):
    """Timers of the current key."""

    def __init__(self, operator: Operator, backend: KeyedStateBackend) -> None:
        super().__init__(operator)
        self._backend = backend
        timers = backend.timers()
        self._event_time, self._processing_time = timers.event_time, timers.processing_time

    def register_event_time_timer(self, timestamp: int) -> None:
        if not self._operator.quiesced:
            self._event_time.register(timer_time(timestamp, "register_event_time_timer"), self._backend.current_key)

    def register_processing_time_timer(self, timestamp: int) -> None:
        if not self._operator.quiesced:
            self._processing_time.register(timer_time(timestamp, "register_processing_time_timer"), self._backend.current_key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._event_time.delete(timer_time(timestamp, "delete_event_time_timer"), self._backend.current_key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._processing_time.delete(timer_time(timestamp, "delete_processing_time_timer"), self._backend.current_key)


class ElementContext:
    """Has the timestamp of the current record; None is shown as Long.MIN, as in PyFlink."""

    def __init__(self, operator: Operator) -> None:
        self.element_timestamp: int | None = None
        self._timer_service: TimerService = _TimesOnly(operator)

    def timestamp(self) -> int:
        timestamp = self.element_timestamp
        return MIN_WATERMARK if timestamp is None else timestamp

    def timer_service(self) -> TimerService:
        return self._timer_service


class KeyedContext(ElementContext):
    def __init__(self, operator: Operator, backend: KeyedStateBackend) -> None:
        super().__init__(operator)
        self._backend = backend
        self._timer_service = _KeyedTimers(operator, backend)
        self.domain = TimeDomain.EVENT_TIME

    def get_current_key(self) -> Any:
        key = self._backend.current_key
        return original_key(key) if key.__class__ is CanonicalKey else key

    def time_domain(self) -> TimeDomain:
        return self.domain


class ProcessContext(ElementContext, ProcessFunction.Context):
    """The context of ProcessFunction."""


class CoProcessContext(ElementContext, CoProcessFunction.Context):
    """The context of CoProcessFunction."""


class KeyedProcessContext(KeyedContext, KeyedProcessFunction.OnTimerContext):
    """The context of process_element and on_timer of KeyedProcessFunction."""


class KeyedCoProcessContext(KeyedContext, KeyedCoProcessFunction.OnTimerContext):
    """The context of process_element1, process_element2 and on_timer of KeyedCoProcessFunction."""
