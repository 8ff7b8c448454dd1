"""Samples of all metrics of a process at one time: plain data for the reporters."""

from __future__ import annotations

import statistics
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
    """Return the statistics of one or more values, as Flink computes them; `count` includes older values."""
    # Imported late: most jobs measure no latencies, and numpy takes 0.15 s.
    import numpy as np

    # The position quantile * (n + 1) of Commons Math, which Flink uses, is called "weibull" here.
    quantiles = np.quantile(values, QUANTILES, method="weibull")
    return Histogram(
        count=count,
        min=min(values),
        max=max(values),
        mean=statistics.fmean(values),
        stddev=statistics.stdev(values) if len(values) > 1 else 0.0,
        quantiles=dict(zip(QUANTILES, map(float, quantiles), strict=True)),
    )
