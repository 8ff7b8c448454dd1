"""CompletableFuture: the result of a request to a running job."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """A result that becomes available later. The first of `set_result`, `set_exception` and `cancel` wins; thread-safe."""

    def __init__(self) -> None:
        self._future: Future[T] = Future()

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """Return a future that is completed with this result."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_result(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture[T]:
        """Return a future that is completed with this error."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_exception(error)
        return future

    def set_result(self, value: T) -> bool:
        """Complete with a result; return False if the future was already completed."""
        return _done(self._future.set_result, value)

    def set_exception(self, error: BaseException) -> bool:
        """Complete with an error; return False if the future was already completed."""
        return _done(self._future.set_exception, error)

    def cancel(self) -> bool:
        """Complete as cancelled unless already completed; return whether the future is now cancelled.

        This cancels the wait for the result, not the job.
        """
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether the future was cancelled before it completed."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether the future is completed: with a result, with an error or as cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it; raise the error if the future was completed with one.

        Raises TimeoutError after `timeout` seconds (None = no limit), and CancelledError if the future was cancelled.
        """
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """Return the error of a future that failed, else None. Does not wait."""
        if not self._future.done():
            return None
        return CancelledError() if self._future.cancelled() else self._future.exception()

    def add_done_callback(self, callback: Callable[[CompletableFuture[T]], object]) -> None:
        """Call `callback` with this future as soon as it is completed, in the completing thread; at once if it already is."""
        self._future.add_done_callback(lambda _: callback(self))

    def __repr__(self) -> str:
        if not self.done():
            return "<CompletableFuture: not completed>"
        outcome = self.exception() or self._future.result()
        return f"<CompletableFuture: {outcome!r}>"

    def __str__(self) -> str:
        if not self.done():
            state = "not completed"
        elif self.exception() is not None:
            state = "completed exceptionally"
        else:
            state = "completed normally"
        return f"CompletableFuture[{state}]"


def _done(complete: Callable[[Any], None], value: object) -> bool:
    try:
        complete(value)
    except InvalidStateError:
        return False
    return True
