"""Cancel, Ctrl-C and SIGTERM of whole jobs: within seconds, without a word, nothing left behind, and ready to go on.

What the Spark engine does for this by itself is tested in tests/spark/test_ends.py.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from flinkish.common.errors import JobCancelledError
from flinkish.common.job_status import JobStatus
from flinkish.datastream import StreamExecutionEnvironment
from tests.kit.waiting import wait_for_checkpoints
from tests.recovery import keyed_timers_job
from tests.recovery.conftest import Start
from tests.recovery.processes import Job, running
from tests.recovery.verifier import Findings, assert_golden, compare, table_rows

#: Seconds. On a machine that does nothing else it takes less than one, or ten with Spark; other tests run at the same time, and
#: the disk may stand still for seconds. User code that is to be interrupted takes ten minutes.
_WITHIN = 40.0
_HA = "-Dhigh-availability.cluster-id=ends"
_LOG4J = (Path(__file__).resolve().parents[2] / "conf" / "log4j2.properties").as_uri()
_SUBMIT = [
    str(Path(sys.executable).with_name("spark-submit")),
    *("--master", "local[2,4]"),
    *("--driver-java-options", f"-Dlog4j2.configurationFile={_LOG4J}"),
]


def send(job: Job, number: signal.Signals) -> None:
    """Send a signal as it comes in life: Ctrl-C reaches the whole group of the terminal, SIGTERM one process."""
    if number == signal.SIGINT:
        os.killpg(job.process.pid, number)
    else:
        job.process.send_signal(number)
    job.signal_all(signal.SIGCONT)  # if it stands still


def assert_ends_quietly(job: Job, number: signal.Signals) -> None:
    began = time.monotonic()
    send(job, number)
    job.finish(60)
    job.assert_nothing_left()
    took = time.monotonic() - began
    assert took < _WITHIN, f"{took:.1f} s"
    for word in ("Traceback", "at org.apache", "\tat ", "Exception", "Error"):
        assert word not in job.output(), job.output()


@pytest.mark.kill
@pytest.mark.parametrize(("number", "code", "fault"), [(signal.SIGINT, 130, None), (signal.SIGTERM, 143, "P7:stop:nth=5")])
def test_a_signal_suspends_a_job_and_the_same_command_goes_on(
    number: signal.Signals, code: int, fault: str | None, tmp_path: Path
) -> None:
    command = ["--engine=local", f"--output={tmp_path}", _HA]
    with running(*command, "--pause=0.01", log=tmp_path / "log", fault=fault) as job:
        if fault is None:
            job.wait_until("rows were committed", lambda: len(table_rows(tmp_path / "table")) > 0)
        else:
            # The job's thread has stopped the process, and gets the signal when it goes on: the main thread does not wake.
            job.wait_until("it stands still", job.stands_still)
        assert_ends_quietly(job, number)
        assert (job.process.returncode, job.output()) == (code, "")
    findings = compare(table_rows(tmp_path / "table"), keyed_timers_job.expected(), ordered=False)
    assert findings.lost
    assert findings == Findings(lost=findings.lost)
    with running(*command, "--parallelism=3", log=tmp_path / "log") as job:
        job.assert_finished()
    assert_golden(tmp_path)


@pytest.mark.kill
@pytest.mark.parametrize(
    ("on", "launcher"),
    [("local", []), pytest.param("spark", _SUBMIT, marks=pytest.mark.spark)],
    ids=["local", "spark-submit"],
)
def test_sigterm_in_the_middle_of_user_code_that_blocks_ends_the_job(on: str, launcher: list[str], tmp_path: Path) -> None:
    marker = tmp_path / "blocked"
    command = [f"--engine={on}", f"--output={tmp_path}", _HA]
    # Slots of the local engine share a process: level 1 begins with the third call there, else with the second.
    fault = "P3:sleep=1:nth=3" if on == "local" else "P3:sleep=1:nth=2"
    with running(*command, "--pause=600", log=tmp_path / "log", fault=f"{fault}:once={marker}", launcher=launcher) as job:
        job.wait_until("user code runs", marker.exists)
        assert_ends_quietly(job, signal.SIGTERM)


def slow(env: StreamExecutionEnvironment, output: Path) -> None:
    keyed_timers_job.build(env, output, records=1_000_000, pause=0.01)


def test_cancelling_a_running_job_leaves_nothing_running(start: Start, engine: str, request: pytest.FixtureRequest) -> None:
    client = start(build=slow)
    wait_for_checkpoints(client, 1)
    began = time.monotonic()
    client.cancel().result(120)
    assert time.monotonic() - began < _WITHIN
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(1)
    if engine == "spark":
        session = request.getfixturevalue("spark_session")
        assert [query.name for query in session.streams.active] == []
