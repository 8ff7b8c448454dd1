"""Unit tests start no process and use no server: what needs them, Delta tables or many whole jobs, is in tests/integration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

_FORBIDDEN = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind", "socket.connect")

#: What the running unit test has done of this; None = another test runs. An audit hook cannot be removed.
_seen: list[str] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event in _FORBIDDEN:
        _seen.append(event)
        raise RuntimeError(f"{event}: a test in tests/unit starts no process and uses no socket; tests/integration is for those")


sys.addaudithook(_audit)


#: Fixtures that start a server or a JVM, once for all tests.
_SERVERS = {"running_s3", "running_clouds", "kafka", "spark_session"}


@pytest.fixture(autouse=True)
def pure(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that starts a process or uses a socket is red, also if the code under test hides the error."""
    global _seen
    assert not _SERVERS & set(request.fixturenames)
    _seen = seen = []
    yield
    _seen = None
    assert not seen
