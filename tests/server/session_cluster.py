"""A session cluster of real processes: Dispatchers of one storage, and the drivers that they start."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.kit.http import ask
from tests.kit.waiting import wait_until
from tests.recovery.processes import Job


class Session:
    """Dispatchers of one storage."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """Start nothing yet; `settings` are in addition to those of folders."""
        self.folder = folder
        self._settings = settings or {}
        #: Whatever they have started is found by them.
        self._jobs: list[Job] = []
        self.port = 0
        #: The Dispatcher that leads, and one that waits.
        self.process: Job | None = None
        self._waiting: tuple[Job, int] | None = None

    def start(self) -> None:
        """Start a Dispatcher and wait until it answers."""
        self.process, self.port = self._start()

    def stand_by(self) -> None:
        """Start one more Dispatcher, which waits until the leader is gone."""
        self._waiting = self._start()

    def _start(self) -> tuple[Job, int]:
        settings = {
            "rest.port": "0",
            "high-availability.storageDir": str(self.folder / "ha"),
            "io.tmp.dirs": str(self.folder / "tmp"),
            "env.log.dir": str(self.folder / "log"),
            "security.checkpoint.hmac-key-file": str(self.folder / "key"),
            **self._settings,
        }
        (self.folder / "tmp").mkdir(exist_ok=True)
        properties = [f"-D{key}={value}" for key, value in settings.items() if value]
        command = [sys.executable, "-m", "flinkish.server.session", *properties]
        before = self._jobs[0].temporary if self._jobs else None
        job = Job(command, self.folder / f"dispatcher-{len(self._jobs) + 1}.out", temporary=before)
        self._jobs.append(job)
        job.wait_until("the Dispatcher", lambda: "Dispatcher: http" in job.output())
        line = next(line for line in job.output().splitlines() if line.startswith("Dispatcher: http"))
        return job, int(line.rpartition(":")[2])

    def take_over(self) -> None:
        """Kill the leader, and wait until the Dispatcher that stands by leads."""
        assert self._waiting is not None
        assert self.ask("GET", "/overview", port=self._waiting[1])[0] == 503
        self.kill()
        (self.process, self.port), self._waiting = self._waiting, None
        wait_until("the other Dispatcher leads", lambda: self.ask("GET", "/overview")[0] == 200, 120, report=self.logs)

    def kill(self) -> None:
        """Kill the Dispatcher."""
        assert self.process is not None
        self.process.process.kill()
        self.process.process.wait()

    def kill_all(self) -> None:
        """Kill the Dispatcher and the one that stands by."""
        self.kill()
        if self._waiting is not None:
            self._waiting[0].process.kill()
            self._waiting[0].process.wait()
            self._waiting = None

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, port: int | None = None
    ) -> tuple[int, Any]:
        return ask(port or self.port, method, path, body, headers)

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", path)
        assert status == 200, (path, status, answer, self.logs())
        return answer

    def upload(self, script: Path) -> str:
        form = (
            b'--x\r\nContent-Disposition: form-data; name="jarfile"; filename="' + script.name.encode() + b'"\r\n'
            b"Content-Type: application/octet-stream\r\n\r\n" + script.read_bytes() + b"\r\n--x--\r\n"
        )
        status, answer = self.ask("POST", "/jars/upload", form, {"Content-Type": "multipart/form-data; boundary=x"})
        assert (status, answer["status"]) == (200, "success")
        return str(answer["filename"]).rpartition("/")[2]

    def run(self, program: str, *arguments: str, module: str | None = None) -> str:
        """Start a program and return the id of its job; `module` is the one of a zip file to run."""
        entry = {} if module is None else {"entryClass": module}
        status, answer = self.ask("POST", f"/jars/{program}/run", {"programArgsList": arguments, **entry})
        assert status == 200, (answer, self.logs())
        return str(answer["jobid"])

    def drivers(self, job_id: str) -> list[int]:
        """Return the living processes that run a job's script."""
        found = []
        for process in self.members():
            with suppress(psutil.Error, OSError):
                environment = Path(f"/proc/{process.pid}/environ").read_text(errors="replace")
                if job_id in environment and _is_driver(process.cmdline()):
                    found.append(process.pid)
        return sorted(set(found))

    def members(self) -> list[psutil.Process]:
        """Return all living processes of Dispatchers and drivers."""
        return [process for job in self._jobs for process in job.members()]

    def pid(self, job_id: str) -> int:
        """Return the process of the job's driver, which its thread dump does not say, but its environment does."""
        (pid,) = self.drivers(job_id)
        return pid

    def completed(self, job_id: str) -> int:
        status, answer = self.ask("GET", f"/jobs/{job_id}/checkpoints")
        return int(answer["counts"]["completed"]) if status == 200 else 0

    def await_checkpoints(self, job_id: str, timeout: float = 60.0) -> None:
        """Wait until the job's present driver has completed two checkpoints."""
        wait_until("two checkpoints", lambda: self.completed(job_id) >= 2, timeout, report=self.logs)

    def logs(self) -> str:
        return "\n".join(
            f"== {file.name}\n{file.read_text(errors='replace')[-3000:]}"
            for file in sorted([*self.folder.glob("dispatcher-*.out"), *(self.folder / "log").glob("*")])
        )

    def close(self) -> None:
        # The first one's folder is that of all.
        for job in reversed(self._jobs):
            job.close()


def is_alive(pid: int) -> bool:
    """A process that has ended is there until its parent, which may not be the Dispatcher any more, takes note of it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_driver(command: list[str]) -> bool:
    # Of spark-submit, the JVM and what started it have the script on their command lines, too.
    return "flinkish.cli.driver" in command or (len(command) == 2 and command[1].endswith("/flinkish_driver.py"))


def assert_exact(folder: Path, count: int) -> None:
    """Each number was written once, and the sums in the state have all of them."""
    parts = [file for file in (folder / "out").rglob("*") if file.is_file() and not file.name.startswith((".", "_"))]
    written = [tuple(map(int, line.split())) for file in parts for line in file.read_text().splitlines()]
    assert sorted(number for number, _ in written) == list(range(1, count + 1))
    for parity in (0, 1):
        of_key = [(number, total) for number, total in written if number % 2 == parity]
        assert max(total for _, total in of_key) == sum(number for number, _ in of_key)
