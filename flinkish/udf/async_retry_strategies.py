"""Retry strategies for calls of asynchronous functions, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from flinkish.common.arguments import callable_of, number_of
from flinkish.common.time import AmountOfTime, milliseconds_of

__all__ = [
    "NO_RETRY_STRATEGY",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

ResultPredicate = Callable[[list[Any]], bool] | None
ExceptionPredicate = Callable[[Exception], bool] | None


class AsyncRetryPredicate(ABC):
    """Decides which calls of an AsyncFunction are retried."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate:
        """Return a predicate on a call's results that decides whether to retry; None = results never cause a retry."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate:
        """Return a predicate on a call's error that decides whether to retry; None = errors never cause a retry."""


class AsyncRetryStrategy(ABC):
    """Decides how often, and after which delay, a call of an AsyncFunction is retried.

    One object serves all calls of a subtask, many of them at the same time.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another try is allowed after `current_attempts` tries."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay before the next try, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return the predicate that decides which calls are retried."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Return the strategy that makes each call once."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int | AmountOfTime,
        result_predicate: ResultPredicate,
        exception_predicate: ExceptionPredicate,
    ) -> AsyncRetryStrategy:
        """Return a strategy that retries up to `max_attempts` times, each time after the same delay."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int | AmountOfTime,
        max_retry_delay: int | AmountOfTime,
        multiplier: float,
        result_predicate: ResultPredicate,
        exception_predicate: ExceptionPredicate,
    ) -> AsyncRetryStrategy:
        """Return a strategy that retries up to `max_attempts` times, after growing delays (milliseconds)."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate):
    """The predicates that decide by a call's results or by its error whether to retry it."""

    def __init__(self, result_predicate: ResultPredicate, exception_predicate: ExceptionPredicate) -> None:
        for name, predicate in (("result_predicate", result_predicate), ("exception_predicate", exception_predicate)):
            if predicate is not None:
                callable_of(name, predicate, "None or a function")
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """A strategy without retries: each call is made once."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class _CountedRetryStrategy(AsyncRetryStrategy):
    """Retries a call at most `max_attempts` times."""

    def __init__(self, max_attempts: int, result_predicate: ResultPredicate, exception_predicate: ExceptionPredicate) -> None:
        self._max_attempts = number_of("max_attempts", max_attempts, above=0)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class FixedDelayRetryStrategy(_CountedRetryStrategy):
    """Retries a call at most `max_attempts` times, each time after a pause of `backoff_time_millis` (int: ms).

    >>> strategy = FixedDelayRetryStrategy(2, 100, lambda results: not results, None)
    >>> [strategy.can_retry(attempt) for attempt in (1, 2, 3)], strategy.get_backoff_time_millis(2)
    ([True, True, False], 100)
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int | AmountOfTime,
        result_predicate: ResultPredicate,
        exception_predicate: ExceptionPredicate,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._backoff_time_millis = _millis(backoff_time_millis, "backoff_time_millis")

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return int(self._backoff_time_millis)


class ExponentialBackoffDelayRetryStrategy(_CountedRetryStrategy):
    """Retries a call at most `max_attempts` times, after pauses that grow by a factor.

    The pauses grow from `initial_delay` to at most `max_retry_delay` (int: ms), each `multiplier` times as long as the last.

    Differs from Flink: the pause depends only on the number of the attempt. In Flink, concurrent calls affect each other's
    pauses, because the strategy stores only the last pause of all calls.

    >>> strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 1000, 3, None, lambda error: True)
    >>> [strategy.get_backoff_time_millis(attempt) for attempt in (1, 2, 3, 4)]
    [100, 300, 900, 1000]
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int | AmountOfTime,
        max_retry_delay: int | AmountOfTime,
        multiplier: float,
        result_predicate: ResultPredicate,
        exception_predicate: ExceptionPredicate,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._initial_delay = _millis(initial_delay, "initial_delay")
        self._max_retry_delay = _millis(max_retry_delay, "max_retry_delay")
        self._multiplier = number_of("multiplier", multiplier, above=0)

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay = int(self._initial_delay)
        for _ in range(current_attempts - 1):
            delay = int(min(delay * self._multiplier, self._max_retry_delay))
        return delay


def _millis(value: object, argument: str) -> float:
    # As in PyFlink, a number may have a fraction.
    given = isinstance(value, (int, float))
    millis = value if given else milliseconds_of(value, argument, rule="must be milliseconds (int)")
    return number_of(argument, millis, above=0)


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()
