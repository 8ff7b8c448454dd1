"""The kinds of metrics, as user functions see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup"]


class MetricGroup(ABC):
    """A named place for metrics and for groups below it."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group of that name below this one; with `extra`, the group `extra` below that (a key and its value)."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Return the counter of that name."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """Show what `obj` returns whenever metrics are read."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of that name; its rate is over the last `time_span_in_seconds`."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Return the distribution of that name."""


class Metric(ABC):  # noqa: B024
    """Base of all metrics."""


class Counter(Metric):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the number."""


class Gauge(Metric):
    """A value that is asked for when metrics are read."""

    @abstractmethod
    def get_value(self) -> int | float:
        """Return the present value."""


class Meter(Metric):
    """How many events there were, and how many a second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Note so many events."""

    @abstractmethod
    def get_count(self) -> int:
        """Return how many events were noted."""

    @abstractmethod
    def get_rate(self) -> float:
        """Return events per second over the meter's time span."""


class Distribution(Metric):
    """Number, sum, smallest and largest of the values seen."""

    @abstractmethod
    def update(self, value: int | float) -> None:
        """See a value."""
