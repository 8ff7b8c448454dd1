"""The implementation of metrics, and the registry of one subtask, which holds all values by dotted name.

The values are plain data, as they are sent with the subtask's report; `merge` combines the values of several subtasks.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from flinkish.common.arguments import int_of, text_of
from flinkish.common.clock import Clock
from flinkish.common.closing import Unwinding
from flinkish.common.errors import InvalidArgumentError
from flinkish.metrics.metricbase import Counter, Distribution, Gauge, Meter, Metric, MetricGroup
from flinkish.metrics.plain import plain

__all__ = ["Labelled", "MetricRegistry", "merge"]

_LOG = logging.getLogger(__name__)

M = TypeVar("M", bound=Metric)

#: Of a metric in a group of a key and a value: its dotted name without the values, and the keys with their values.
Labelled = tuple[str, tuple[tuple[str, str], ...]]


class MetricRegistry:
    """All metrics of one subtask; each operator has a group of its own.

    >>> from flinkish.common.clock import ManualClock
    >>> registry = MetricRegistry(ManualClock())
    >>> registry.root.add_group("parser").counter("errors").inc()
    >>> registry.values()
    {'parser.errors': 1}
    """

    def __init__(self, clock: Clock) -> None:
        #: The clock of the meters.
        self.clock = clock
        self._metrics: dict[str, Metric] = {}
        self._failed: set[str] = set()
        self._labelled: dict[str, Labelled] = {}
        #: The group that user functions get from their runtime context.
        self.root: MetricGroup = _Group(self, (), (), ())

    def values(self) -> dict[str, Any]:
        """Return all values by dotted name: numbers and texts; for a meter and a distribution a dict of numbers.

        A metric without a value (None) is left out; so is one that cannot be read, or whose value is neither a number nor a text,
        and it is logged the first time.
        """
        values: dict[str, Any] = {}
        for name, metric in self._metrics.items():
            try:
                value = _READERS[type(metric)](metric)
            except Unwinding:
                raise
            except BaseException as error:
                if name not in self._failed:
                    self._failed.add(name)
                    _LOG.warning(
                        "The %s %s cannot be read, so it is left out: %s: %s",
                        _kind(metric).lower(), name, type(error).__name__, error,
                    )  # fmt: skip
            else:
                if value is not None:
                    values[name] = value
        return values

    def labelled(self) -> dict[str, Labelled]:
        """Return, by their dotted names, what there is to know of the metrics in groups of a key and a value."""
        return dict(self._labelled)

    def label(self, name: str, labelled: Labelled) -> None:
        """Note that a metric is in groups of a key and a value."""
        self._labelled.setdefault(name, labelled)

    def register(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        """Return the metric with this name; create it if there is none.

        Raises InvalidArgumentError if there is a metric of another kind with this name.
        """
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = make()
        if not isinstance(metric, kind):
            raise InvalidArgumentError(f"the metric '{name}' is a {_kind(metric)} already, so it cannot be a {kind.__name__} too")
        return metric

    def set_gauge(self, name: str, gauge: Gauge) -> None:
        """Register a gauge; it replaces a gauge with the same name, and a warning is logged.

        Raises InvalidArgumentError if there is a metric of another kind with this name.
        """
        if self.register(name, Gauge, lambda: gauge) is not gauge:
            _LOG.warning("There is a gauge %s already, which is replaced.", name)
            self._metrics[name] = gauge


def merge(subtasks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Combine the values of several subtasks.

    Numbers, counts and rates are added; a merged distribution has the smallest and the largest value of all. Of other values, one
    is kept, whichever it is.
    """
    merged: dict[str, Any] = {}
    for values in subtasks:
        for name, value in values.items():
            merged[name] = value if name not in merged else _merge_values(merged[name], value)
    return merged


def _merge_values(left: Any, right: Any) -> Any:
    if not isinstance(left, Mapping) or not isinstance(right, Mapping):
        return left + right if _is_number(left) and _is_number(right) else right
    if "rate" in left:
        return {"count": left["count"] + right["count"], "rate": left["rate"] + right["rate"]}
    if not left["count"] or not right["count"]:
        return dict(left if left["count"] else right)
    return {
        "count": left["count"] + right["count"],
        "sum": left["sum"] + right["sum"],
        "min": min(left["min"], right["min"]),
        "max": max(left["max"], right["max"]),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(metric: Metric) -> str:
    return type(metric).__name__.lstrip("_")


class _Group(MetricGroup):
    def __init__(
        self, registry: MetricRegistry, scope: tuple[str, ...], logical: tuple[str, ...], labels: tuple[tuple[str, str], ...]
    ) -> None:
        """`logical` is the scope without the values of keys, which are in `labels` with their keys."""
        self._registry = registry
        self._scope = scope
        self._logical = logical
        self._labels = labels

    def _name(self, name: str) -> str:
        """Return the dotted name of a metric in this group."""
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

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        self._checked(name)
        if extra is None:
            return _Group(self._registry, (*self._scope, name), (*self._logical, name), self._labels)
        self._checked(extra)
        return _Group(self._registry, (*self._scope, name, extra), (*self._logical, name), (*self._labels, (name, extra)))

    def counter(self, name: str) -> Counter:
        return self._registry.register(self._name(name), Counter, _Counter)

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        if not callable(obj):
            raise InvalidArgumentError(f"gauge('{name}', ...) expects a function without arguments; got {obj!r}")
        self._registry.set_gauge(self._name(name), _Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        int_of("time_span_in_seconds", time_span_in_seconds, minimum=1)
        clock = self._registry.clock
        return self._registry.register(self._name(name), Meter, lambda: _Meter(clock, time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        return self._registry.register(self._name(name), Distribution, _Distribution)


class _Counter(Counter):
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count


class _Gauge(Gauge):
    def __init__(self, function: Callable[[], int | float]) -> None:
        self._function = function

    def get_value(self) -> int | float:
        return self._function()


class _Meter(Meter):
    """Counts events in buckets of one second, so that the cost of marking does not depend on the rate."""

    def __init__(self, clock: Clock, time_span_in_seconds: int) -> None:
        self._clock = clock
        self._span = time_span_in_seconds
        self._count = 0
        self._buckets: deque[list[int]] = deque()

    def mark_event(self, value: int = 1) -> None:
        self._count += value
        second = self._clock.monotonic() // 1000
        if self._buckets and self._buckets[-1][0] == second:
            self._buckets[-1][1] += value
        else:
            self._drop_old(second)
            self._buckets.append([second, value])

    def get_count(self) -> int:
        return self._count

    def get_rate(self) -> float:
        self._drop_old(self._clock.monotonic() // 1000)
        return sum(bucket[1] for bucket in self._buckets) / self._span

    def _drop_old(self, second: int) -> None:
        while self._buckets and self._buckets[0][0] <= second - self._span:
            self._buckets.popleft()


class _Distribution(Distribution):
    def __init__(self) -> None:
        self._count = 0
        self._sum: int | float = 0
        self._min: int | float | None = None
        self._max: int | float | None = None

    def update(self, value: int | float) -> None:
        self._count += 1
        self._sum += value
        if self._min is None or value < self._min:
            self._min = value
        if self._max is None or value > self._max:
            self._max = value

    def statistics(self) -> dict[str, Any]:
        return {"count": self._count, "sum": self._sum, "min": self._min, "max": self._max}


#: Return the value of a metric as plain data; None = it has none. By the type itself: isinstance is slow for abstract classes.
_READERS: Mapping[type[Metric], Callable[[Any], Any]] = {
    _Counter: lambda metric: plain(metric.get_count()),
    _Gauge: lambda metric: plain(metric.get_value()),
    _Meter: lambda metric: {"count": plain(metric.get_count()), "rate": plain(metric.get_rate())},
    _Distribution: lambda metric: {name: plain(value) for name, value in metric.statistics().items()},
}
