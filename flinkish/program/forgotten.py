"""A warning for scripts that end without executing the program that they built.

A program without `execute()` does nothing, and would end silently. `flinkish run` calls `forgotten_programs()`; a script that was
started as `python script.py` prints the warning to stderr at its end.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from dataclasses import dataclass, field

_HINT = "call execute() on the environment after the last operator."
#: Modules of test runners and shells: below them, a program that is not executed is normal.
_RUNNERS = frozenset({"unittest", "doctest", "pytest", "_pytest", "IPython"})


@dataclass(eq=False, slots=True)
class Reminder:
    """The operators of one environment that were not yet executed, explained or shown as a plan."""

    operators: list[str] = field(default_factory=list)
    #: Whether the script itself has added one of the operators.
    of_script: bool = False

    def add(self, operator: str, made_at: str | None) -> None:
        """Record an operator that is not executed yet, with the `file:line` of the program that made it."""
        self.operators.append(operator)
        self.of_script = self.of_script or _is_of_script(made_at)
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


def _is_of_script(made_at: str | None) -> bool:
    """Return whether a `file:line` is in the file that was started, which was not called by a test or notebook."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is None or made_at is None or made_at.rpartition(":")[0] != script:
        return False
    callers = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_stack(None)]
    return not any(name.partition(".")[0] in _RUNNERS or name.startswith("flinkish.testing.") for name in callers)


def _remind() -> None:
    # No warning after an error, which was already shown; in a shell; or in a forked process, which inherited the program.
    if hasattr(sys, "last_value") or sys.flags.interactive or hasattr(sys, "ps1") or os.getpid() != _process:
        return
    for reminder in _waiting:
        if reminder.of_script and sys.stderr is not None:
            print(f"flinkish: {_text(reminder)}", file=sys.stderr)


atexit.register(_remind)
