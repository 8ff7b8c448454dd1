"""Programs of many kinds give what PyFlink 2.3.0 gives, or what is written here as a difference.

The programs and what PyFlink gave are beside this file; `record.py` records it anew. Of errors it is only compared
that there is one.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from flinkish.common import Row, TypeInformation, WatermarkStrategy
from flinkish.common.errors import FlinkishError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.keyed_stream import KeyedStream
from tests.compatibility.differences import DIFFERENCES
from tests.compatibility.kit import cases_of, run
from tests.compatibility.programs import aggregations_of_fields
from tests.compatibility.record import golden, programs
from tests.kit.column_source import RunsSource
from tests.kit.folded import folded as folded

#: Records of a run of columns.
_RUN = 8

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


def on_columns(env: StreamExecutionEnvironment, type_info: TypeInformation, records: list[Any]) -> KeyedStream:
    """Return a keyed stream as `keyed` of the programs does, of runs of columns."""
    script = tuple(records[start : start + _RUN] for start in range(0, len(records), _RUN))
    runs = env.from_source(RunsSource(type_info, (script,)), WatermarkStrategy.no_watermarks(), "runs")
    return runs.key_by("key" if isinstance(records[0], Row) else 0)


@pytest.mark.parametrize("name", cases_of(aggregations_of_fields))
def test_an_aggregation_of_columns_gives_what_pyflink_gives(
    name: str, monkeypatch: pytest.MonkeyPatch, folded: list[int]
) -> None:
    monkeypatch.setattr(aggregations_of_fields, "keyed", on_columns)
    assert outcome("aggregations_of_fields", name) == golden("aggregations_of_fields")[name]
    # Texts are compared record by record.
    assert bool(folded) != ("of_text" in name)


def test_nothing_was_recorded_that_is_not_run() -> None:
    recorded = {f"{program}.{name}" for program in programs() for name in golden(program)}
    assert recorded == {f"{program}.{name}" for program, name in CASES}
    assert DIFFERENCES.keys() <= recorded
