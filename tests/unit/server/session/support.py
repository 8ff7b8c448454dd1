"""A session without processes: a Dispatcher over a folder, and drivers that are servers in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flinkish.checkpoint.signing import SigningKey
from flinkish.common import Configuration
from flinkish.common.clock import ManualClock
from flinkish.common.errors import EngineError
from flinkish.server.answers.jobs import JobSummary
from flinkish.server.proof import PROOF_PATH, proof
from flinkish.server.session import driver_protocol
from flinkish.server.session.archive import Archive
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.dispatcher_settings import SessionSettings, session_settings
from flinkish.server.session.driver_protocol import Report
from flinkish.server.session.entries import JobEntry, Submission
from flinkish.server.session.processes import Command
from flinkish.server.session.storage import SessionStorage
from tests.kit.http import replying

SCRIPT = b"print('a script')\n"
#: The token of the servers of all drivers.
DRIVER_TOKEN = "of the driver"


def settings_of(folder: Path, **changes: str) -> SessionSettings:
    configuration = {
        "rest.port": "0",
        "high-availability.storageDir": str(folder / "ha"),
        "io.tmp.dirs": str(folder),
        "env.log.dir": str(folder / "log"),
        "security.checkpoint.hmac-key-file": str(folder / "key"),
        "session.driver.start-timeout": "0",
        **changes,
    }
    return session_settings(Configuration.from_dict(configuration))


@dataclass
class FakeProcess:
    """A driver's process that only a test moves."""

    pid: int
    command: Command
    alive: bool = True

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.command.environment)

    @property
    def assignment(self) -> driver_protocol.Assignment:
        return msgspec.json.decode(self.environment[driver_protocol.ASSIGNMENT_VARIABLE], type=driver_protocol.Assignment)

    @property
    def job_id(self) -> str:
        return self.assignment.job_id

    @property
    def driver_id(self) -> str:
        return self.assignment.driver_id

    @property
    def token(self) -> str:
        return self.assignment.token

    def report(self, state: str | None = "RUNNING", *, status: str | None = None, port: int = 1) -> Report:
        """Return what the driver reports; `state` None = its job has not started."""
        return Report(
            job_id=self.job_id,
            driver_id=self.driver_id,
            pid=self.pid,
            created=1.0,
            host="127.0.0.1",
            port=port,
            token=DRIVER_TOKEN,
            summary=None if state is None else summary(self.job_id, state),
            slots=2,
            status=status,
        )


def summary(job_id: str, state: str, name: str = "a job") -> JobSummary:
    return JobSummary(
        jid=job_id,
        name=name,
        jobType="STREAMING",
        start_time=1_000,
        end_time=-1,
        duration=0,
        state=state,
        last_modification=1_000,
        tasks={"total": 1},
    )


@dataclass
class FakeProcesses:
    """See Processes."""

    started: list[FakeProcess] = field(default_factory=list)
    #: Ids of processes that were killed.
    killed: list[int] = field(default_factory=list)
    #: Whether the machine starts no more processes.
    full: bool = False
    #: Processes that are not drivers, such as other Dispatchers, are alive unless they are here.
    dead: set[int] = field(default_factory=set)
    #: See processes.py.
    location: str = "boot/pid/net/machine"

    def start(self, command: Command) -> tuple[int, float]:
        if self.full:
            raise EngineError("the driver could not be started: no space")
        process = FakeProcess(1_000 + len(self.started), command)
        self.started.append(process)
        return process.pid, 1.0

    def is_alive(self, pid: int, created: float) -> bool:
        own = [process for process in self.started if process.pid == pid]
        return own[0].alive if own else pid not in self.dead

    def kill(self, pid: int, created: float) -> None:
        self.killed.append(pid)
        for process in self.started:
            if process.pid == pid:
                process.alive = False

    @property
    def last(self) -> FakeProcess:
        return self.started[-1]


class Ids:
    """Ids that are the same in every run."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def __call__(self) -> str:
        self._next += 1
        return f"{self._next:032x}"


class Member:
    """One Dispatcher with fake processes and a clock that stands still."""

    def __init__(self, folder: Path, *, processes: FakeProcesses | None = None, clock: ManualClock | None = None, **changes: Any):
        self.settings = settings_of(folder, **{key: str(value) for key, value in changes.items()})
        self.processes = processes or FakeProcesses()
        self.clock = clock or ManualClock(1_000_000)
        self.storage = SessionStorage(self.settings.root)
        self.dispatcher = self.make()

    def make(self, address: str = "http://a:1", first_id: int = 0) -> Dispatcher:
        made = Dispatcher(
            self.settings,
            self.processes,
            self.clock,
            Ids(first_id),
            address=address,
            reports="127.0.0.1:2",
            environment={"PATH": "p"},
        )
        made.open()
        return made

    def submit(self, **changes: Any) -> FakeProcess:
        """Start a job whose driver reports, and return the driver."""
        if not self.dispatcher.leadership.lead:
            self.dispatcher.step()
        self.dispatcher.submit(Submission(program=self.dispatcher.upload("job.py", SCRIPT), **changes))
        driver = self.processes.last
        assert self.dispatcher.report(driver.report(), driver.token)
        return driver

    def prepare(self) -> Submission:
        """Lead, and return the submission of a job that is uploaded."""
        self.dispatcher.step()
        return Submission(program=self.dispatcher.upload("job.py", SCRIPT))

    def entry(self, driver: FakeProcess) -> JobEntry:
        found = self.dispatcher.job(driver.job_id)
        assert found is not None
        return found

    def restart(self) -> None:
        """Replace a Dispatcher that was killed or has resigned by a new one, which leads."""
        self.dispatcher = self.make(first_id=1_000)
        self.dispatcher.step()

    def lose(self, driver: FakeProcess) -> None:
        """Let the process of a driver end, and the Dispatcher look."""
        driver.alive = False
        self.dispatcher.step()

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and the Dispatcher look."""
        self.clock.advance(milliseconds)
        self.dispatcher.step()

    def archive(self, driver: FakeProcess, status: str = "FINISHED", **answers: Any) -> None:
        """Write what a driver writes at the end of its job."""
        write_archive(self.storage, driver, status, **answers)

    def state(self, job_id: str) -> str | None:
        entry = self.dispatcher.job(job_id)
        return None if entry is None else self.dispatcher.summary(entry).state


def puts(member: Member, monkeypatch: pytest.MonkeyPatch, act: Callable[[int, Any, Callable[[Any], None]], None]) -> None:
    """Call `act` with the number of each put from now on, the entry, and the real put."""
    registry = member.dispatcher.leadership.leading().registry
    put, numbers = registry.put, iter(range(1, 1_000))
    monkeypatch.setattr(registry, "put", lambda entry: act(next(numbers), entry, put))


def fail_put(member: Member, monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> None:
    """Let the put of this number from now on, and only that, raise an error."""

    def act(this: int, entry: Any, put: Callable[[Any], None]) -> None:
        if this == number:
            raise error
        put(entry)

    puts(member, monkeypatch, act)


def write_archive(storage: SessionStorage, driver: FakeProcess, status: str = "FINISHED", **answers: Any) -> None:
    """Write the archive of a driver's job, with answers by path."""
    raw = {path: msgspec.Raw(json.dumps(answer).encode()) for path, answer in answers.items()}
    storage.write(
        driver_protocol.archive_file(driver.job_id, driver.driver_id), msgspec.json.encode(Archive(status=status, answers=raw))
    )


def other_key(folder: Path, settings: SessionSettings) -> SessionSettings:
    return replace(settings, key=SigningKey.load(str(folder / "other-key")))


@contextmanager
def answering(answers: dict[str, tuple[int, Any]]) -> Iterator[tuple[int, list[tuple[str, str, str, str]]]]:
    """Serve a driver's answers by path on a port of this machine; yield it and the requests: method, path, token, body."""
    seen: list[tuple[str, str, str, str]] = []

    def reply(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, str, bytes]:
        asked, _, query = request.path.partition("?")
        if asked == PROOF_PATH:
            given = proof(DRIVER_TOKEN, request.server.server_address[1], query.removeprefix("nonce="))
            return 200, "text/plain", given.encode()
        seen.append((request.command, request.path, request.headers.get("Authorization", ""), body.decode()))
        status, answer = answers.get(asked, (404, {"errors": ["no"]}))
        return status, "application/json; charset=UTF-8", json.dumps(answer).encode()

    with replying(reply) as port:
        yield port, seen
