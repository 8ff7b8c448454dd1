"""Metrics of user functions, with the names of pyflink.metrics, and the registry that holds their values."""

from flinkish.metrics.metricbase import Counter, Distribution, Gauge, Meter, Metric, MetricGroup
from flinkish.metrics.registry import MetricRegistry

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup", "MetricRegistry"]
