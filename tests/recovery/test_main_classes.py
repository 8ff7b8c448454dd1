"""Job scripts whose own classes are sources, sinks, records and state: classes of `__main__`, which travel by value."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).with_name("main_classes_job.py")
_ROOT = _SCRIPT.parents[2]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_script_with_a_source_and_a_sink_of_its_own_is_restarted_and_runs_a_second_job(engine: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(_ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), engine, str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "exact"
