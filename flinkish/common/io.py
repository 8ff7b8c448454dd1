"""Input formats of Flink's Java connectors; kept for PyFlink's name."""

from __future__ import annotations

from typing import Any

from flinkish.common.errors import UnsupportedError

__all__ = ["InputFormat"]


class InputFormat:
    """Wraps a Java object in PyFlink; there is none here."""

    def __init__(self, *_: Any) -> None:
        raise UnsupportedError(
            "InputFormat wraps a Java class, and flinkish runs no Java user code",
            hint="read files with FileSource, or write a Source (flinkish.datastream.connectors.base).",
        )
