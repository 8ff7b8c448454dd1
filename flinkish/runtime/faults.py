"""Named points in the protocol at which tests make a process fail. Off unless FLINKISH_FAULT is set.

FLINKISH_FAULT=<point>:<action>[:nth=<n>][:once=<marker file>]; several are separated by ';'. Points are P1 to P16,
the crash points of the recovery tests. Actions: kill9 (SIGKILL to this process), stop (SIGSTOP to it), raise (an
InjectedFaultError), sleep=<ms>.
`nth` counts from 1 within the process; with `once` the fault happens only while the marker file does not exist, and makes it.
Tests in the process of the driver may have something called at a point instead (`call_at`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flinkish.common.errors import ConfigurationError, FlinkishError


class InjectedFaultError(FlinkishError, RuntimeError):
    """Raised at a fault point on request."""


@dataclass(slots=True)
class _Fault:
    action: str
    nth: int = 1
    once: Path | None = None
    reached: int = field(default=0)

    def reach(self, point: str) -> None:
        self.reached += 1
        if self.reached != self.nth or (self.once is not None and self.once.exists()):
            return
        if self.once is not None:
            self.once.write_text(f"{point} in process {os.getpid()}\n", encoding="utf-8")
        match self.action.partition("="):
            case ("kill9", _, _):
                os.kill(os.getpid(), signal.SIGKILL)
            case ("stop", _, _):
                os.kill(os.getpid(), signal.SIGSTOP)
            case ("sleep", _, milliseconds):
                threading.Event().wait(int(milliseconds) / 1000)
            case _:
                raise InjectedFaultError(f"fault injected at {point}")


def _parse(text: str) -> dict[str, _Fault]:
    faults = {}
    for part in filter(None, text.split(";")):
        point, _, rest = part.partition(":")
        action, *options = rest.split(":")
        fault = _Fault(action)
        for option in options:
            name, _, value = option.partition("=")
            match name:
                case "nth":
                    fault.nth = int(value)
                case "once":
                    fault.once = Path(value)
                case _:
                    raise ConfigurationError(f"FLINKISH_FAULT={text!r}: unknown option {name!r}", hint="nth=<n> or once=<file>.")
        if action.partition("=")[0] not in {"kill9", "stop", "raise", "sleep"}:
            raise ConfigurationError(
                f"FLINKISH_FAULT={text!r}: unknown action {action!r}", hint="kill9, stop, raise or sleep=<ms>."
            )
        faults[point] = fault
    return faults


_armed: dict[str, _Fault] | None = _parse(os.environ["FLINKISH_FAULT"]) if os.environ.get("FLINKISH_FAULT") else None
_calls: dict[str, Callable[[], None]] = {}


def reach(point: str) -> None:
    """Say that the process is at a point; does nothing unless a fault is armed there."""
    if _armed is not None and point in _armed:
        _armed[point].reach(point)
    if _calls:
        call = _calls.pop(point, None)
        if call is not None:
            call()


@contextmanager
def call_at(point: str, call: Callable[[], None]) -> Iterator[None]:
    """Have `call` made the next time that this process is at a point, once, if that is within the `with`."""
    _calls[point] = call
    try:
        yield
    finally:
        _calls.pop(point, None)


def arm(text: str | None) -> None:
    """Set what FLINKISH_FAULT would set, for tests within one process; None disarms."""
    global _armed
    _armed = _parse(text) if text else None
