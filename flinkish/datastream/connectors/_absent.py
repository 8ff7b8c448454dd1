"""Modules of PyFlink's connectors that are not here: importing a name from one says why, and what to use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from flinkish.common.errors import UnsupportedError

_OWN = "write a Source or Sink in Python (flinkish.datastream.connectors.base), with the service's Python client."


def absent(module: str, reason: str, *, see: str = _OWN) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module that is there to be imported from only."""

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):
            # Asked for by Python itself, such as __path__.
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise UnsupportedError(f"{module}.{name} is not supported: {reason}.", hint=see)

    return refuse
