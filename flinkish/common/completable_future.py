"""CompletableFuture: the result of a request to a running job."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import TypeVar

T = TypeVar("T")

#: Maximum seconds of one wait of the main thread. Only it handles signals, and it does so when it runs: if the kernel has given a
#: signal to another thread, as it may when a stopped process goes on, nothing wakes it.
LONGEST_WAIT_S = 1.0


class CompletableFuture(Future[T]):
    """A result that becomes available later. The first of `set_result`, `set_exception` and `cancel` wins; thread-safe.

    `cancel` cancels the wait for the result, not the job.
    """

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

    def set_result(self, value: T) -> bool:  # type: ignore[override]
        """Complete with a result; return False if the future was already completed."""
        try:
            super().set_result(value)
        except InvalidStateError:
            return False
        return True

    def set_exception(self, error: BaseException) -> bool:  # type: ignore[override]
        """Complete with an error; return False if the future was already completed."""
        try:
            super().set_exception(error)
        except InvalidStateError:
            return False
        return True

    def exception(self) -> BaseException | None:  # type: ignore[override]
        """Return the error of a future that failed, else None. Does not wait."""
        if not self.done():
            return None
        return CancelledError() if self.cancelled() else super().exception()

    def pass_on(self, target: CompletableFuture[T]) -> None:
        """Complete another future like this one, as soon as this one is completed."""

        def complete(_: object) -> None:
            error = self.exception()
            if error is not None:
                target.set_exception(error)
            else:
                target.set_result(self.result())

        self.add_done_callback(complete)

    def __repr__(self) -> str:
        if not self.done():
            return "<CompletableFuture: not completed>"
        outcome = self.exception() or super().result()
        return f"<CompletableFuture: {outcome!r}>"

    def __str__(self) -> str:
        if not self.done():
            state = "not completed"
        elif self.exception() is not None:
            state = "completed exceptionally"
        else:
            state = "completed normally"
        return f"CompletableFuture[{state}]"
