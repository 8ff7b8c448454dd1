"""Interfaces of user functions, and of the contexts with which they are called.

A function object is pickled once when the job is built and lives as long as its subtask: `open` is called before the first
record, `close` after the last. All keys of a subtask share the object; data of one key belongs in state.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from flinkish.common.absent import names_of as _names_of
from flinkish.udf.async_retry_strategies import AsyncRetryPredicate as AsyncRetryPredicate
from flinkish.udf.async_retry_strategies import AsyncRetryStrategy as AsyncRetryStrategy
from flinkish.udf.checkpoint import *  # noqa: F403
from flinkish.udf.functions import *  # noqa: F403
from flinkish.udf.timerservice import TimerService as TimerService

if not _TYPE_CHECKING:
    # Absent names of PyFlink; hidden from type checkers, which would accept any name otherwise.
    __getattr__ = _names_of(__name__)
