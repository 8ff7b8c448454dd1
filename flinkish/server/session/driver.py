"""Whether this process is the driver of a session: all that programs without a server need to know of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkish.server.session.reporter import SessionDriver

_driver: SessionDriver | None = None


def become(driver: SessionDriver) -> None:
    """Let this driver run the programs of this process from now on."""
    global _driver
    _driver = driver


def session_driver() -> SessionDriver | None:
    """Return the driver of this process; None = the process does not belong to a session."""
    return _driver
