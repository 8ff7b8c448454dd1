"""CompletableFuture: the answer of a job that runs elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """A result that will be there later. The first of `set_result`, `set_exception` and `cancel` wins; safe between threads."""

    def __init__(self) -> None:
        self._future: Future[T] = Future()

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """Return a future that has its result."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_result(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture[T]:
        """Return a future that has failed."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_exception(error)
        return future

    def set_result(self, value: T) -> bool:
        """Complete; return False if it was completed before."""
        try:
            self._future.set_result(value)
        except InvalidStateError:
            return False
        return True

    def set_exception(self, error: BaseException) -> bool:
        """Complete with an error; return False if it was completed before."""
        try:
            self._future.set_exception(error)
        except InvalidStateError:
            return False
        return True

    def cancel(self) -> bool:
        """Complete as cancelled, unless completed; return whether it is cancelled now.

        It cancels the waiting for the answer, not the job.
        """
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether it was cancelled before it completed."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether it is completed in any way."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it; raises the error it was completed with.

        `timeout` is in seconds; raises TimeoutError when they are over, and CancelledError if the future was cancelled.
        """
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """Return the error it was completed with; None if there is none (yet). Does not wait."""
        if not self._future.done():
            return None
        return CancelledError() if self._future.cancelled() else self._future.exception()

    def add_done_callback(self, callback: Callable[[CompletableFuture[T]], object]) -> None:
        """Call `callback` with this future once it is completed, in the thread that completes it; at once if it is already."""
        self._future.add_done_callback(lambda _: callback(self))

    def __str__(self) -> str:
        if not self.done():
            state = "not completed"
        elif self.exception() is not None:
            state = "completed exceptionally"
        else:
            state = "completed normally"
        return f"CompletableFuture[{state}]"
