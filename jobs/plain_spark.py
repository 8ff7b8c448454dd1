"""Runs functions in a process with a session of plain Spark, to compare flinkish with Spark's own queries.

They would be slower in the session that flinkish starts for itself: its JVM has the quick compiler alone.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyspark.sql import SparkSession

from flinkish.engine.spark.installation import delta_jars
from flinkish.engine.spark.spark_settings import DELTA_CLASSES, with_delta

P = ParamSpec("P")
T = TypeVar("T")


def run(function: Callable[Concatenate[SparkSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function of a module returns for the session and some arguments; all calls use the same process."""
    return _process().submit(_call, function, *args, **kwargs).result()


@functools.cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    return function(_session(), *args, **kwargs)


@functools.cache
def _session() -> SparkSession:
    builder: Any = SparkSession.builder
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(len(os.sched_getaffinity(0))),
        "spark.sql.session.timeZone": "UTC",
        **with_delta(DELTA_CLASSES, delta_jars()),
    }
    session: SparkSession = builder.master("local[*]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
