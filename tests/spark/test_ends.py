"""Ends by signals, under plain python and under spark-submit: quick, quiet, nothing left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from flinkish.common.clock import SystemClock
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kill]

_JOB = str(Path(__file__).with_name("endless_job.py"))
_ROOT = str(Path(__file__).resolve().parents[2])
_clock = SystemClock()
#: Milliseconds; ten seconds on a machine that does nothing else, but other tests run at the same time.
_WITHIN = 40_000


class _Run:
    """A job in a process group of its own, with a temporary folder of its own."""

    def __init__(self, command: list[str], tmp_path: Path, kind: str) -> None:
        self.temporary = Path(tempfile.mkdtemp(prefix="fe-"))
        self._log = tmp_path / "log"
        marker = tmp_path / "marker"
        environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": _ROOT,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(self.temporary),
            "_JAVA_OPTIONS": f"-Djava.io.tmpdir={self.temporary}",
            "FLINKISH_CONF_DIR": str(tmp_path),
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, _JOB, str(marker), kind, "2"],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment,
                cwd=tmp_path,
            )
        self.all = [self.process.pid]
        self._marker, self._kind = marker, kind

    def await_start(self) -> None:
        wait_until(
            f"the job is {self._kind}", self._marker.exists, ended=lambda: self.process.poll() is not None, report=self.output
        )
        assert self.process.poll() is None, self.output()
        self.all = [self.process.pid, *(child.pid for child in psutil.Process(self.process.pid).children(recursive=True))]
        mine = f"{self.temporary}".encode()
        for process in psutil.process_iter():
            # Slot hosts have no parent in the group; the temporary folder is in their environment.
            try:
                if mine in Path(f"/proc/{process.pid}/environ").read_bytes() and process.pid not in self.all:
                    self.all.append(process.pid)
            except OSError:
                continue

    def output(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if "incubator" not in line and "_JAVA_OPTIONS" not in line)

    def left(self) -> list[str]:
        """What of the run still lives or lies about."""
        found = []
        for pid in self.all:
            try:
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{pid} {' '.join(process.cmdline())[:150]}")
            except psutil.Error:
                continue
        folders = [path.name for path in self.temporary.iterdir() if not path.name.startswith("hsperfdata")]
        scratch = [path.name for pid in self.all for path in Path("/dev/shm").glob(f"flinkish-scratch-{os.getuid()}-{pid}-*")]
        return found + folders + scratch

    def kill(self) -> None:
        with contextlib.suppress(psutil.Error):
            self.all += [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]
        for pid in self.all:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        for folder in Path("/dev/shm").glob(f"flinkish-scratch-{os.getuid()}-*"):
            if int(folder.name.split("-")[3]) in self.all:
                # The start of an engine in another test process may remove it at the same time.
                shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.temporary)


Start = Callable[[list[str], str], _Run]
_PYTHON = [sys.executable]
_SUBMIT = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2,4]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[_Run] = []

    def begin(command: list[str], kind: str) -> _Run:
        runs.append(_Run(command, tmp_path, kind))
        runs[-1].await_start()
        return runs[-1]

    yield begin
    for run in runs:
        run.kill()


def _wait_for_end(run: _Run, began: int) -> None:
    run.process.wait(60)
    while run.left() and _clock.monotonic() - began < _WITHIN:
        threading.Event().wait(0.05)
    assert run.left() == []
    assert _clock.monotonic() - began < _WITHIN


def _assert_quiet(output: str) -> None:
    for word in ("Traceback", "\tat ", "Exception", "ERROR", "WARN"):
        assert word not in output, output


# A start of Spark is dear: in tests/recovery/test_ends.py user code blocks, and the job gets the other signal.
def test_a_lost_jvm_ends_an_attempt_quietly_the_next_one_starts_another_and_sigterm_ends_it_while_idle(start: Start) -> None:
    run = start(_PYTHON, "idle again")
    began = _clock.monotonic()
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
    began = _clock.monotonic()
    # Ctrl-C reaches the whole group of the terminal.
    os.killpg(run.process.pid, signal.SIGINT)
    _wait_for_end(run, began)
    assert "Traceback" not in run.output()
    assert "\tat " not in run.output()
