"""AsyncDataStream: asynchronous functions on streams."""

from __future__ import annotations

import inspect
from typing import cast

from flinkish.common.arguments import instance_of, int_of
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.pickling import check_serializable
from flinkish.common.time import AmountOfTime, milliseconds_of
from flinkish.common.typeinfo import TypeInformation, type_of
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.shapes import Invokes, T, U
from flinkish.program.operators import AsyncWaitConfig
from flinkish.udf.async_retry_strategies import NO_RETRY_STRATEGY, AsyncRetryPredicate, AsyncRetryStrategy, NoRetryStrategy
from flinkish.udf.function_wrappers import check_kind
from flinkish.udf.functions import AsyncFunction

__all__ = ["AsyncDataStream"]


class AsyncDataStream:
    """Calls an asynchronous function for each record, with many calls at a time.

    `timeout` limits a whole call with all of its retries; an amount of 0 = no limit. `capacity` is the maximum number of
    concurrent calls of one subtask. A call that times out returns the results of the function's `timeout()`. If the job restarts
    from a checkpoint, calls made after the checkpoint are repeated.

    Differs from Flink: an epoch waits for its calls, so it takes at least as long as the slowest call; calls should take much
    less time than execution.checkpointing.timeout.

    Example:

        >>> from flinkish.common import Time, Types
        >>> from flinkish.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
        >>> class Lookup(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         return [value + 1]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([1, 2], Types.INT())
        >>> AsyncDataStream.unordered_wait(numbers, Lookup(), Time.seconds(5), capacity=10, output_type=Types.INT()).get_name()
        'async wait operator'
        >>> results = AsyncDataStream.ordered_wait(numbers, Lookup(), Time.seconds(5))
        >>> thrice = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: isinstance(error, OSError))
        >>> results = AsyncDataStream.ordered_wait_with_retry(numbers, Lookup(), Time.seconds(5), thrice)
        >>> results = AsyncDataStream.unordered_wait_with_retry(numbers, Lookup(), Time.seconds(5), thrice)
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: Invokes[T, U],
        timeout: AmountOfTime,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Emit results in the order of completion, but never across a watermark."""
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: Invokes[T, U],
        timeout: AmountOfTime,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Emit results in the order of completion, but never across a watermark; retry calls by the strategy."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=False)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: Invokes[T, U],
        timeout: AmountOfTime,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Emit results in the order of the records."""
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: Invokes[T, U],
        timeout: AmountOfTime,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Emit results in the order of the records; retry calls by the strategy."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=True)


def _wait(
    data_stream: DataStream[T],
    function: object,
    timeout: AmountOfTime,
    strategy: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeInformation | None,
    *,
    ordered: bool,
) -> DataStream:
    method = "ordered_wait" if ordered else "unordered_wait"
    instance_of(f"{method}()", data_stream, DataStream)
    _check_function(function, method)
    milli = milliseconds_of(timeout, f"timeout of {method}()", hint="for example Time.seconds(5).")
    _check_strategy(strategy, milli)
    int_of("capacity", capacity, minimum=1)
    config = AsyncWaitConfig(
        function=cast(AsyncFunction, function), timeout=max(milli, 0), capacity=capacity, retry_strategy=strategy, ordered=ordered
    )
    return data_stream._one_input("async wait operator", config, type_of(output_type, method), keyed=False)


def _check_function(function: object, method: str) -> None:
    """Raise an error unless the function is an AsyncFunction; messages are Flink's where it has one."""
    if not inspect.iscoroutinefunction(getattr(function, "async_invoke", None)) and hasattr(function, "async_invoke"):
        raise InvalidArgumentError(
            f"Method 'async_invoke' of class '{type(function)}' should be declared as 'async def'.",
            hint="put blocking calls into a MapFunction, or into `await asyncio.to_thread(...)`.",
        )
    check_kind(function, AsyncFunction, method, hint="a class with `async def async_invoke(self, value)`.")
    for name in ("open", "close", "timeout"):
        if inspect.iscoroutinefunction(getattr(function, name)):
            raise InvalidArgumentError(
                f"Method '{name}' of class '{type(function)}' must not be declared as 'async def'.",
                hint="make clients that need the event loop in the first call of async_invoke.",
            )


def _check_strategy(given: object, timeout: int) -> None:
    if given is None:
        raise InvalidArgumentError("Async retry strategy should not be None.", hint="AsyncRetryStrategy.no_restart().")
    strategy = instance_of("async_retry_strategy", given, AsyncRetryStrategy)
    if not isinstance(strategy, NoRetryStrategy) and timeout <= 0:
        raise InvalidArgumentError("Timeout should be configured when do async with retry.")
    predicate = strategy.get_retry_predicate()
    if predicate is None:
        raise InvalidArgumentError(f"Retry predicate of the async retry strategy '{type(strategy)}' is None.")
    if not isinstance(predicate, AsyncRetryPredicate):
        raise InvalidArgumentError(f"get_retry_predicate() must return an AsyncRetryPredicate; got {predicate!r}.")
    check_serializable(strategy, f"the retry strategy {type(strategy).__name__}")
