"""The Spark session of the driver, for sinks that hand over DataFrames; found by name, as engines are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from flinkish.common.configuration import Configuration

_MODULE = "flinkish.engine.spark.session"


def open_session(configuration: Configuration) -> tuple[Any, Callable[[], None]]:
    """Return the user's SparkSession, or the one of flinkish, and what gives it back.

    Raises EngineError if there is none and none can be made.
    """
    session, release = importlib.import_module(_MODULE).open_session(configuration)
    return session, release
