"""Flink's own command line, as it comes from Maven, steers a job of flinkish."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.jars import MissingJarsError, fetch, jar_folder
from tests.recovery.processes import Job

JARS = jar_folder("flink", "2.3.0")
_ADDRESS = re.compile(r"REST: http://localhost:(\d+)/")
_STARTS = re.compile(r"Job 'served job' \(([0-9a-f]{32})\) starts")


class Cli:
    """The `flink` command against one server."""

    def __init__(self, folder: Path, port: str) -> None:
        self._conf = folder / "conf"
        self._conf.mkdir()
        # With more tries, an answer that it cannot read costs a minute.
        (self._conf / "config.yaml").write_text("rest.address: 127.0.0.1\nrest.retry.max-attempts: 1\n")
        self._address = f"127.0.0.1:{port}"

    def __call__(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it printed."""
        java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if os.environ.get("JAVA_HOME") else "java"
        command = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", "org.apache.flink.client.cli.CliFrontend"]
        result = subprocess.run(
            [*command, verb, "-m", self._address, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "FLINK_CONF_DIR": str(self._conf)},
        )
        return result.returncode, result.stdout


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[Job, Cli, str]]:
    """A job that runs, the command line for its server, and its id."""
    try:
        fetch("flink", JARS)
    except MissingJarsError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Flink's command line is not there and could not be fetched: {error}")
    script = str(Path(__file__).with_name("served_job.py"))
    # The line about the server's address is for people: `flinkish run` prints it, a script that nobody watches does not.
    command = [sys.executable, "-c", "from flinkish.cli.main import main; main()", "run", script, str(tmp_path)]
    job = Job(command, tmp_path / "log")
    try:
        job.wait_until("the start", lambda: _STARTS.search(job.output()) is not None)
        address, started = _ADDRESS.search(job.output()), _STARTS.search(job.output())
        assert address is not None
        assert started is not None
        yield job, Cli(tmp_path, address[1]), started[1]
    finally:
        job.close()


def test_it_lists_checkpoints_saves_and_stops_a_job(job: tuple[Job, Cli, str], tmp_path: Path) -> None:
    process, flink, job_id = job

    code, text = flink("list")
    assert (code, f"{job_id} : served job (RUNNING)" in text) == (0, True), text
    code, text = flink("checkpoint", job_id)
    assert code == 0, text
    assert re.search(rf"Checkpoint \d+ for job {job_id} completed", text), text
    code, text = flink("savepoint", job_id, str(tmp_path / "elsewhere"))
    assert code == 0, text
    (saved,) = re.findall(r"Savepoint completed. Path: (\S+)", text)
    assert Path(saved).parent == tmp_path / "elsewhere"
    assert Path(saved).is_dir()
    # Its failures are shown with their reason.
    code, text = flink("savepoint", job_id, "/proc/no-folder")
    assert code == 1
    assert "CheckpointError: " in text
    assert "/proc/no-folder" in text
    code, text = flink("stop", job_id)
    assert code == 0, text
    (stopped,) = re.findall(r"Savepoint completed. Path: (\S+)", text)
    assert Path(stopped).parent == tmp_path / "savepoints"
    process.assert_finished()


def test_it_cancels_a_job(job: tuple[Job, Cli, str]) -> None:
    process, flink, job_id = job

    code, text = flink("cancel", job_id)

    assert (code, f"Cancelled job {job_id}." in text) == (0, True), text
    assert process.finish() == 1
    assert "JobCancelledError" in process.output()
