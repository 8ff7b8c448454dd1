"""Which runtime mode a program runs in."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Configuration, options
from flinkish.common.errors import InvalidProgramError
from flinkish.datastream import RuntimeExecutionMode
from flinkish.datastream.connectors.base import Boundedness
from flinkish.graph.runtime_mode import is_batch, runtime_mode, with_runtime_mode
from tests.unit.graph.programs import ProgramBuilder


class Source:
    def __init__(self, boundedness: Boundedness) -> None:
        self.boundedness = boundedness


def decide(mode: str | None, *sources: Boundedness) -> RuntimeExecutionMode:
    program = ProgramBuilder()
    for number, boundedness in enumerate(sources):
        program.change(program.source(f"source {number}"), source=Source(boundedness))
    settings: dict[str, Any] = {} if mode is None else {"execution.runtime-mode": mode}
    return runtime_mode(Configuration.from_dict(settings), program.transformations.values())


ENDS, GOES_ON = Boundedness.BOUNDED, Boundedness.CONTINUOUS_UNBOUNDED


@pytest.mark.parametrize("sources", [(ENDS,), (GOES_ON,), (ENDS, GOES_ON)])
def test_the_default_is_streaming_whatever_the_sources(sources: tuple[Boundedness, ...]) -> None:
    assert decide(None, *sources) is RuntimeExecutionMode.STREAMING


def test_automatic_is_batch_only_if_all_sources_end() -> None:
    assert decide("AUTOMATIC", ENDS, ENDS) is RuntimeExecutionMode.BATCH
    assert decide("AUTOMATIC", ENDS, GOES_ON) is RuntimeExecutionMode.STREAMING


def test_batch_needs_sources_that_end_and_names_those_that_do_not() -> None:
    assert decide("BATCH", ENDS) is RuntimeExecutionMode.BATCH
    with pytest.raises(InvalidProgramError, match="'source 1'"):
        decide("BATCH", ENDS, GOES_ON)


def test_tasks_read_the_mode_that_was_decided_on() -> None:
    given = Configuration.from_dict({"execution.runtime-mode": "AUTOMATIC"})
    decided = with_runtime_mode(given, RuntimeExecutionMode.BATCH)
    assert is_batch(decided)
    assert given.get(options.RUNTIME_MODE) == "AUTOMATIC"
