"""Decides the runtime mode of a program: `execution.runtime-mode`, where the sources decide about AUTOMATIC."""

from __future__ import annotations

from collections.abc import Iterable

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidProgramError
from flinkish.program.execution_mode import RuntimeExecutionMode
from flinkish.program.sources import Boundedness
from flinkish.program.transformations import SourceTransformation, Transformation


def runtime_mode(configuration: Configuration, transformations: Iterable[Transformation]) -> RuntimeExecutionMode:
    """Return STREAMING or BATCH; AUTOMATIC is BATCH if all sources are bounded.

    Raises InvalidProgramError for BATCH with a source that does not end by itself.
    """
    mode = RuntimeExecutionMode[configuration.get(options.RUNTIME_MODE)]
    if mode is RuntimeExecutionMode.STREAMING:
        return mode
    unbounded = [
        transformation.name
        for transformation in transformations
        if isinstance(transformation, SourceTransformation) and transformation.source.boundedness is not Boundedness.BOUNDED
    ]
    if not unbounded:
        return RuntimeExecutionMode.BATCH
    if mode is RuntimeExecutionMode.BATCH:
        raise InvalidProgramError(
            f"execution.runtime-mode is BATCH, but the source {', '.join(map(repr, unbounded))} is unbounded: a batch must end",
            hint="set the mode to STREAMING or AUTOMATIC, or give the source an end.",
        )
    return RuntimeExecutionMode.STREAMING


def with_runtime_mode(configuration: Configuration, mode: RuntimeExecutionMode) -> Configuration:
    """Return the configuration that tasks read: its mode is the decided one."""
    decided = Configuration(configuration)
    decided.set(options.RUNTIME_MODE, mode.name)
    return decided


def is_batch(configuration: Configuration) -> bool:
    """Tell whether a configuration whose mode has been decided says BATCH."""
    return configuration.get(options.RUNTIME_MODE) == RuntimeExecutionMode.BATCH.name
