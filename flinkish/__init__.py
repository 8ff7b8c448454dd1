"""Flink's DataStream API on Spark Structured Streaming."""

__version__ = "0.1.0"
