"""Whether this process is the driver of a session: the one fact that programs without a server have to know of sessions."""

from __future__ import annotations

from typing import Protocol

from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.program.program import Program


class Driver(Protocol):
    """Runs the program of a session's job; `reporter.SessionDriver` is one."""

    def execute_async(self, program: Program) -> EmbeddedJobClient:
        """Start the program as the job."""
        ...


_driver: Driver | None = None


def become(driver: Driver) -> None:
    """Run the programs of this process by a driver from now on."""
    global _driver
    _driver = driver


def session_driver() -> Driver | None:
    """Return the driver that this process is; None = it runs jobs of its own."""
    return _driver
