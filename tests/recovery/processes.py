"""Starts job processes, waits for conditions, kills them in part or as a whole, and looks for what they left behind."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from flinkish.common.ids import random_id
from tests.kit.child import living
from tests.kit.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]
_SHARED_MEMORY = Path("/dev/shm")
#: In the environment of every process of a job, so that all are found, whatever session they are in.
_MARK = "FLINKISH_TEST_JOB"
#: Points that the process with the driver reaches, so that a kill there is the end of it.
POINTS = ("P7", "P8", "P9", "P10", "P11", "P12", "P14", "P15")
_PAUSE = threading.Event()


class Job:
    """A job script in a process of its own, with a temporary folder of its own."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: dict[str, str] | None = None,
        temporary: Path | None = None,
    ) -> None:
        self._log = log
        self._name = random_id()
        # The addresses of Unix sockets are short.
        self.temporary = temporary or Path(tempfile.mkdtemp(prefix="fr-", dir="/tmp"))
        self._own = temporary is None
        self.pids: set[int] = set()
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=log.parent,
                env={
                    **os.environ,
                    _MARK: self._name,
                    "PYTHONUNBUFFERED": "1",
                    "PYTHONPATH": str(_ROOT),
                    "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                    "TMPDIR": str(self.temporary),
                    "SPARK_LOCAL_DIRS": str(self.temporary),
                    "_JAVA_OPTIONS": f"-Djava.io.tmpdir={self.temporary} -XX:-UsePerfData",
                    **(environment or {}),
                },
            )
        self.pids.add(self.process.pid)

    def output(self) -> str:
        """Return what the job printed, without the lines that only tests see."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if "_JAVA_OPTIONS" not in line and "incubator" not in line)

    def members(self) -> list[psutil.Process]:
        """Return all living processes of the job: driver, JVM, workers, slot hosts."""
        found = living(_MARK, self._name)
        self.pids.update(process.pid for process in found)
        return found

    def jvm(self) -> psutil.Process:
        """Return the JVM of the driver."""
        return next(process for process in self.members() if process.name() == "java")

    def report(self) -> str:
        """Return what is of use when something went wrong."""
        members = []
        for process in self.members():
            with suppress(psutil.Error):
                members.append(f"{process.pid} {' '.join(process.cmdline())[:150]}")
        return "\n".join(["", "output:", self.output()[-8_000:], "processes:", *members])

    def folders_left(self) -> list[str]:
        """Return the temporary folders that the job has made and not removed."""
        shared = [
            folder
            for pid in self.pids
            for folder in _SHARED_MEMORY.glob(f"flinkish-scratch-{os.getuid()}-{pid}-*")
        ]  # fmt: skip
        return sorted(str(path) for path in [*self.temporary.iterdir(), *shared])

    def stands_still(self) -> bool:
        """Tell whether a process of the job has stopped itself, as a fault makes it do."""
        statuses = set()
        for process in self.members():
            with suppress(psutil.NoSuchProcess):
                statuses.add(process.status())
        return psutil.STATUS_STOPPED in statuses

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of the job."""
        for process in self.members():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def kill_all(self) -> None:
        """Send SIGKILL to every process of the job, until none is left."""
        deadline = time.monotonic() + 60
        while self.members() and time.monotonic() < deadline:
            self.signal_all(signal.SIGKILL)
            # Not psutil's wait: that would take the exit status away from the Popen object.
            self.process.poll()
            _PAUSE.wait(0.02)
        self.process.wait(timeout=60)

    def wait_until(self, what: str, condition: Callable[[], bool], timeout: float = 120.0) -> None:
        """Wait for a condition; on the deadline, or if the job ends before, fail with the job's output and its processes."""
        wait_until(what, condition, timeout, ended=self.has_ended, report=self.report)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def work_for(self, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> int | None:
        """Let the job work for some seconds, if it does not end; return its status. `meanwhile` is called every 0.1 s."""
        for _ in range(int(seconds / 0.1)):
            if self.has_ended():
                break
            meanwhile()
            _PAUSE.wait(0.1)
        return self.process.poll()

    def finish(self, timeout: float = 180.0) -> int:
        """Wait for the job to end by itself and return its exit status."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            report = self.report()
            self.kill_all()
            raise AssertionError(f"not ended within {timeout:.0f} s{report}") from None

    def assert_finished(self, timeout: float = 180.0) -> None:
        """The job ends with success and leaves neither processes nor temporary folders behind."""
        assert self.finish(timeout) == 0, self.output()
        self.assert_nothing_left()

    def assert_nothing_left(self, timeout: float = 60.0, *, but: str = "") -> None:
        """All processes end, and no temporary folder is left, but for such as `but` is a pattern of."""
        wait_until("no process is left", lambda: not self.members(), timeout, report=self.report)
        left = self.folders_left()
        assert [folder for folder in left if not but or not re.search(but, folder)] == []

    def close(self) -> None:
        """Kill and remove whatever is left."""
        self.kill_all()
        if self._own:
            for folder in self.folders_left():
                shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(self.temporary, ignore_errors=True)


def fatal(rng: random.Random, visits: int) -> str:
    """Return a fault that kills the job at one of the points, in one of the first `visits` visits there."""
    return f"{rng.choice(POINTS)}:kill9:nth={rng.randint(1, visits)}"


@contextmanager
def running(
    *arguments: str,
    log: Path,
    fault: str | None = None,
    launcher: Sequence[str] = (),
    temporary: Path | None = None,
    script: str = "keyed_timers_job.py",
) -> Iterator[Job]:
    """Run a job of the recovery tests, by plain python unless another launcher is given; what is left of it is killed.

    `temporary`: a temporary folder that it shares with others, and that is left to the caller.
    """
    script = str(Path(__file__).with_name(script))
    command = [*(launcher or [sys.executable]), script, *arguments]
    job = Job(command, log, {"FLINKISH_FAULT": fault} if fault else None, temporary)
    try:
        yield job
    finally:
        job.close()
