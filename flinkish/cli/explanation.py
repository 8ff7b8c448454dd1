"""A substitute for the executor that shows the first job of a script instead of running it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

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


class PlanningExecutor(ExplainingExecutor):
    """An `Executor` that writes a program's plan as REST shows that of a job, and ends the script."""

    def __init__(self, usual: Executor, file: Path, *, job_id: str) -> None:
        super().__init__(usual, lambda text: None)
        self._file = file
        self._job_id = job_id

    def execute_async(self, program: Program) -> NoReturn:
        """Check the program as for a start, write its plan, and end the script."""
        from flinkish.engine.launcher import check
        from flinkish.graph.chaining import build_job_graph
        from flinkish.graph.execution_plan import plan
        from flinkish.server.views.jobs import plan_of

        checked = check(program)
        found = plan_of(plan(build_job_graph(checked.stream_graph)).job_graph, checked.configuration, self._job_id)
        draft = self._file.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode(found))
        # In one step: who waits for the file reads all of it.
        draft.replace(self._file)
        raise Explained
