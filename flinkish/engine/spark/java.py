"""Access to classes of the JVM."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass


def java_class(jvm: Any, name: str) -> Any:
    """Return a class by its full name, in no call to the JVM; `jvm.java.lang.System` is one for each part of the name."""
    return JavaClass(name, jvm._gateway_client)
