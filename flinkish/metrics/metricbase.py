"""The kinds of metrics that user functions can use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup"]


class MetricGroup(ABC):
    """A named group of metrics and of other groups."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group `name` within this one; with `extra`, the group `extra` within that one.

        Then they are a key and its value, as in Flink. For Prometheus and OpenTelemetry, the value is that of the label
        `name` and not a part of the names of metrics. The full names, as in REST and in the log, contain both.
        """

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Return the counter with this name."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """Register a gauge: `obj` is called without arguments whenever metrics are read, and returns the value.

        That is a number (also Decimal, Fraction and scalars of numpy) or a str; None = it has no value at the moment. A gauge
        with any other value is left out, and a warning says so once.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter with this name; its rate is the average over the last `time_span_in_seconds` (at least 1)."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Return the distribution with this name."""


class Metric(ABC):  # noqa: B024
    """Base of all metrics."""


class Counter(Metric):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add `n`."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the number."""


class Gauge(Metric):
    """A value that is computed when metrics are read."""

    @abstractmethod
    def get_value(self) -> int | float:
        """Return the current value."""


class Meter(Metric):
    """The number of events, and the number per second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Count `value` events."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the number of events counted."""

    @abstractmethod
    def get_rate(self) -> float:
        """Return the events per second, averaged over the meter's time span."""


class Distribution(Metric):
    """The number, the sum, the smallest and the largest of the given values."""

    @abstractmethod
    def update(self, value: int | float) -> None:
        """Add a value to the statistics."""
