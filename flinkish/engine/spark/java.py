"""The JVM: access to its classes, and its process as seen from the driver and from an executor's Python workers."""

from __future__ import annotations

import functools
import os
from typing import Any

import psutil
from py4j.java_gateway import JavaClass

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId, this_process


def java_class(jvm: Any, name: str) -> Any:
    """Return a class by its full name, in no call to the JVM; `jvm.java.lang.System` is one for each part of the name."""
    return JavaClass(name, jvm._gateway_client)


def jvm_of(context: Any) -> ProcessId:
    """Return the process of a context's JVM."""
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
