"""The one way up: from the API to whatever runs a program, found by name when the first job is started.

Flink's PipelineExecutorServiceLoader. Nothing below `engine` may import it, so that building a job needs neither Spark nor Java.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Protocol, cast

from flinkish.common.job_client import JobClient
from flinkish.program.program import Program

_EXECUTOR_MODULE = "flinkish.engine.executor"


class ExecutorJobClient(Protocol):
    """What the API needs of the client of a job beside `JobClient` itself; the client that an executor returns is both."""

    def collect_results(self) -> Iterator[Any]:
        """Return what the job's CollectSink emits, in order; blocks for the next record.

        Ends when the job is finished or cancelled; raises the job's JobExecutionError if it fails. To be called once.
        """
        ...


class Executor(Protocol):
    """Runs programs; the module `flinkish.engine.executor` is one."""

    def execute_async(self, program: Program) -> JobClient:
        """Start a program and return without waiting for it."""
        ...

    def execution_plan_json(self, program: Program) -> str:
        """Return the stream graph in the JSON form of Flink's plan visualizer."""
        ...

    def explain(self, program: Program) -> str:
        """Return all layers of a program, down to what the engine runs, as text for people."""
        ...


_replacement: Executor | None = None


def replace_executor(executor: Executor | None) -> Executor | None:
    """Have programs of this process given to another executor (None: the installed one); returns what was set before.

    `flinkish explain` does that.
    """
    global _replacement
    before, _replacement = _replacement, executor
    return before


def load_executor() -> Executor:
    """Return the executor of this installation, or what stands in for it."""
    if _replacement is not None:
        return _replacement
    return cast(Executor, importlib.import_module(_EXECUTOR_MODULE))
