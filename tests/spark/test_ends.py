"""Ends by signals, under plain python and under spark-submit: quick, quiet, nothing left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.recovery.processes import Job

pytestmark = [pytest.mark.spark, pytest.mark.kill]

_JOB = str(Path(__file__).with_name("endless_job.py"))
#: Seconds; ten on a machine that does nothing else, but other tests run at the same time.
_WITHIN = 40.0
Start = Callable[[list[str], str], Job]
_PYTHON = [sys.executable]
_SUBMIT = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2,4]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def begin(command: list[str], kind: str) -> Job:
            marker = tmp_path / "marker"
            environment = {"FLINKISH_CONF_DIR": str(tmp_path)}
            job = Job([*command, _JOB, str(marker), kind, "2"], tmp_path / "log", environment)
            stack.callback(job.close)
            job.wait_until(f"the job is {kind}", marker.exists)
            job.members()  # it knows their folders from now on
            return job

        yield begin


def _wait_for_end(job: Job, began: float) -> None:
    job.finish(60)
    job.assert_nothing_left()
    assert time.monotonic() - began < _WITHIN


def _assert_quiet(output: str) -> None:
    for word in ("Traceback", "\tat ", "Exception", "ERROR", "WARN"):
        assert word not in output, output


# A start of Spark is dear: in tests/recovery/test_ends.py user code blocks, and the job gets the other signal.
def test_a_lost_jvm_ends_an_attempt_quietly_the_next_one_starts_another_and_sigterm_ends_it_while_idle(start: Start) -> None:
    run = start(_PYTHON, "idle again")
    began = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    _wait_for_end(run, began)
    assert run.process.returncode == 0
    _assert_quiet(run.output())
    result = json.loads(run.output().splitlines()[-1])
    assert result["exact"], result
    (killed,), (failure,) = result["killed"], result["failures"]
    assert f": the JVM of Spark, process {killed}, was ended by signal 9." in failure


def test_under_spark_submit_ctrl_c_ends_driver_and_hosts_of_an_idle_job(start: Start) -> None:
    run = start(_SUBMIT, "idle")
    began = time.monotonic()
    # Ctrl-C reaches the whole group of the terminal.
    os.killpg(run.process.pid, signal.SIGINT)
    _wait_for_end(run, began)
    assert "Traceback" not in run.output()
    assert "\tat " not in run.output()
