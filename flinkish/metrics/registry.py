"""The registry of the metrics of one subtask, which holds them by dotted name.

The values are plain data, as they are sent with the subtask's report; `merge` combines the values of several subtasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from flinkish.common.clock import Clock
from flinkish.common.closing import Unwinding
from flinkish.common.errors import InvalidArgumentError
from flinkish.metrics.metricbase import Gauge, Metric, MetricGroup

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
        self.root = MetricGroup(self)

    def values(self) -> dict[str, Any]:
        """Return all values by dotted name: numbers and texts; for a meter and a distribution a dict of numbers.

        A metric without a value (None) is left out; so is one that cannot be read, or whose value is neither a number nor a text,
        and it is logged the first time.
        """
        values: dict[str, Any] = {}
        for name, metric in self._metrics.items():
            try:
                value = metric.read()
            except Unwinding:
                raise
            except BaseException as error:
                if name not in self._failed:
                    self._failed.add(name)
                    _LOG.warning(
                        "The %s %s cannot be read, so it is left out: %s: %s",
                        type(metric).__name__.lower(), name, type(error).__name__, error,
                    )  # fmt: skip
            else:
                if value is not None:
                    values[name] = value
        return values

    def labelled(self) -> dict[str, Labelled]:
        """Return names and labels of the metrics in groups of a key and a value, by their dotted names."""
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
            raise InvalidArgumentError(
                f"the metric '{name}' is a {type(metric).__name__} already, so it cannot be a {kind.__name__} too"
            )
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
    if not isinstance(left, Mapping) or not isinstance(right, Mapping) or left.keys() != right.keys():
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
