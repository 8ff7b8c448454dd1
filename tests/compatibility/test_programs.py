"""Programs of many kinds give what PyFlink 2.3.0 gives, or what is written here as a difference.

The programs and what PyFlink gave are beside this file; `record.py` records it anew. Of errors it is only compared
that there is one.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from flinkish.common.errors import FlinkishError
from tests.compatibility.differences import DIFFERENCES
from tests.compatibility.kit import cases_of, run
from tests.compatibility.record import golden, programs

CASES = [
    (program, name)
    for program in programs()
    for name in cases_of(importlib.import_module(f"tests.compatibility.programs.{program}"))
]


def outcome(program: str, name: str) -> dict[str, Any]:
    """Run a case here: its records as text, or its error."""
    function = getattr(importlib.import_module(f"tests.compatibility.programs.{program}"), name)
    try:
        return {"results": run(function)}
    except FlinkishError as error:
        return {"error": str(error)}


@pytest.mark.parametrize(("program", "name"), CASES, ids=[f"{program}.{name}" for program, name in CASES])
def test_a_program_gives_what_pyflink_gives(program: str, name: str) -> None:
    recorded = golden(program)[name]
    found = outcome(program, name)
    difference = DIFFERENCES.get(f"{program}.{name}")
    if difference is not None:
        assert found.get("results") == difference.results, found
        assert found.get("results") != recorded.get("results"), "no difference any more"
    elif "error" in recorded:
        assert "error" in found
    else:
        assert found == recorded


def test_nothing_was_recorded_that_is_not_run() -> None:
    recorded = {f"{program}.{name}" for program in programs() for name in golden(program)}
    assert recorded == {f"{program}.{name}" for program, name in CASES}
    assert DIFFERENCES.keys() <= recorded
