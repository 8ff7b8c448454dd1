"""How things end: every one of them is closed, and what flinkish itself raises to end a task is no error of user code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Unwinding(BaseException):
    """Raised by flinkish itself to end whatever runs, user code included.

    Every other BaseException out of user code is an error of that code: `sys.exit()`, KeyboardInterrupt, a Rust panic.
    """


class Closeable(Protocol):
    """Anything with a close()."""

    def close(self) -> None:
        """Release what it holds."""
        ...


def close_all(closeables: Iterable[Closeable]) -> None:
    """Close all of them, also if some fail; then raise the first error, with the others as its notes."""
    first: BaseException | None = None
    for closeable in closeables:
        try:
            closeable.close()
        except Unwinding:
            raise
        except BaseException as error:
            if first is None:
                first = error
            else:
                first.add_note(f"{type(closeable).__qualname__}.close() failed as well: {type(error).__name__}: {error}")
    if first is not None:
        raise first
