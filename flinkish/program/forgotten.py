"""A warning for scripts that end without executing the program that they built.

A program without `execute()` does nothing, and would end silently. `flinkish run` calls `forgotten_programs()`; a script that was
started as `python script.py` prints the warning to stderr at its end.
"""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass, field
from types import FrameType

_HINT = "call execute() on the environment after the last operator."
#: Modules of test runners and shells: below them, a program that is not executed is normal.
_RUNNERS = frozenset({"unittest", "doctest", "pytest", "_pytest", "IPython"})


@dataclass(eq=False, slots=True)
class Reminder:
    """The operators of one environment that were not yet executed, explained or shown as a plan."""

    operators: list[str] = field(default_factory=list)
    #: Whether the script itself has added one of the operators.
    of_script: bool = False

    def add(self, operator: str) -> None:
        """Record an operator that is not executed yet."""
        self.operators.append(operator)
        self.of_script = self.of_script or _called_by_script()
        _waiting.add(self)

    def clear(self) -> None:
        """Forget the operators, as the program was executed or shown."""
        self.operators.clear()
        self.of_script = False
        _waiting.discard(self)


_waiting: set[Reminder] = set()
_process = os.getpid()


def forgotten_programs() -> list[str]:
    """Return a message for each program of this process that was not executed, and forget the programs."""
    found = [_text(reminder) for reminder in _waiting]
    _waiting.clear()
    return found


def _text(reminder: Reminder) -> str:
    names = [repr(name) for name in reminder.operators]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"the program has ended without execute(), so these operators have not run: {shown}.\nHint: {_HINT}"


def _called_by_script() -> bool:
    """Return whether flinkish was called by the file that was started, and not by a test or notebook."""
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
    # No warning after an error, which was already shown; in a shell; or in a forked process, which inherited the program.
    if hasattr(sys, "last_value") or sys.flags.interactive or hasattr(sys, "ps1") or os.getpid() != _process:
        return
    for reminder in _waiting:
        if reminder.of_script and sys.stderr is not None:
            print(f"flinkish: {_text(reminder)}", file=sys.stderr)


atexit.register(_remind)
