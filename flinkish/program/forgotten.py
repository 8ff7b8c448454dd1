"""Says so when a script ends before what it built was executed.

A program without `execute()` does nothing, and would say nothing. `flinkish run` asks `forgotten_programs()`; a script that was
started as `python script.py` is told at its end, on stderr.
"""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass, field
from types import FrameType

_HINT = "call execute() on the environment after the last operator."
#: Modules below which code is tried out or tested, so that a program which is not executed is nothing to speak of.
_RUNNERS = frozenset({"unittest", "doctest", "pytest", "_pytest", "IPython"})


@dataclass(eq=False, slots=True)
class Reminder:
    """The operators of one environment that nobody has executed, explained or asked the plan of."""

    operators: list[str] = field(default_factory=list)
    #: Whether code of the script itself has added one of them.
    of_script: bool = False

    def add(self, operator: str) -> None:
        """Take note of an operator that waits for its execution."""
        self.operators.append(operator)
        self.of_script = self.of_script or _called_by_script()
        _waiting.add(self)

    def clear(self) -> None:
        """Forget the operators: somebody has made use of the program."""
        self.operators.clear()
        self.of_script = False
        _waiting.discard(self)


_waiting: set[Reminder] = set()
_process = os.getpid()


def forgotten_programs() -> list[str]:
    """Return a text for each program of this process that waits for its execution, and forget them."""
    found = [_text(reminder) for reminder in _waiting]
    _waiting.clear()
    return found


def _text(reminder: Reminder) -> str:
    names = [repr(name) for name in reminder.operators]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"the program has ended without execute(), so these operators have not run: {shown}.\nHint: {_HINT}"


def _called_by_script() -> bool:
    """Return whether the code that called flinkish stands in the file that was started, and not within a test or notebook."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    caller: str | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if package in _RUNNERS or module.startswith("flinkish.testing."):
            return False
        if caller is None and package != "flinkish":
            caller = frame.f_code.co_filename
        frame = frame.f_back
    return script is not None and caller == script


def _remind() -> None:
    # An error has been shown already, a shell's user has seen what he executed, and a forked process has inherited the program.
    if hasattr(sys, "last_value") or sys.flags.interactive or hasattr(sys, "ps1") or os.getpid() != _process:
        return
    for reminder in _waiting:
        if reminder.of_script and sys.stderr is not None:
            print(f"flinkish: {_text(reminder)}", file=sys.stderr)


atexit.register(_remind)
