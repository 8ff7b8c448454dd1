"""How things end: every one of them is closed, and what flinkish itself raises to end a task is no error of user code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, Protocol


class Unwinding(BaseException):
    """Raised by flinkish itself to end whatever runs, user code included.

    Every other BaseException out of user code is an error of that code: `sys.exit()`, KeyboardInterrupt, a Rust panic.
    """


P = ParamSpec("P")


def raised_by(function: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> BaseException | None:
    """Call a function and return what it raised, None if nothing; an Unwinding goes on."""
    try:
        function(*arguments, **named)
    except Unwinding:
        raise
    except BaseException as error:
        return error
    return None


class Closeable(Protocol):
    """Anything with a close()."""

    def close(self) -> None:
        """Release what it holds."""
        ...


def close_all(closeables: Iterable[Closeable]) -> None:
    """Close all of them, also if some fail; then raise the first error, with the others as its notes."""
    first: BaseException | None = None
    for closeable in closeables:
        error = raised_by(closeable.close)
        if first is None:
            first = error
        elif error is not None:
            first.add_note(f"{type(closeable).__qualname__}.close() failed as well: {type(error).__name__}: {error}")
    if first is not None:
        raise first
