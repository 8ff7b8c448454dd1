"""Decorators for methods that Flink has, but flinkish does not support."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from flinkish.common.errors import InvalidProgramError, UnsupportedError

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def not_supported(reason: str, *, see: str | None = None) -> Callable[[MethodT], MethodT]:
    """Make a method raise UnsupportedError with the reason; its signature stays visible.

    `see` says what to use instead. The reason is the method's attribute `__not_supported__`, which the page on support reads.
    """

    def mark(method: MethodT) -> MethodT:
        @functools.wraps(method)
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise UnsupportedError(f"{method.__qualname__} is not supported: {reason}.", hint=see)

        refuse.__not_supported__ = reason  # type: ignore[attr-defined]
        return refuse  # type: ignore[return-value]

    return mark


def refused(reason: str, *, see: str | None = None) -> Callable[[MethodT], MethodT]:
    """Make a method raise InvalidProgramError: this class inherits it, but it has no meaning here, as in Flink."""

    def mark(method: MethodT) -> MethodT:
        @functools.wraps(method)
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise InvalidProgramError(reason, hint=see)

        refuse.__refused__ = reason  # type: ignore[attr-defined]
        return refuse  # type: ignore[return-value]

    return mark
