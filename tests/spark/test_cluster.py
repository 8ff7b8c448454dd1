"""Executors in processes of their own, and two of them lost."""

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


def test_executors_killed_within_an_epoch_and_between_two_leave_results_exact(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": _ROOT, "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run(
        [sys.executable, _JOB, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=540,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    result = json.loads(run.stdout.splitlines()[-1])
    assert (result["exact"], result["killed"]) == (True, [True, True]), result
    # Frames that were lost during an epoch cannot be reproduced identically (Spark knows that, too): that costs an attempt.
    assert all("cannot be made again alike" in failure for failure in result["failures"]), result
