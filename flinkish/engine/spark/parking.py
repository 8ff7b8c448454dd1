"""Keeps the session that flinkish made between two jobs, so that the next one need not start Spark's context again, in seconds.

The program does not see it: PySpark forgets it, and a context that the program makes stops it before.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from flinkish.engine.spark.log_suppression import suppress_jvm_logs

#: PySpark calls it as the first step of each new context.
_FIRST_STEP = "_ensure_initialized"
_first_step = SparkContext.__dict__[_FIRST_STEP]

_parked: SparkSession | None = None
#: Keeps the JVM quiet from the stop of one session to the start of the next.
_quiet_after_stop = contextlib.ExitStack()


def works(session: SparkSession) -> bool:
    """Return whether its context runs: a program that has got hold of it may have stopped it, and it may end by itself."""
    with contextlib.suppress(Exception):
        jsc: Any = session.sparkContext._jsc
        return jsc is not None and not jsc.sc().isStopped()
    return False


def park(session: SparkSession) -> None:
    """Hide a session that works, until `unpark`."""
    global _parked
    _parked = session
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    _stop_at_exit()


def unpark() -> SparkSession | None:
    """Return the parked session, which the program sees from now on; None if there is none."""
    session = _forget()
    if session is not None and not works(session):
        stop(session)
        return None
    if session is not None:
        SparkContext._active_spark_context = session.sparkContext
        SparkSession._instantiatedSession = session
    return session


def _forget() -> SparkSession | None:
    global _parked
    session, _parked = _parked, None
    return session


def stop(session: SparkSession) -> None:
    """Stop a session quietly: threads of its context keep failing for a while, with stack traces."""
    _quiet_after_stop.enter_context(suppress_jvm_logs(session.sparkContext._jvm))
    with contextlib.suppress(Exception):
        session.stop()


def end_quiet() -> None:
    """Turn the JVM's logs on again, as a new session is there or the JVM is gone."""
    _quiet_after_stop.close()


def _stop_parked() -> None:
    session = unpark()
    if session is not None:
        stop(session)


@functools.cache
def _stop_at_exit() -> None:
    atexit.register(_stop_parked)
    # A forked process has neither the threads nor the JVM of this session.
    os.register_at_fork(after_in_child=_forget)


def _give_way(instance: SparkContext | None = None, *args: Any, **kwargs: Any) -> None:
    if instance is not None:
        _stop_parked()
        end_quiet()
    _first_step.__get__(None, SparkContext)(instance, *args, **kwargs)


setattr(SparkContext, _FIRST_STEP, staticmethod(_give_way))
