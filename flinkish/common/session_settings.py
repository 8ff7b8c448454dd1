"""Changes settings of a SparkSession for a while; the session may be of any kind, so pyspark is not needed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def session_settings(session: Any, values: Mapping[str, str]) -> Iterator[None]:
    """Set some settings of a SparkSession within the `with` block; then each has its former value, or none, again."""
    before = {key: session.conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)
