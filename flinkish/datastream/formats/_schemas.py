"""The common parts of the schemas that read and write messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Made(Generic[T]):
    """A value that a function makes from arguments; it is not pickled, but made again."""

    def __init__(self, make: Callable[..., T], *arguments: Any) -> None:
        self._recipe = (make, *arguments)
        self.value = make(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return Made, self._recipe


def shown(message: bytes) -> str:
    """Return a message as text for an error: at most 200 characters, in quotes."""
    text = bytes(message).decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)")
