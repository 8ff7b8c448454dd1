"""Loads the code that the table of engines names; only the engine that a program has chosen is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from flinkish.common import options
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.engines import ENGINES, EngineRecord
from flinkish.common.ids import IdSource
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.jobmaster.epochs import Engine


def create_engine(configuration: Configuration, clock: Clock, ids: IdSource) -> Engine:
    """Create the engine that the configuration names; it starts nothing before the first attempt."""
    engine: Engine = _load(_record(configuration).factory)(configuration, clock=clock, ids=ids)
    return engine


def engine_plan(configuration: Configuration) -> Callable[[ExecutionPlan], str] | None:
    """Return the function that shows the engine's own form of a plan; None if the engine has none."""
    plan = _record(configuration).plan
    return None if plan is None else _load(plan)


def hold_shared(configuration: Configuration) -> Callable[[], None]:
    """Acquire resources that all jobs of the engine share in this process, and return the function that releases them."""
    shared = _record(configuration).shared
    if shared is None:
        return lambda: None
    release: Callable[[], None] = _load(shared)(configuration)
    return release


def _record(configuration: Configuration) -> EngineRecord:
    return ENGINES[configuration.get(options.ENGINE)]


def _load(reference: str) -> Any:
    """Return the function at "module:function"."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
