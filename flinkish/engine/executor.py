"""Runs programs and explains them. `program.executor_loader` loads this module; `launcher` has the steps of a start.

`execution.engine` chooses the engine; only its code is imported, which the table of engines names. A job runs in a daemon thread
of this process; jobs that still run when the program ends are stopped cleanly.
"""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

from flinkish.common import options
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.engines import ENGINES, EngineRecord
from flinkish.common.ids import IdSource
from flinkish.engine import launcher
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.graph import explain as explanation
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.plan_json import plan_json
from flinkish.graph.stream_graph_generator import generate
from flinkish.jobmaster.epochs import Engine
from flinkish.jobmaster.exception_history import EarlierRestarts
from flinkish.program.program import Program


def execute_async(
    program: Program,
    *,
    job_id: str | None = None,
    retire: Callable[[str], None] | None = None,
    earlier: EarlierRestarts | None = None,
) -> EmbeddedJobClient:
    """Start a program and return without waiting for it; see `launcher.Surroundings` for the other arguments.

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


def create_engine(configuration: Configuration, clock: Clock, ids: IdSource) -> Engine:
    """Create the engine that the configuration names; it starts nothing before the first attempt."""
    engine: Engine = resolve_name(_record(configuration).factory)(configuration, clock=clock, ids=ids)
    return engine


def engine_plan(configuration: Configuration) -> Callable[[ExecutionPlan], str] | None:
    """Return the function that shows the engine's own form of a plan; None if the engine has none."""
    plan = _record(configuration).plan
    return None if plan is None else resolve_name(plan)


def hold_shared(configuration: Configuration) -> Callable[[], None]:
    """Acquire resources that all jobs of the engine share in this process, and return the function that releases them."""
    shared = _record(configuration).shared
    if shared is None:
        return lambda: None
    release: Callable[[], None] = resolve_name(shared)(configuration)
    return release


def _record(configuration: Configuration) -> EngineRecord:
    return ENGINES[configuration.get(options.ENGINE)]
