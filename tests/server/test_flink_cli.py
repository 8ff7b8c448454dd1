"""Flink's own command line, as it comes from Maven, steers a job of flinkish."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.cli.client import RestClient, find_address
from flinkish.common.configuration import Configuration
from tests.kit.child import FLINKISH, python
from tests.kit.jars import MissingJarsError, fetch, jar_folder
from tests.kit.waiting import wait_until
from tests.recovery.processes import Job
from tests.server.driver import served_job

JARS = jar_folder("flink", "2.3.0")
#: What Flink's command line starts Python scripts with.
PYTHON_JARS = jar_folder("flink-python", "2.3.0")


class Cli:
    """The `flink` command against one server."""

    def __init__(self, folder: Path, port: str) -> None:
        self._conf = folder / "conf"
        self._conf.mkdir()
        # With more tries, an answer that it cannot read costs a minute.
        (self._conf / "config.yaml").write_text("rest.address: 127.0.0.1\nrest.retry.max-attempts: 1\n")
        self._address = f"127.0.0.1:{port}"
        # The jar for Python has the name there that Flink looks for.
        self._opt = folder / "opt"
        self._opt.mkdir()
        for jar in PYTHON_JARS.glob("org.apache.flink_flink-python-*.jar"):
            (self._opt / jar.name.removeprefix("org.apache.flink_")).symlink_to(jar)

    def __call__(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it printed."""
        java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if os.environ.get("JAVA_HOME") else "java"
        # As in Flink's own script: `run` needs the access.
        opened = "--add-opens=java.base/java.util=ALL-UNNAMED"
        command = [java, opened, "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", "org.apache.flink.client.cli.CliFrontend"]
        result = subprocess.run(
            [*command, verb, "-m", self._address, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "FLINK_CONF_DIR": str(self._conf), "FLINK_OPT_DIR": str(self._opt)},
        )
        return result.returncode, result.stdout


@pytest.fixture
def jars() -> None:
    """Flink's command line is there; else the test is skipped."""
    try:
        fetch("flink", JARS)
        fetch("flink-python", PYTHON_JARS)
    except MissingJarsError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Flink's command line is not there and could not be fetched: {error}")


@pytest.fixture
def job(jars: None, tmp_path: Path) -> Iterator[tuple[Job, Cli, str]]:
    """A job that runs, the command line for its server, and its id."""
    with served_job(tmp_path, "-p", "2") as (driver, port, job_id):
        yield driver, Cli(tmp_path, port), job_id


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
    code, text = flink("savepoint", "-d", saved)
    assert code == 0, text
    assert f"Savepoint '{saved}' disposed." in text
    assert not Path(saved).exists()
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


def _own(*arguments: str) -> str:
    """Run a command of flinkish and return what it printed; it must succeed."""
    return python(*FLINKISH, *arguments).stdout


@pytest.mark.usefixtures("jars")
def test_it_runs_a_script_of_flinkish_on_a_session_cluster(tmp_path: Path) -> None:
    properties = {
        "rest.port": "0",
        "execution.engine": "local",
        "env.log.dir": f"{tmp_path}/log",
        "high-availability.storageDir": f"{tmp_path}/session",
        "security.checkpoint.hmac-key-file": f"{tmp_path}/key",
        "heartbeat.interval": "200 ms",
    }
    started = _own("cluster", "start", "-d", *(f"-D{key}={value}" for key, value in properties.items()))
    (address,) = re.findall(r"The session cluster answers at http://(\S+) \(", started)
    try:
        flink = Cli(tmp_path, address.rpartition(":")[2])
        run = ("-pyclientexec", sys.executable, "-py", str(Path(__file__).with_name("served_job.py")), str(tmp_path))

        code, text = flink("run", "-d", "-p", "2", *run)
        assert code == 0, text
        (first,) = re.findall(r"Job has been submitted with JobID ([0-9a-f]{32})", text)
        assert first in _own("list", "-m", address)
        stopped = _own("stop", "-m", address, "-p", f"{tmp_path}/savepoints", first)
        (savepoint,) = re.findall(r"Savepoint completed. Path: (\S+)", stopped)

        code, text = flink("run", "-d", "-p", "3", "-s", savepoint, *run)
        assert code == 0, text
        (second,) = re.findall(r"Job has been submitted with JobID ([0-9a-f]{32})", text)
        assert second != first
        client = RestClient(find_address(address, Configuration()))
        wait_until("the restore", lambda: client.get(f"/jobs/{second}/checkpoints")["latest"]["restored"] is not None)
        assert client.get(f"/jobs/{second}/checkpoints")["latest"]["restored"]["external_path"] == savepoint
        assert {vertex["parallelism"] for vertex in client.get(f"/jobs/{second}")["vertices"]} == {3}
        assert first in _own("history", "-m", address)
    finally:
        stopped = _own("cluster", "stop", "-m", address)
    assert "Stopped the session cluster" in stopped
