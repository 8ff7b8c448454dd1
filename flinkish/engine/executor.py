"""Runs programs and explains them. `program.executor_loader` loads this module; `launcher` has the steps of a start.

`execution.engine` chooses the engine (`loader`). A job runs in a daemon thread of this process; jobs that still run when the
program ends are stopped cleanly.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkish.engine import launcher
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.loader import create_engine, engine_plan
from flinkish.graph import explain as explanation
from flinkish.graph.plan_json import plan_json
from flinkish.graph.stream_graph_generator import generate
from flinkish.jobmaster.exception_history import EarlierRestarts
from flinkish.program.program import Program


def execute_async(
    program: Program,
    *,
    job_id: str | None = None,
    retire: Callable[[str], None] | None = None,
    earlier: EarlierRestarts | None = None,
) -> EmbeddedJobClient:
    """Start a program and return without waiting for it; the other arguments are those of `launcher.Surroundings`.

    Before anything runs, it raises InvalidProgramError, UnsupportedError, ConfigurationError, and CheckpointError if the
    checkpoint to start from is damaged or does not fit. The job's result raises all other errors.
    """
    surroundings = launcher.Surroundings(make_engine=create_engine, job_id=job_id, retire=retire, earlier=earlier)
    return launcher.start(program, surroundings)


def execution_plan_json(program: Program) -> str:
    """Return the stream graph in the JSON form of Flink's plan visualizer."""
    return plan_json(generate(program))


def explain(program: Program) -> str:
    """Return all graphs of a program, down to the engine's plan, as text for people."""
    return explanation.explain_program(program, engine_plan(program.configuration))
