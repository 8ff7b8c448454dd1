"""The common parts of the schemas that read and write messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flinkish.common.text import shortened

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
    return repr(shortened(bytes(message).decode("utf-8", "backslashreplace")))
