"""The jars of Spark's own Kafka source, fetched once."""

from __future__ import annotations

from pathlib import Path

import pyspark

from tests.kit.jars import fetch, jar_folder

JARS = jar_folder("spark-kafka", pyspark.__version__)


def connector_jars() -> list[Path]:
    """Return the jars, after fetching them unless they are there; raises MissingJarsError."""
    fetch("spark-kafka", JARS)
    return sorted(JARS.glob("*.jar"))
