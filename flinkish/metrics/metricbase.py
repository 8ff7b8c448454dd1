"""The kinds of metrics that user functions can use, and the groups in which functions make them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish.common.arguments import callable_of, int_of, text_of
from flinkish.common.clock import Clock
from flinkish.common.errors import InvalidArgumentError
from flinkish.metrics.plain import plain

if TYPE_CHECKING:
    from flinkish.metrics.registry import MetricRegistry


class Metric(ABC):
    """Base of all metrics."""

    @abstractmethod
    def read(self) -> Any:
        """Return the value as plain data: a number, a text or a dict of numbers; None = there is none. Not in PyFlink."""


class Counter(Metric):
    """A number that goes up and down."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""
        self._count -= n

    def get_count(self) -> int:
        """Return the number."""
        return self._count

    def read(self) -> Any:
        return plain(self._count)


class Gauge(Metric):
    """A value that is computed when metrics are read."""

    def __init__(self, function: Callable[[], int | float]) -> None:
        self._function = function

    def get_value(self) -> int | float:
        """Return the current value."""
        return self._function()

    def read(self) -> Any:
        return plain(self._function())


class Meter(Metric):
    """The number of events, and the number per second.

    Events are counted in buckets of one second, so that the cost of marking does not depend on the rate.
    """

    def __init__(self, clock: Clock, time_span_in_seconds: int) -> None:
        self._clock = clock
        self._span = time_span_in_seconds
        self._count = 0
        self._buckets: deque[list[int]] = deque()

    def mark_event(self, value: int = 1) -> None:
        """Count `value` events."""
        self._count += value
        second = self._clock.monotonic() // 1000
        if self._buckets and self._buckets[-1][0] == second:
            self._buckets[-1][1] += value
        else:
            self._drop_old(second)
            self._buckets.append([second, value])

    def get_count(self) -> int:
        """Return the number of events counted."""
        return self._count

    def get_rate(self) -> float:
        """Return the events per second, averaged over the meter's time span."""
        self._drop_old(self._clock.monotonic() // 1000)
        return sum(bucket[1] for bucket in self._buckets) / self._span

    def read(self) -> Any:
        return {"count": plain(self._count), "rate": plain(self.get_rate())}

    def _drop_old(self, second: int) -> None:
        while self._buckets and self._buckets[0][0] <= second - self._span:
            self._buckets.popleft()


class Distribution(Metric):
    """The number, the sum, the smallest and the largest of the given values."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: int | float = 0
        self._min: int | float | None = None
        self._max: int | float | None = None

    def update(self, value: int | float) -> None:
        """Add a value to the statistics."""
        self._count += 1
        self._sum += value
        if self._min is None or value < self._min:
            self._min = value
        if self._max is None or value > self._max:
            self._max = value

    def read(self) -> Any:
        return {"count": plain(self._count), "sum": plain(self._sum), "min": plain(self._min), "max": plain(self._max)}


@dataclass(eq=False, repr=False)
class MetricGroup:
    """A named group of metrics and of other groups; made by `MetricRegistry`."""

    _registry: MetricRegistry
    _scope: tuple[str, ...] = ()
    #: The scope without the values of keys, which are in the labels with their keys.
    _logical: tuple[str, ...] = ()
    _labels: tuple[tuple[str, str], ...] = ()

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group `name` within this one; with `extra`, the group `extra` within that one.

        The two names are then a key and its value, as in Flink. Prometheus and OpenTelemetry show them as a label of the metrics;
        the full names of metrics, as in REST and in the log, contain both.
        """
        self._checked(name)
        if extra is None:
            return MetricGroup(self._registry, (*self._scope, name), (*self._logical, name), self._labels)
        self._checked(extra)
        return MetricGroup(self._registry, (*self._scope, name, extra), (*self._logical, name), (*self._labels, (name, extra)))

    def counter(self, name: str) -> Counter:
        """Return the counter with this name."""
        return self._registry.register(self._name(name), Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """Register a gauge: `obj` is called without arguments whenever metrics are read, and returns the value.

        That is a number (also Decimal, Fraction and scalars of numpy) or a str; None = it has no value at the moment. A gauge
        with any other value is left out, and a warning says so once.
        """
        callable_of(f"the obj of gauge({name!r})", obj, "a function without arguments")
        self._registry.set_gauge(self._name(name), Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter with this name; its rate is the average over the last `time_span_in_seconds` (at least 1)."""
        int_of("time_span_in_seconds", time_span_in_seconds, minimum=1)
        clock = self._registry.clock
        return self._registry.register(self._name(name), Meter, lambda: Meter(clock, time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution with this name."""
        return self._registry.register(self._name(name), Distribution, Distribution)

    def _name(self, name: str) -> str:
        dotted = self._checked(name)
        if self._labels:
            self._registry.label(dotted, (".".join((*self._logical, name)), self._labels))
        return dotted

    def _checked(self, name: str) -> str:
        text_of("the name of a metric or group", name)
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"the name of a metric or group is not valid Unicode: {name!r}: {error.reason}") from None
        return ".".join((*self._scope, name))
