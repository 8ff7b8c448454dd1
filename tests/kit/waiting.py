"""Waits for conditions that other threads and processes fulfil."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkish.engine.job_client import EmbeddedJobClient

_POLL = threading.Event()
_POLL_S = 0.01
#: Longest pause between two checks.
_LONGEST_POLL_S = 0.5


def wait_until(
    what: str,
    condition: Callable[[], bool],
    timeout: float = 120.0,
    *,
    ended: Callable[[], bool] = lambda: False,
    report: Callable[[], str] = lambda: "",
) -> None:
    """Wait until a condition holds; after `timeout` seconds, fail with a message that contains `what` and the report.

    If `ended` returns True, because nothing can make the condition true any more, fail at once.
    """
    deadline = time.monotonic() + timeout
    began = time.monotonic()
    while not condition():
        # A slow condition, such as reading a table, must not keep a core from the work that it waits for.
        pause = min(max(_POLL_S, 2 * (time.monotonic() - began)), _LONGEST_POLL_S)
        over = ended()
        # It may have come true just before the end.
        if over and condition():
            return
        if over or time.monotonic() > deadline:
            why = "it ended before" if over else f"not within {timeout:.0f} s"
            raise AssertionError(f"{why}: {what}{report()}")
        _POLL.wait(pause)
        began = time.monotonic()


def completed(client: EmbeddedJobClient) -> int:
    """Return how many checkpoints a job has completed."""
    return client.job_master.checkpoints.figures().counts.completed


def wait_for_checkpoints(client: EmbeddedJobClient, count: int = 3) -> None:
    """Wait until a job has completed `count` checkpoints; it must still run then."""

    def over() -> bool:
        return client.get_job_status().result().is_terminal_state()

    wait_until(f"{count} checkpoints", lambda: completed(client) >= count or over(), 120)
    assert not over(), client.get_job_execution_result().exception()
