"""Fault points do nothing unless armed, and happen at the given time only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.common.errors import ConfigurationError
from flinkish.runtime import faults
from flinkish.runtime.faults import InjectedFaultError


@pytest.fixture(autouse=True)
def _disarm() -> Iterator[None]:
    yield
    faults.arm(None)


def test_nothing_happens_at_a_point_that_is_not_armed() -> None:
    faults.arm("P3:raise")
    faults.reach("P2")


def test_the_fault_happens_the_nth_time_only() -> None:
    faults.arm("P7:raise:nth=2")
    faults.reach("P7")
    with pytest.raises(InjectedFaultError, match="P7"):
        faults.reach("P7")
    faults.reach("P7")


def test_a_marker_file_makes_it_happen_once_over_all_processes(tmp_path: Path) -> None:
    marker = tmp_path / "happened"
    faults.arm(f"P8:raise:once={marker}")
    with pytest.raises(InjectedFaultError):
        faults.reach("P8")
    faults.arm(f"P8:raise:once={marker}")
    faults.reach("P8")
    assert "P8" in marker.read_text(encoding="utf-8")


def test_a_call_is_made_once_and_only_within_the_with() -> None:
    called: list[str] = []
    with faults.call_at("P9", lambda: called.append("P9")):
        faults.reach("P8")
        assert called == []
        faults.reach("P9")
        faults.reach("P9")
    with faults.call_at("P7", lambda: called.append("P7")):
        pass
    faults.reach("P7")
    assert called == ["P9"]


@pytest.mark.parametrize("text", ["P3:explode", "P3:raise:never=2", "P1:raise"])
def test_a_malformed_fault_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="FLINKISH_FAULT"):
        faults.arm(text)
