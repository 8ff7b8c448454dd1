"""Evictors, which remove records from a window when it fires; as in Flink's Java API (PyFlink has none)."""

from flinkish.udf.evictors import *  # noqa: F403
