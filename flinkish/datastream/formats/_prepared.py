"""The common parts of the schemas that read and write messages."""

from __future__ import annotations

from typing import Any, ClassVar


class Prepared:
    """Base of schemas: `_prepare` sets the attributes in `_made`, in the constructor and wherever the schema is unpickled."""

    _made: ClassVar[tuple[str, ...]]

    def _prepare(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()


def shown(message: bytes) -> str:
    """Return a message as text for an error: at most 200 characters, in quotes."""
    text = bytes(message).decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)")
