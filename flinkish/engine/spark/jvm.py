"""The JVM: its classes, its process as seen from the driver and from an executor's Python workers, and a watch on it."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import psutil
from py4j.java_gateway import JavaClass

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId, this_process

_INTERVAL_S = 0.5
#: 128 + SIGTERM: no process waits for this one, but its end should not look like success.
_EXIT_CODE = 143


def java_class(jvm: Any, name: str) -> Any:
    """Return a class by its full name, in no call to the JVM; `jvm.java.lang.System` is one for each part of the name."""
    return JavaClass(name, jvm._gateway_client)


def jvm_of(context: Any) -> ProcessId:
    pid = int(java_class(context._jvm, "java.lang.ProcessHandle").current().pid())
    found = ProcessId.of(pid)
    if found is None:
        raise EngineError(f"The JVM of Spark, process {pid}, is gone.")
    return found


@functools.cache
def parent_jvm() -> ProcessId:
    """Return the executor's JVM, as seen from one of its Python workers; the parent process if no ancestor is a JVM.

    It stays the same as long as the worker lives; the look-up takes 1 ms.
    """
    for ancestor in psutil.Process().parents():
        try:
            if ancestor.name() == "java" and (found := ProcessId.of(ancestor.pid)) is not None:
                return found
        except psutil.Error:
            continue
    return ProcessId.of(os.getppid()) or this_process()


def watch(jvm: ProcessId, clean_up: Callable[[], None]) -> Callable[[], None]:
    """Watch the JVM of a driver under spark-submit; when it is gone, clean up and end this process quietly.

    SIGTERM to spark-submit ends the JVM only, and would leave the Python process as an orphan. Returns what ends the watch.
    """
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_INTERVAL_S):
            if not jvm.is_alive():
                with contextlib.suppress(Exception):
                    clean_up()
                os._exit(_EXIT_CODE)

    threading.Thread(target=run, name="flinkish-watchdog", daemon=True).start()
    return ended.set
