"""Executors in processes of their own, and one of them lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Five JVMs on few cores: half a minute alone, minutes beside other work.
pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(600)]

_JOB = str(Path(__file__).with_name("cluster_job.py"))
_ROOT = str(Path(__file__).resolve().parents[2])


@pytest.mark.parametrize("when", ["between", "within"])
def test_a_killed_executor_leaves_results_exact(tmp_path: Path, when: str) -> None:
    environment = {**os.environ, "PYTHONPATH": _ROOT, "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run(
        [sys.executable, _JOB, str(tmp_path / "marker"), when],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=540,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    result = json.loads(run.stdout.splitlines()[-1])
    assert (result["exact"], result["killed"]) == (True, True), result
    # Frames that were lost in mid epoch cannot be made again alike (Spark knows that too): that costs an attempt.
    assert all("cannot be made again alike" in failure for failure in result["failures"]), result
