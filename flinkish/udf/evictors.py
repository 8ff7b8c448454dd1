"""Evictors, which remove records from a window when it fires; as in Flink's Java API (PyFlink has none).

A window with an evictor keeps all its records, also for reduce and aggregate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeAlias, TypeVar

from flinkish.common.arguments import callable_of, int_of
from flinkish.common.time import Time, milliseconds_of
from flinkish.udf.window import Window
from flinkish.udf.window.windows import OperatorTimes

__all__ = ["CountEvictor", "DeltaEvictor", "Evictor", "TimeEvictor", "TimestampedValue"]

T = TypeVar("T")
W = TypeVar("W", bound=Window)


@dataclass(slots=True, eq=False, repr=False)
class TimestampedValue(Generic[T]):
    """A record of a window with its timestamp in milliseconds, None if it has none."""

    value: T
    timestamp: int | None = None

    def get_value(self) -> T:
        """Return the record."""
        return self.value

    def get_timestamp(self) -> int | None:
        """Return the timestamp in milliseconds."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Return whether there is a timestamp."""
        return self.timestamp is not None

    def __repr__(self) -> str:
        return f"TimestampedValue({self.value!r}, {self.timestamp})"


class Evictor(ABC, Generic[T, W]):
    """Removes records from a window before and after the window function.

    The records are in the order of their arrival; an evictor changes the list in place. Removed records are missing in later
    firings of the window, too.
    """

    class EvictorContext(OperatorTimes):
        """Information for an evictor on time and metrics."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove records before the window function sees them; `size` is their number."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove records after the window function."""


_Records: TypeAlias = list[TimestampedValue[Any]]


class _OneTimeEvictor(Evictor[Any, Any]):
    """Evicts records either before or after the window function."""

    def __init__(self, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def evict_before(self, elements: _Records, size: int, window: Any, evictor_context: Evictor.EvictorContext) -> None:
        if not self._do_evict_after:
            self._evict(elements)

    def evict_after(self, elements: _Records, size: int, window: Any, evictor_context: Evictor.EvictorContext) -> None:
        if self._do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: _Records) -> None: ...


class CountEvictor(_OneTimeEvictor):
    """Keeps the last `max_count` records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._max_count = int_of("the max_count of CountEvictor.of()", max_count, minimum=0)

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return an evictor that keeps the last `max_count` records; `do_evict_after`: it evicts after the window function."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: _Records) -> None:
        excess = len(elements) - self._max_count
        if excess > 0:
            del elements[:excess]


class TimeEvictor(_OneTimeEvictor):
    """Keeps records whose timestamp is above the highest one minus a time; removes nothing if records have no timestamps."""

    def __init__(self, window_size: Time | timedelta | int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = milliseconds_of(window_size, "TimeEvictor.of()", kinds=(Time,), rule="needs a Time", or_number=True)

    @staticmethod
    def of(window_size: Time | timedelta, do_evict_after: bool = False) -> TimeEvictor:
        """Return an evictor that keeps the records of the last `window_size`; for `do_evict_after` see `CountEvictor.of`."""
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: _Records) -> None:
        # As in Flink, the first record decides whether there are timestamps.
        if not elements or elements[0].timestamp is None:
            return
        newest = max(element.timestamp for element in elements if element.timestamp is not None)
        cut = newest - self._window_size
        elements[:] = [element for element in elements if element.timestamp is None or element.timestamp > cut]


class DeltaEvictor(_OneTimeEvictor):
    """Keeps records whose delta to the last record is less than a threshold."""

    def __init__(self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta_function = callable_of("DeltaEvictor.of()", delta_function, "a function of two records")

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        """Return an evictor; `delta_function` gets a record and the last record, and returns a number."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: _Records) -> None:
        if elements:
            last = elements[-1].value
            # As in Flink, a delta of NaN keeps a record.
            elements[:] = [element for element in elements if not self._delta_function(element.value, last) >= self._threshold]
