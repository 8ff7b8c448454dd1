"""Starts drivers of jobs and observes them: their processes, and the final states that they write."""

from __future__ import annotations

import hashlib
import logging
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from flinkish.common.clock import Clock
from flinkish.common.config_file import PROPERTIES_VARIABLE
from flinkish.common.errors import EngineError, FlinkishError
from flinkish.common.ids import IdSource
from flinkish.program.executor_loader import GATEWAY_VARIABLE
from flinkish.server.logs import tail
from flinkish.server.proof import session_secret
from flinkish.server.server_settings import TOKEN_VARIABLE
from flinkish.server.session import driver_protocol
from flinkish.server.session.dispatcher_settings import SessionSettings
from flinkish.server.session.entries import DriverRecord, JobEntry, ProgramEntry
from flinkish.server.session.processes import Command, Processes, is_running, submit_command
from flinkish.server.session.rotation import begin_again
from flinkish.server.session.storage import SessionStorage

_log = logging.getLogger("flinkish.server.session")

#: Size in bytes at which a driver's file is closed and a new one is begun; at most two such parts of each file are kept.
LONGEST_LOG = 64 << 20
#: When to try again if that failed, in milliseconds.
_LOG_PAUSE = 60_000
#: How long a process that has written a plan may take to end by itself, in milliseconds.
_END_PATIENCE = 5_000
#: How much of a log an error shows, in bytes.
_TAIL = 2_000
#: A line of a driver's log that says nothing about an error.
_INFO = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+ INFO .*\n?", re.MULTILINE)
#: Variables of the Dispatcher that its drivers must not have: the clients' token, and the command line of Flink that started it.
_NOT_FOR_DRIVERS = (TOKEN_VARIABLE, GATEWAY_VARIABLE)


class StartError(FlinkishError, RuntimeError):
    """A program could not be started, or ended without a job."""


@dataclass(slots=True)
class Launch:
    """The drivers of a session on this machine."""

    settings: SessionSettings
    storage: SessionStorage
    processes: Processes
    clock: Clock
    ids: IdSource
    #: The host and port that drivers report to, and the variables that they get.
    reports: str
    environment: Mapping[str, str]
    #: Files that could not be begun again, with the time of the next try, in monotonic milliseconds.
    _not_limited: dict[Path, int] = field(default_factory=dict)

    def start(self, entry: JobEntry, driver: DriverRecord, token: str) -> DriverRecord:
        """Start a driver and return its record with its process; raises StartError, EngineError."""
        log, stdout = self.log_files(entry.job_id)
        checkpoints = self.settings.checkpoints
        assignment = driver_protocol.Assignment(
            job_id=entry.job_id,
            driver_id=driver.id,
            reports=self.reports,
            storage=str(self.settings.root),
            token=token,
            secret=session_secret(self.settings.key),
            files=(str(log), str(stdout)),
            checkpoints=None if checkpoints is None else str(checkpoints),
            earlier=entry.earlier,
        )
        variables = {driver_protocol.ASSIGNMENT_VARIABLE: msgspec.json.encode(assignment).decode()}
        pid, created = self.processes.start(self._command(entry, self._folder(entry.job_id), log, stdout, variables))
        return msgspec.structs.replace(driver, pid=pid, created=created)

    def is_alive(self, driver: DriverRecord | None) -> bool | None:
        """Return whether a driver's process is running; None = unknown, because it runs elsewhere or was not stored."""
        if driver is None or driver.pid is None or driver.created is None:
            return None
        pid, created = driver.pid, driver.created
        return is_running(driver.host, self.processes.location, lambda: self.processes.is_alive(pid, created))

    def kill(self, driver: DriverRecord) -> None:
        """Kill a driver if its process is known to be running."""
        if self.is_alive(driver) and driver.pid is not None and driver.created is not None:
            self.processes.kill(driver.pid, driver.created)

    def ended(self, entry: JobEntry) -> str | None:
        """Return the final state that a job's driver wrote; None if it wrote none. Raises OSError if the storage fails."""
        if entry.driver is None:
            return None
        for what, file in (("archive", driver_protocol.archive_file), ("note of the end", driver_protocol.end_file)):
            content = self.storage.read(file(entry.job_id, entry.driver.id))
            try:
                if content is not None:
                    return msgspec.json.decode(content, type=driver_protocol.End).status
            except (msgspec.MsgspecError, UnicodeDecodeError):
                _log.warning("The %s of job %s is damaged.", what, entry.job_id)
        return None

    def remove_files(self, job_id: str) -> None:
        """Remove the program of a job from this machine; its logs stay."""
        shutil.rmtree(self._folder(job_id), ignore_errors=True)

    def _folder(self, job_id: str) -> Path:
        return self.settings.local / "jobs" / job_id

    def log_files(self, job_id: str) -> tuple[Path, Path]:
        """Return the files with the logs and with the standard output of a job's drivers."""
        return self.settings.logs / f"driver-{job_id}.log", self.settings.logs / f"driver-{job_id}.out"

    def limit_logs(self, job_id: str) -> None:
        """Begin the output files of a job's drivers again if they have become too long; the old content is kept in `.1`."""
        now = self.clock.monotonic()
        for file in self.log_files(job_id):
            if now < self._not_limited.get(file, now):
                continue
            try:
                if file.stat().st_size > LONGEST_LOG:
                    begin_again(file, self.old_log(file))
                self._not_limited.pop(file, None)
            except FileNotFoundError:
                continue
            except OSError as error:
                # Such as a full disk: each try copies the file.
                self._not_limited[file] = now + _LOG_PAUSE
                _log.warning("%s has become long, and could not be begun again: %s", file, error)

    def fetch_logs(self, entry: JobEntry) -> None:
        """Copy the logs of a job that has ended elsewhere from the session's folder to this machine; raises OSError."""
        if entry.driver is not None and self.is_alive(entry.driver) is None:
            files = self.log_files(entry.job_id)
            self.storage.fetch_logs(entry.job_id, entry.driver.id, files, [self.old_log(file) for file in files])

    def keep_logs(self, entry: JobEntry) -> None:
        """Write the logs of a driver that was killed here to the session's folder, as it does at its end; raises OSError."""
        if entry.driver is not None and self.is_alive(entry.driver) is not None:
            self.storage.keep_logs(entry.job_id, entry.driver.id, self.log_files(entry.job_id))

    @staticmethod
    def old_log(file: Path) -> Path:
        """Return where the earlier part of a file is."""
        return file.with_name(f"{file.name}.1")

    def plan(self, entry: JobEntry, timeout: int) -> bytes:
        """Run a program up to its execute(), in a process of its own, and return its plan as JSON.

        Raises StartError if it has none, or not within `timeout` milliseconds; EngineError if the process cannot be started.
        """
        folder = self.settings.local / "plans" / self.ids()
        plan, log, stdout = folder / "plan.json", folder / "plan.log", folder / "plan.out"
        try:
            command = self._command(
                entry, folder, log, stdout, {driver_protocol.PLAN_VARIABLE: str(plan), driver_protocol.JOB_VARIABLE: entry.job_id}
            )
            pid, created = self.processes.start(command)
            try:
                ended = self.wait_while(lambda: self.processes.is_alive(pid, created) and not plan.exists(), timeout)
                if not plan.exists():
                    what = "ended without a job" if ended else f"has not come to its execute() within {timeout} ms"
                    raise StartError(
                        f"{entry.program.name} {what}, so it has no plan. The end of its log:\n{last_words(log, stdout)}",
                        hint="the script must call execute() when it is run as a script; test it with: flinkish explain SCRIPT.",
                    )
                found = plan.read_bytes()
                self.wait_while(lambda: self.processes.is_alive(pid, created), _END_PATIENCE)
                return found
            finally:
                # Nothing that the script has started goes on.
                self.processes.kill(pid, created)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def wait_while(self, condition: Callable[[], bool], timeout: int) -> bool:
        """Wait until a condition does not hold, for at most `timeout` milliseconds; return whether that has come."""
        deadline = self.clock.monotonic() + timeout
        waiting = threading.Condition()
        while condition():
            if self.clock.monotonic() >= deadline:
                return False
            with waiting:
                self.clock.wait(waiting, 20)
        return True

    def _command(self, entry: JobEntry, folder: Path, log: Path, stdout: Path, variables: Mapping[str, str]) -> Command:
        """Return the command that runs a program. No secret is part of it: every user of the machine can read command lines."""
        script = self._fetch(entry.program, folder)
        properties = (*self.settings.properties, *entry.properties)
        environment = {key: value for key, value in self.environment.items() if key not in _NOT_FOR_DRIVERS}
        before = shlex.split(environment.get(PROPERTIES_VARIABLE, ""))
        environment |= {
            PROPERTIES_VARIABLE: shlex.join([*before, *properties]),
            "PYTHONUNBUFFERED": "1",
            **variables,
            driver_protocol.LOG_VARIABLE: str(log),
            driver_protocol.STDOUT_VARIABLE: str(stdout),
            driver_protocol.PROGRAM_VARIABLE: msgspec.json.encode(
                driver_protocol.Program(file=str(script), entry_class=entry.entry_class, arguments=entry.arguments)
            ).decode(),
        }
        options = self.settings.submit_options
        if options is None:
            arguments = [sys.executable, "-m", "flinkish.cli.driver"]
        else:
            bootstrap = folder / "flinkish_driver.py"
            bootstrap.write_text("from flinkish.cli.driver import main\n\nmain()\n")
            arguments = submit_command(bootstrap)
            environment[driver_protocol.SUBMIT_VARIABLE] = shlex.join(options)
        working_folder = self.settings.working_folder
        return Command(arguments=arguments, environment=environment, folder=working_folder, log=log, stdout=stdout)

    def _fetch(self, program: ProgramEntry, folder: Path) -> Path:
        """Copy a program into a folder of this machine; raises StartError if the file in the storage is not the uploaded one."""
        try:
            content = self.storage.read(driver_protocol.program_file(program.id))
            if content is None or hashlib.sha256(content).hexdigest() != program.sha256:
                what = "gone" if content is None else "not the one that was uploaded"
                raise StartError(f"the program {program.name} in {self.settings.root} is {what}")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            target = folder / program.name
            draft = folder / f".{self.ids()}.new"
            draft.write_bytes(content)
            draft.chmod(0o600)
            draft.replace(target)
        except OSError as error:
            raise EngineError(f"the program {program.name} could not be copied to {folder}: {error}") from error
        return target


def last_words(log: Path, stdout: Path) -> str:
    """Return the end of a driver's log without lines of level INFO, else of its standard output."""
    return _INFO.sub("", tail(log, _TAIL)).strip() or tail(stdout, _TAIL).strip() or "(it is empty)"
