"""Runs programs and explains them. What `program.executor_loader` loads; `launcher` has the steps of a start.

`execution.engine` chooses the engine (`loader`). A job runs in a daemon thread of this process; what still runs when the program
ends is stopped cleanly.
"""

from __future__ import annotations

from flinkish.engine import launcher
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.loader import create_engine, engine_plan
from flinkish.graph import explain as explanation
from flinkish.graph.plan_json import plan_json
from flinkish.graph.stream_graph_generator import generate
from flinkish.program.program import Program


def execute_async(program: Program) -> EmbeddedJobClient:
    """Start a program and return without waiting for it.

    Raises here, before anything runs: InvalidProgramError, UnsupportedError, ConfigurationError, and CheckpointError for a
    checkpoint to start from that is damaged or does not fit. All else comes with the result of the job.
    """
    return launcher.start(program, launcher.Surroundings(make_engine=create_engine))


def execution_plan_json(program: Program) -> str:
    """Return the stream graph in the JSON form of Flink's plan visualizer."""
    return plan_json(generate(program))


def explain(program: Program) -> str:
    """Return all layers of a program, down to what the engine runs, as text for people."""
    return explanation.explain_program(program, engine_plan(program.configuration))
