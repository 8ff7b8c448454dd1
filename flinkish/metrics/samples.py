"""Samples of all metrics of a process at one time: plain data for the reporters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flinkish.metrics.catalog import Scope

#: The quantiles of histograms, as Flink reports them.
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Statistics of the values that a histogram remembers; `count` also includes those that it has dropped."""

    count: int
    min: float
    max: float
    mean: float
    stddev: float
    quantiles: Mapping[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The value of one metric in one scope; `labels` has the variables of the scope, by Flink's names and unfiltered."""

    scope: Scope
    name: str
    #: A number, a str, or a Histogram.
    value: Any
    labels: Mapping[str, str]
    #: Of a metric in groups of a key and a value: its name without the values, and the values by their keys.
    logical_name: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


def histogram(values: Sequence[float], count: int) -> Histogram:
    """Return the statistics of one or more values, as commons-math computes them for Flink; `count` includes older values."""
    ordered = sorted(values)
    size = len(ordered)
    mean = sum(ordered) / size
    variance = sum((value - mean) ** 2 for value in ordered) / (size - 1) if size > 1 else 0.0
    return Histogram(
        count=count,
        min=ordered[0],
        max=ordered[-1],
        mean=mean,
        stddev=variance**0.5,
        quantiles={share: _quantile(ordered, share) for share in QUANTILES},
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) + 1)
    below = int(position)
    if below < 1:
        return ordered[0]
    if below >= len(ordered):
        return ordered[-1]
    return ordered[below - 1] + (position - below) * (ordered[below] - ordered[below - 1])
