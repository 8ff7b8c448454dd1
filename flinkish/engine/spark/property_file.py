"""Passes settings to a new JVM in a file: every user of the machine can read command lines, and settings may be secret."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from flinkish.engine.scratch import DiskFolder

_PREFIX = "flinkish-spark"


@contextlib.contextmanager
def property_file(settings: Mapping[str, str]) -> Iterator[Path]:
    """Yield a file for `--properties-file` of spark-submit that only this user can read; it is removed at the end.

    The file of a process that was killed is removed by the next process that writes one. Raises EngineError if no folder can be
    made, OSError if the file cannot be written.
    """
    folder = DiskFolder(None, _PREFIX)
    try:
        path = folder.path() / "spark.properties"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())
        yield path
    finally:
        folder.remove()


def _escaped(text: str) -> str:
    """Return a text as java.util.Properties reads it: everything but letters, digits and some signs as UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code) in _PLAIN else f"\\u{code:04x}" for code in codes)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/,*[]+%@$")
