"""The loader of the executor, which runs programs: the API's only reference to a higher layer, resolved at the first job.

It corresponds to Flink's PipelineExecutorServiceLoader. As the executor is loaded by name, building a job needs neither Spark nor
Java.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any, Protocol, cast

from flinkish.common.job_client import JobClient
from flinkish.program.program import Program

_EXECUTOR_MODULE = "flinkish.server.executor"
#: Is used instead in scripts that Flink's own `flink run -py` has started, which sets the variable.
_FLINK_RUN_MODULE = "flinkish.cli.flink_run"
GATEWAY_VARIABLE = "PYFLINK_GATEWAY_PORT"


class ExecutorJobClient(Protocol):
    """The methods that the API needs from a job's client in addition to `JobClient`; an executor's client implements both."""

    def collect_results(self) -> Iterator[Any]:
        """Iterate over the records that the job's CollectSink receives, in order; blocks until the next record.

        Ends when the job is finished or cancelled; raises the job's JobExecutionError if it fails. Call it only once.
        """


class Executor(Protocol):
    """An object that runs programs; the module `flinkish.server.executor` is one."""

    def execute_async(self, program: Program) -> JobClient:
        """Start a program and return without waiting for it."""

    def execution_plan_json(self, program: Program) -> str:
        """Return the stream graph in the JSON form of Flink's plan visualizer."""

    def explain(self, program: Program) -> str:
        """Return all layers of a program, down to what the engine runs, as text for people."""


_replacement: Executor | None = None


def replace_executor(executor: Executor | None) -> Executor | None:
    """Set the executor of this process (None = the installed one), and return the previous setting.

    `flinkish explain` uses it.
    """
    global _replacement
    before, _replacement = _replacement, executor
    return before


def load_executor() -> Executor:
    """Return the executor set by `replace_executor`, or else the installed one; under `flink run`, the one that submits."""
    if _replacement is not None:
        return _replacement
    module = _FLINK_RUN_MODULE if os.environ.get(GATEWAY_VARIABLE) else _EXECUTOR_MODULE
    return cast(Executor, importlib.import_module(module))
