"""Job scripts whose own classes are sources, sinks, records and state: classes of `__main__`, which travel by value."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.kit.own_process import set_arguments

_SCRIPT = str(Path(__file__).with_name("main_classes_job.py"))


def test_a_script_with_a_source_and_a_sink_of_its_own_is_restarted_and_runs_a_second_job(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_arguments(monkeypatch, _SCRIPT, engine, tmp_path)
    runpy.run_path(_SCRIPT, run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-1] == "exact"
