"""Retry strategies for calls of asynchronous functions, with PyFlink's names."""

from flinkish.udf.async_retry_strategies import *  # noqa: F403
