"""Named points in the protocol at which tests make a process fail. They have no effect unless FLINKISH_FAULT is set.

FLINKISH_FAULT=<point>:<action>[:nth=<n>][:once=<marker file>]; several faults are separated by ';'. Points are values of `Point`,
the crash points of the recovery tests. Actions: kill9 (SIGKILL to this process), stop (SIGSTOP to it), raise (an
InjectedFaultError), sleep=<ms>.

`nth` counts from 1 within the process. With `once`, the fault happens only if the marker file does not exist, and creates it.
Tests in the driver's process may have a function called at a point instead (`call_at`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from flinkish.common.errors import ConfigurationError, FlinkishError


class Point(StrEnum):
    """All points; the missing numbers are moments within Spark's JVM, at which only a kill from outside is possible."""

    #: Driver: a checkpoint has begun; no task knows of it.
    CHECKPOINT_BEGUN = "P2"
    #: Task: a level is about to be run.
    LEVEL_BEGINS = "P3"
    #: Task: a level has been run; its state and its report are on their way.
    LEVEL_RUN = "P4"
    #: Task: a vertex has processed its input; the files of sinks are not closed.
    INPUT_HANDLED = "P6"
    #: Driver: all tasks have acknowledged a checkpoint; its manifest is not written yet.
    ALL_ACKNOWLEDGED = "P7"
    #: Task or driver: state files are written; no manifest lists them.
    STATE_WRITTEN = "P8"
    #: Driver: a checkpoint's manifest is written, but not committed.
    MANIFEST_WRITTEN = "P9"
    #: Driver: sinks are about to commit the committables of a completed checkpoint.
    SINKS_TO_COMMIT = "P10"
    #: Driver: sinks have committed; this is not recorded anywhere.
    SINKS_COMMITTED = "P11"
    #: Driver: a checkpoint is committed; no other component knows of it.
    CHECKPOINT_COMMITTED = "P12"
    #: Driver: a file that is no longer needed is about to be deleted.
    DELETING = "P14"
    #: Driver: a job resumes from a checkpoint; nothing is restored yet.
    RESTORING = "P15"
    #: Driver: a completed checkpoint has been processed; its requester has not been notified.
    CHECKPOINT_ENDED = "P16"


class InjectedFaultError(FlinkishError, RuntimeError):
    """Raised at a fault point on request."""


@dataclass(slots=True)
class _Fault:
    action: str
    nth: int = 1
    once: Path | None = None
    reached: int = 0

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
        if point not in set(Point):
            raise ConfigurationError(f"FLINKISH_FAULT={text!r}: unknown point {point!r}", hint=f"one of {', '.join(Point)}.")
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


def reach(point: Point) -> None:
    """Mark that the process has reached a point; does nothing unless a fault is armed there."""
    if _armed is not None and point in _armed:
        _armed[point].reach(point)
    if _calls:
        call = _calls.pop(point, None)
        if call is not None:
            call()


@contextmanager
def call_at(point: Point, call: Callable[[], None]) -> Iterator[None]:
    """Call `call` once, the next time that this process reaches a point within the `with` block."""
    _calls[point] = call
    try:
        yield
    finally:
        _calls.pop(point, None)


def arm(text: str | None) -> None:
    """Set the faults as FLINKISH_FAULT would, for tests within one process; None removes them."""
    global _armed
    _armed = _parse(text) if text else None
