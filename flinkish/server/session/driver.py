"""Whether this process is the driver of a session: all that programs without a server need to know of sessions."""

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
    """Let this driver run the programs of this process from now on."""
    global _driver
    _driver = driver


def session_driver() -> Driver | None:
    """Return the driver of this process; None = the process does not belong to a session."""
    return _driver
