"""Closing of resources, and the exception by which flinkish ends a task, which must not count as an error of user code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, Protocol


class Unwinding(BaseException):
    """Raised by flinkish itself to end running code, including user code.

    Every other BaseException raised in user code is an error of that code: `sys.exit()`, KeyboardInterrupt, a Rust panic.
    """


P = ParamSpec("P")


def raised_by(function: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> BaseException | None:
    """Call a function and return the exception it raised, None if it raised none; an Unwinding is raised again."""
    try:
        function(*arguments, **named)
    except Unwinding:
        raise
    except BaseException as error:
        return error
    return None


class Closeable(Protocol):
    """An object with a close() method."""

    def close(self) -> None:
        """Release all resources."""


def close_all(closeables: Iterable[Closeable]) -> None:
    """Close all of them, even if some fail; then raise the first error, with the others as notes."""
    first: BaseException | None = None
    for closeable in closeables:
        error = raised_by(closeable.close)
        if first is None:
            first = error
        elif error is not None:
            first.add_note(f"{type(closeable).__qualname__}.close() failed as well: {type(error).__name__}: {error}")
    if first is not None:
        raise first
