"""A substitute for the executor that shows the first job of a script instead of running it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from flinkish.program.executor_loader import Executor
from flinkish.program.program import Program


class Explained(BaseException):
    """Ends the script after its job was shown.

    Flink's `info` does the same: the code after execute() would need results, and there are none. It is not an Exception, so
    that the script does not catch it.
    """


class ExplainingExecutor:
    """An `Executor` that passes a program's description to `show` and ends the script."""

    def __init__(self, usual: Executor, show: Callable[[str], None], *, as_json: bool = False) -> None:
        self._usual = usual
        self._show = show
        self._as_json = as_json

    def execute_async(self, program: Program) -> NoReturn:
        """Show the program and end the script."""
        self._show(self.execution_plan_json(program) if self._as_json else self.explain(program))
        raise Explained

    def execution_plan_json(self, program: Program) -> str:
        """Return what the usual executor returns: this does not run anything."""
        return self._usual.execution_plan_json(program)

    def explain(self, program: Program) -> str:
        """Return what the usual executor returns: this does not run anything."""
        return self._usual.explain(program)
