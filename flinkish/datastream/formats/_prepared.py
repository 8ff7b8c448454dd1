"""What a schema makes from its arguments, and does not pickle."""

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
