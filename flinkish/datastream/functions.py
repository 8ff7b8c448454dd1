"""Interfaces of user functions, and of the contexts with which they are called.

A function object is pickled once when the job is built and lives as long as its subtask: `open` is called before the first
record, `close` after the last. All keys of a subtask share the object; data of one key belongs in state.
"""

from flinkish.common.absent import add_getattr as _add_getattr
from flinkish.udf.async_retry_strategies import AsyncRetryPredicate as AsyncRetryPredicate
from flinkish.udf.async_retry_strategies import AsyncRetryStrategy as AsyncRetryStrategy
from flinkish.udf.checkpoint import *  # noqa: F403
from flinkish.udf.functions import *  # noqa: F403
from flinkish.udf.timerservice import TimerService as TimerService

_add_getattr(__name__)
