"""The driver's side of session mode: runs one job under the id that the Dispatcher chose, and reports to the Dispatcher.

Reports are the only messages. Each contains everything that a Dispatcher needs to know about the driver, so that a Dispatcher
that has just started finds the driver by its next report. If no Dispatcher accepts a report, the driver looks up the leader in
the session's folder; the job continues in the meantime.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import threading
import time
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path

import msgspec

from flinkish.common import options
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, InvalidProgramError, StaleGenerationError
from flinkish.common.files import store_settings
from flinkish.common.job_status import JobStatus
from flinkish.engine import executor
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import RUNNING_JOBS
from flinkish.engine.processes import this_process
from flinkish.jobmaster.exception_history import EarlierRestarts, FailureRecord
from flinkish.program.program import Program
from flinkish.server import executor as server_executor
from flinkish.server.answers.jobs import JobSummary
from flinkish.server.proof import ask
from flinkish.server.server_settings import ServerSettings, is_loopback, server_settings
from flinkish.server.session import driver_protocol
from flinkish.server.session.archive import Archive, make_archive
from flinkish.server.session.driver_protocol import ASSIGNMENT_VARIABLE, Assignment, LeaderRecord, Report
from flinkish.server.session.processes import has_same_loopback, this_location
from flinkish.server.session.storage import SessionStorage
from flinkish.server.state import ServedJob, ServerState
from flinkish.server.views import jobs as job_views

_log = logging.getLogger("flinkish.server.session")

#: How long one report may take, in seconds.
_REPORT_TIMEOUT = 5.0
#: Minimum time between two searches for the leader, in milliseconds.
_LOOK_INTERVAL = 500
#: How long a driver tries to reach a Dispatcher before it starts its job without one, in seconds.
_START_PATIENCE = 10.0
#: The part of heartbeat.timeout after which a driver ends that cannot reach the leader.
_SHARE_OF_SILENCE = 0.8
#: Waiting times before the attempts to write the archive of a job, in seconds: 5 attempts in 15 s.
_ARCHIVE_WAITS = (0.0, 1.0, 2.0, 4.0, 8.0)
#: Maximum length of a job's name in reports, in characters.
_LONGEST_NAME = 1_000
#: Settings of the Dispatcher's server, which do not apply to the driver's own server.
_SERVER_PREFIXES = ("rest.", "security.ssl.")


class SupersededError(StaleGenerationError):
    """The Dispatcher has started another driver for the job; this one must end."""


class SessionDriver:
    """The one job of this process."""

    def __init__(self, assignment: Assignment, clock: Clock) -> None:
        self._assignment = assignment
        self._storage = SessionStorage(assignment.storage)
        self._reports = assignment.reports
        self._looked = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._wake = threading.Event()
        self._state: ServerState | None = None
        self._job: EmbeddedJobClient | None = None
        self._status: str | None = None
        self._executed = False
        self._heard = threading.Event()
        self._superseded = False
        self._created = this_process().created
        self._modules: str | None = None
        #: How long a driver may be silent until a Dispatcher starts another one, in milliseconds.
        self._silence = options.HEARTBEAT_TIMEOUT.default
        #: The last record of a leader on another machine or in another container, and when it was first seen there.
        self._foreign: LeaderRecord | None = None
        self._foreign_since = 0

    def take_modules(self, archive: Path) -> None:
        """Send the modules in a zip file, which this process has on its sys.path already, to tasks on other machines."""
        self._modules = str(archive)

    def execute_async(self, program: Program) -> EmbeddedJobClient:
        """Start the program as the job; raises InvalidProgramError if it is the script's second one.

        Its checkpoints must outlive this process: if its configuration names no folder for them, they are kept with the session.
        """
        with self._lock:
            if self._executed:
                raise InvalidProgramError(
                    "a script that was submitted to a session runs one job, and this is its second execute() or execute_async()",
                    hint="submit each job as a script of its own, or run the script by itself: flinkish run JOB.py.",
                )
            self._executed = True
        store_settings.use(program.configuration, alone=not RUNNING_JOBS.running())
        # Exit functions are called in reverse order: this one after the server has waited for clients and closed.
        atexit.register(self._finish)
        self._state = server_executor.ensure_server(driver_settings(program.configuration))
        RUNNING_JOBS.subscribe(self)
        interval = program.configuration.get(options.HEARTBEAT_INTERVAL)
        self._silence = program.configuration.get(options.HEARTBEAT_TIMEOUT)
        threading.Thread(target=self._run, args=(interval / 1000,), name="flinkish-reports", daemon=True).start()
        self._heard.wait(_START_PATIENCE)
        if self._superseded:
            raise SupersededError(
                f"job {self._assignment.job_id}: the Dispatcher has started another driver for it, or has ended it; this one ends"
            )
        job_id = self._assignment.job_id
        program = replace(program, own_modules=self._modules, configuration=self._with_checkpoints(program.configuration))
        return executor.execute_async(program, job_id=job_id, retire=self._retire, earlier=self._earlier())

    def _earlier(self) -> EarlierRestarts | None:
        earlier = self._assignment.earlier
        if earlier is None:
            return None
        last = FailureRecord(
            timestamp=earlier.last_failure_time,
            error="JobExecutionError",
            text=earlier.last_failure,
            line=earlier.last_failure,
            series_began=earlier.restarting_since or earlier.last_failure_time,
        )
        return EarlierRestarts(count=earlier.count, last_failure=last)

    def _with_checkpoints(self, configuration: Configuration) -> Configuration:
        folder = self._assignment.checkpoints
        takes_any = configuration.contains(options.CHECKPOINTING_INTERVAL)
        if folder is None or not takes_any or configuration.contains(options.CHECKPOINTS_DIRECTORY):
            return configuration
        return Configuration(configuration).set(options.CHECKPOINTS_DIRECTORY, folder)

    def wait(self) -> None:
        """Wait until the job, if the script has started one, has released everything."""
        job = self._job
        while job is not None and not job.wait_released(1.0):
            pass

    def job_started(self, job: EmbeddedJobClient) -> None:
        """Report the start immediately, so that clients see the job."""
        self._job = job
        self._wake.set()

    def job_ended(self, job: EmbeddedJobClient) -> None:
        """Write the archive and report the end, before clients are notified of it."""
        if self._superseded or not job.job_master.status.is_globally_terminal_state():
            # It goes on in another process.
            return
        state, served = self._state, self._served()
        if state is None or served is None:
            return
        archive = make_archive(state, served)
        if self._write(archive):
            self._status = archive.status
            self._report()
            self._write_logs()

    def _retire(self, job_id: str) -> None:
        """Write that the job has ended for good. Called before its checkpoints, without which it cannot restart, are deleted."""
        job = self._job
        status = JobStatus.FINISHED if job is None else job.job_master.status
        final = {"CANCELLING": "CANCELED", "FAILING": "FAILED"}.get(status.name, status.name)
        content = msgspec.json.encode({"status": final if final in driver_protocol.FINAL else "FINISHED"})
        self._storage.write(driver_protocol.end_file(job_id, self._assignment.driver_id), content)

    def _write(self, archive: Archive) -> bool:
        inside = driver_protocol.archive_file(self._assignment.job_id, self._assignment.driver_id)
        for wait in _ARCHIVE_WAITS:
            time.sleep(wait)
            try:
                self._storage.write(inside, msgspec.json.encode(archive))
                return True
            except OSError as error:
                _log.warning("The archive of job %s could not be written: %s", self._assignment.job_id, error)
        return False

    def _write_logs(self) -> None:
        """Write the end of the log and of the standard output to the session's folder, for Dispatchers on other machines."""
        assignment = self._assignment
        try:
            self._storage.keep_logs(assignment.job_id, assignment.driver_id, [Path(file) for file in assignment.files])
        except OSError as error:
            _log.warning("The log of job %s could not be kept with the session: %s", assignment.job_id, error)

    def _finish(self) -> None:
        """Write what becomes known only after the end of the job: results of savepoints and stops, and the rest of the log."""
        state, served = self._state, self._served()
        if state is None or served is None or self._status is None:
            return
        self._write_logs()
        results = state.operations.results()
        if not results:
            return
        paths = {f"/jobs/{served.job_id}/{key.kind}s/{key.trigger_id}": result for key, result in results.items()}
        self._write(make_archive(state, served, paths))

    def _served(self) -> ServedJob | None:
        return None if self._state is None else self._state.jobs.get(self._assignment.job_id)

    def _run(self, interval: float) -> None:
        while not self._superseded:
            try:
                self._report()
            except Exception:
                _log.exception("A report of job %s failed.", self._assignment.job_id)
            self._wake.wait(interval)
            self._wake.clear()
        self._end_superseded()

    def _end_superseded(self) -> None:
        _log.error("Job %s: the Dispatcher does not know this driver any more; it ends.", self._assignment.job_id)
        job = self._job
        if job is not None:
            job.stop_for_signal("the Dispatcher, which has started another driver for it")
            job.wait_released(_START_PATIENCE)
        os._exit(1)

    def _report(self) -> None:
        """Send one report: to the last known address, else to the leader that the session's folder names."""
        with self._sending:
            body = msgspec.json.encode(self._current())
            if self._send(body):
                return
            now = self._clock.monotonic()
            if now - self._looked < _LOOK_INTERVAL:
                return
            self._looked = now
            try:
                leader = self._storage.leader()
            except OSError as error:
                _log.warning("The session's leader could not be read: %s", error)
                return
            self._end_before_another(leader, now)
            # Reports contain tokens, and others may have written to the storage: reports never leave this machine. On another
            # machine or in another container, the port is somebody else's here.
            if (
                leader is not None
                and leader.reports != self._reports
                and is_loopback(leader.reports.rpartition(":")[0])
                and has_same_loopback(leader.host, this_location())
            ):
                self._reports = leader.reports
                self._send(body)

    def _end_before_another(self, leader: LeaderRecord | None, now: int) -> None:
        """End if the leader is where this driver cannot report to: it starts another one after heartbeat.timeout.

        If it has gone itself meanwhile, this driver goes on.
        """
        if leader is None or leader.ended or has_same_loopback(leader.host, this_location()):
            self._foreign = None
        elif self._foreign is None or self._foreign.generation != leader.generation:
            self._foreign, self._foreign_since = leader, now
        elif self._foreign.beat != leader.beat:
            # It is alive.
            self._foreign = leader
            if now - self._foreign_since > self._silence * _SHARE_OF_SILENCE:
                _log.error("Job %s: the leader at %s cannot be reached from here.", self._assignment.job_id, leader.address)
                self._superseded = True

    def _send(self, body: bytes) -> bool:
        try:
            token, secret = self._assignment.token, self._assignment.secret
            reply = ask(
                self._reports, "POST", driver_protocol.REPORT_PATH, token=token, secret=secret, body=body, timeout=_REPORT_TIMEOUT
            )
        except OSError:
            return False
        if reply.status not in (200, 409):
            return False
        self._superseded |= reply.status == 409
        self._heard.set()
        return True

    def _current(self) -> Report:
        state = self._state
        assert state is not None
        served = self._served()
        view = None if served is None else served.view()
        host, _, port = state.address.rpartition(":")
        return Report(
            job_id=self._assignment.job_id,
            driver_id=self._assignment.driver_id,
            pid=os.getpid(),
            created=self._created,
            host=host,
            port=int(port),
            token=state.settings.token or "",
            summary=None if view is None else _shortened(job_views.summary(view)),
            slots=0 if view is None or view.status.is_terminal_state() else view.setup.plan.slots,
            status=self._status,
        )


def _shortened(summary: JobSummary) -> JobSummary:
    """Return a summary that fits into a report, whatever the job's name: a Dispatcher refuses reports that are too long."""
    if len(summary.name) <= _LONGEST_NAME:
        return summary
    return msgspec.structs.replace(summary, name=f"{summary.name[:_LONGEST_NAME]}...")


def driver_settings(configuration: Configuration) -> ServerSettings:
    """Return the settings of a driver's own server: any free port of this machine, and a token of its own."""
    own = Configuration(configuration)
    for key in own.key_set():
        if key.startswith(_SERVER_PREFIXES):
            own.remove_config(key)
    settings = server_settings(own.set(options.REST_PORT, 0).set(options.REST_ADDRESS, "127.0.0.1"))
    assert settings is not None
    return replace(settings, token=secrets.token_hex(16), proves=True)


def become_driver(environment: MutableMapping[str, str]) -> SessionDriver:
    """Make this process the driver of a session's job, and remove its secrets from the environment.

    Raises ConfigurationError if no Dispatcher has started this process.
    """
    assignment = environment.pop(ASSIGNMENT_VARIABLE, None)
    if assignment is None:
        raise ConfigurationError(
            "only the Dispatcher of a session starts this module", hint="start a session with: flinkish cluster start"
        )
    server_executor.session = SessionDriver(msgspec.json.decode(assignment, type=Assignment), SystemClock())
    return server_executor.session
