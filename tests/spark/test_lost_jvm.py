"""The JVM of Spark is killed under a running job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.kill]

_JOB = str(Path(__file__).with_name("lost_jvm_job.py"))
_ROOT = str(Path(__file__).resolve().parents[2])


#: How the JVMs of the first two attempts end, by what is said of them.
_SAID = ("was ended by signal 9.", "ran out of memory (java.lang.Out")


def test_a_jvm_that_is_gone_ends_the_attempt_quietly_and_the_next_one_starts_another(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, _JOB],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": _ROOT},
        cwd=tmp_path,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    result = json.loads(run.stdout.splitlines()[-1])
    assert result["exact"], result
    for failure, killed, said in zip(result["failures"], result["killed"], _SAID, strict=True):
        assert f": the JVM of Spark, process {killed}, {said}" in failure
    assert "Traceback" not in run.stderr, run.stderr
