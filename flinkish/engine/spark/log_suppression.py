"""Suppresses messages about an intended end: Spark reports cancelled tasks and stopped queries as errors with stack traces."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flinkish.engine.spark.jvm import java_class

#: Loggers that report an intended end as an error.
_JVM_LOGGERS = ("org.apache.spark", "org.apache.hadoop", "org.sparkproject")
_LOG4J = "org.apache.logging.log4j"
#: Priority of a shutdown hook; those of Spark and Hadoop go up to 50.
_FIRST_AT_SHUTDOWN = 1_000
#: The name that the Scala compiler gives the private queue of Spark's event loop.
_QUEUE = "org$apache$spark$util$EventLoop$$eventQueue"

_lock = threading.Lock()
#: Number of users of `suppress_jvm_logs`; the first turns the loggers off, the last restores their levels.
_holders = 0
#: Calls that restore the levels.
_restore = contextlib.ExitStack()


def silence_py4j() -> None:
    """Stop py4j from logging each broken connection: those that matter are raised as exceptions."""
    logger = logging.getLogger("py4j")
    logger.setLevel(logging.CRITICAL + 1)
    logger.propagate = False
    # py4j also uses the root logger. A filter of that logger does not see records of other loggers.
    # It is added once only, as it is the same function in each call.
    logging.getLogger().addFilter(_is_not_from_py4j)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def silence_accumulators(context: Any) -> None:
    """Stop the server of accumulator updates from printing a traceback when the JVM is gone."""
    with contextlib.suppress(AttributeError):
        context._accumulatorServer.handle_error = lambda *_: None


@contextlib.contextmanager
def suppress_jvm_logs(jvm: Any) -> Iterator[None]:
    """Turn off the loggers of Spark and Hadoop within the `with` block; does nothing if the JVM is gone."""
    global _holders
    with _lock:
        _holders += 1
        if _holders == 1:
            with contextlib.suppress(Exception):
                _turn_off(jvm)
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                with contextlib.suppress(Exception):
                    _restore.close()


def scheduler_is_idle(context: Any) -> bool:
    """Return True once Spark's scheduler has handled all that it was sent before this call; False if it still works.

    `cancelJobGroup` and `query.stop()` only put a message into the scheduler's queue. If the group has no job any more, the
    scheduler warns of it later, when it takes the message out. The ends of tasks are handled, and warned of, by other threads.
    """
    spark = context._jsc.sc()
    loop = spark.dagScheduler().eventProcessLoop()
    results = spark.taskScheduler().taskResultGetter().getTaskResultExecutor()
    # The order matters: a message that has left the queue is handled once the thread waits for the next one.
    return bool(
        results.getQueue().isEmpty()
        and results.getActiveCount() == 0
        and getattr(loop, _QUEUE)().isEmpty()
        and loop.eventThread().getState().name() == "WAITING"
    )


def silence_shutdown(gateway: Any) -> None:
    """Turn off the JVM's logging and its stderr when it begins to shut down, as it does on a signal to spark-submit.

    From then on, tasks and threads fail one after the other, each with a stack trace, and cannot be cancelled in time. Shutdown
    hooks of Spark and Hadoop run in the order of their priorities; this one runs before all of them.
    """
    with contextlib.suppress(Exception):
        jvm = gateway.jvm
        configurator = "org.apache.logging.log4j.core.config.Configurator"
        _at_shutdown(gateway, configurator, "setAllLevels", "", jvm.org.apache.logging.log4j.Level.OFF)
        nowhere = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
        _at_shutdown(gateway, "java.lang.System", "setErr", nowhere)


def _at_shutdown(gateway: Any, class_name: str, method: str, *arguments: Any) -> None:
    """Have the JVM call a static method when its shutdown begins."""
    jvm = gateway.jvm
    array = gateway.new_array(jvm.java.lang.Object, len(arguments))
    for index, argument in enumerate(arguments):
        array[index] = argument
    statement = jvm.java.beans.Statement(jvm.java.lang.Class.forName(class_name), method, array)
    runnable = jvm.java.beans.EventHandler.create(jvm.java.lang.Class.forName("java.lang.Runnable"), statement, "execute")
    jvm.org.apache.hadoop.util.ShutdownHookManager.get().addShutdownHook(runnable, _FIRST_AT_SHUTDOWN)


def _turn_off(jvm: Any) -> None:
    """Turn the loggers off, in few calls to the JVM, because every job does so at its end."""
    context = java_class(jvm, f"{_LOG4J}.LogManager").getContext(False)
    configuration = context.getConfiguration()
    # One call returns "[name, name, ...]"; an iteration takes two calls for each name.
    names = configuration.getLoggers().keySet().toString().strip("[]").split(", ")
    _restore.callback(context.updateLoggers)
    for name in names:
        if name.startswith(_JVM_LOGGERS):
            logger = configuration.getLoggerConfig(name)
            _restore.callback(logger.setLevel, logger.getLevel())
    for name in _JVM_LOGGERS:
        if name not in names:
            _restore.callback(configuration.removeLogger, name)
    turn_all, off = java_class(jvm, f"{_LOG4J}.core.config.Configurator").setAllLevels, java_class(jvm, f"{_LOG4J}.Level").OFF
    for name in _JVM_LOGGERS:
        turn_all(name, off)
