"""The Dispatcher: which jobs and programs a session has, and what becomes of them.

`step` is called again and again by one thread (`service.py`): it takes the lead when nobody has it, renews the lease, and looks
after the drivers. Everything that clients and drivers ask is answered under one lock, from memory. What is decided is stored in
the registry before it is done.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

import msgspec

from flinkish.common.clock import Clock
from flinkish.common.config_file import PROPERTIES_VARIABLE
from flinkish.common.errors import (
    EngineError,
    FlinkishError,
    RegistryError,
    StaleGenerationError,
)
from flinkish.common.ids import IdSource
from flinkish.program.executor_loader import GATEWAY_VARIABLE
from flinkish.server.answers.jobs import JobSummary
from flinkish.server.session import wire
from flinkish.server.session.archive import Archive, decode_archive
from flinkish.server.session.election import Lease, Watch
from flinkish.server.session.entries import (
    DriverRecord,
    Entry,
    JobEntry,
    ProgramEntry,
    changed,
    hash_of,
    key_of,
)
from flinkish.server.session.processes import (
    HOST,
    Command,
    Processes,
    driver_command,
    own_start,
    submit_command,
    tail,
)
from flinkish.server.session.registry import Registry
from flinkish.server.session.settings import SessionSettings, make_private
from flinkish.server.session.storage import SessionStorage
from flinkish.server.session.supervision import (
    UNKNOWN_PATIENCE,
    Close,
    Fail,
    Keep,
    Sight,
    Start,
    decide,
)
from flinkish.server.session.wire import LeaderRecord, Report
from flinkish.server.settings import TOKEN_VARIABLE

_log = logging.getLogger("flinkish.server.session")

#: Archives that are kept in memory.
_ARCHIVES = 16
#: How much of a log an error shows, in bytes.
_TAIL = 2_000
#: Variables of the Dispatcher that its drivers must not have: the clients' token, and the command line of Flink that started it.
_NOT_FOR_DRIVERS = (TOKEN_VARIABLE, GATEWAY_VARIABLE)


class NotLeaderError(FlinkishError, RuntimeError):
    """Another Dispatcher leads the session, or none does yet."""

    def __init__(self, leader: str | None) -> None:
        self.leader = leader
        where = "nobody leads the session yet; ask again in a moment" if leader is None else f"the session's leader is {leader}"
        super().__init__(f"this Dispatcher does not lead: {where}.")


class StartError(FlinkishError, RuntimeError):
    """A program could not be started, or ended without a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What to run."""

    program: ProgramEntry
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    job_id: str | None = None


@dataclass(slots=True)
class _Live:
    """What is known of a job beside its entry, since this Dispatcher leads."""

    report: Report | None = None
    #: When the driver has reported, or could first have, in monotonic milliseconds.
    heard: int = 0
    #: Whether a client waits for its start, and gets the error if it fails.
    awaited: bool = False


@dataclass(slots=True)
class _Lead:
    """What a leader has."""

    registry: Registry
    record: LeaderRecord
    lease: Lease
    programs: dict[str, ProgramEntry] = field(default_factory=dict)
    jobs: dict[str, JobEntry] = field(default_factory=dict)
    live: dict[str, _Live] = field(default_factory=dict)


class Dispatcher:
    """One member of a session; all methods may be called from any thread."""

    def __init__(
        self,
        settings: SessionSettings,
        processes: Processes,
        clock: Clock,
        ids: IdSource,
        *,
        address: str,
        reports: str,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Make a Dispatcher that clients reach at `address` (a URL) and drivers at `reports` (host and port)."""
        self.settings = settings
        self._processes = processes
        self._clock = clock
        self._ids = ids
        self.address = address
        self._reports = reports
        self._environment = dict(environment)
        self._storage = SessionStorage(settings.root)
        self._watch = Watch(settings.lease, HOST, processes.is_alive)
        self._created = own_start()
        self._lock = threading.RLock()
        self._lead: _Lead | None = None
        self._leader: LeaderRecord | None = None
        self._archives: OrderedDict[str, Archive] = OrderedDict()

    # -- leading -------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the folders. Raises ConfigurationError for local ones, OSError for the session's."""
        make_private(self.settings.local)
        make_private(self.settings.logs)
        self._storage.make()

    def step(self) -> None:
        """Do what is due; errors of the storage are raised as OSError or RegistryError, and the next step tries again."""
        now = self._clock.monotonic()
        lead = self._lead
        if lead is None:
            self._leader = self._storage.leader()
            # A record of its own is left if it has lost its lease and nobody has taken it.
            if self._is_own(self._leader) or self._watch.is_free(self._leader, now):
                self._take_lead()
            return
        if lead.lease.is_lost(now):
            self._step_down("its lease was not renewed in time")
            return
        if lead.lease.is_due(now):
            self._renew(lead, now)
        if self._lead is lead:
            self._supervise(lead)

    def resign(self) -> None:
        """Stop leading, so that another Dispatcher can take over at once; drivers and jobs go on."""
        with self._lock:
            lead, self._lead = self._lead, None
        if lead is not None:
            self._storage.write_leader(msgspec.structs.replace(lead.record, beat=lead.record.beat + 1, ended=True))

    @property
    def leads(self) -> bool:
        return self._lead is not None

    @property
    def leader(self) -> str | None:
        """The address of the leader, if another Dispatcher is."""
        record = self._leader
        return None if record is None or record.ended else record.address

    def _take_lead(self) -> None:
        now = self._clock.monotonic()
        registry = Registry(self.settings.root, self.settings.key, self._clock)
        entries = registry.claim()
        record = LeaderRecord(
            generation=registry.generation,
            address=self.address,
            reports=self._reports,
            host=HOST,
            pid=os.getpid(),
            created=self._created,
        )
        self._storage.write_leader(record)
        self._storage.forget_leaders(record.generation)
        lead = _Lead(registry=registry, record=record, lease=Lease(self.settings.lease, now))
        for entry in entries.values():
            if isinstance(entry, ProgramEntry):
                lead.programs[entry.id] = entry
            else:
                lead.jobs[entry.job_id] = entry
                lead.live[entry.job_id] = _Live(heard=now)
        with self._lock:
            self._lead = lead
        running = sum(entry.status is None for entry in lead.jobs.values())
        _log.info("This Dispatcher leads as generation %d; %d jobs are to run.", registry.generation, running)

    def _is_own(self, record: LeaderRecord | None) -> bool:
        return record is not None and (record.address, record.reports) == (self.address, self._reports)

    def _renew(self, lead: _Lead, now: int) -> None:
        latest = self._storage.leader()
        if latest is not None and latest.generation > lead.record.generation:
            self._leader = latest
            self._step_down(f"generation {latest.generation} leads")
            return
        lead.record = msgspec.structs.replace(lead.record, beat=lead.record.beat + 1)
        self._storage.write_leader(lead.record)
        lead.lease.renewed(now)

    def _step_down(self, why: str) -> None:
        _log.warning("This Dispatcher does not lead any more: %s.", why)
        with self._lock:
            self._lead = None

    def _leading(self) -> _Lead:
        lead = self._lead
        if lead is None:
            raise NotLeaderError(self.leader)
        return lead

    def _store(self, lead: _Lead, entry: Entry) -> None:
        """Store an entry and take it over; raises NotLeaderError, RegistryError."""
        try:
            lead.registry.put(entry)
        except StaleGenerationError as error:
            self._step_down(str(error))
            raise NotLeaderError(None) from error
        if isinstance(entry, ProgramEntry):
            lead.programs[entry.id] = entry
        else:
            lead.jobs[entry.job_id] = entry

    def _forget(self, lead: _Lead, entry: Entry) -> None:
        try:
            lead.registry.remove(key_of(entry))
        except StaleGenerationError as error:
            self._step_down(str(error))
            raise NotLeaderError(None) from error
        if isinstance(entry, ProgramEntry):
            lead.programs.pop(entry.id, None)
        else:
            lead.jobs.pop(entry.job_id, None)
            lead.live.pop(entry.job_id, None)

    # -- programs ------------------------------------------------------------------------------------------------------------

    def upload(self, name: str, content: bytes) -> ProgramEntry:
        """Keep a program; raises RegistryError if there is no space."""
        with self._lock:
            lead = self._leading()
            entry = ProgramEntry(
                id=f"{self._ids()}_{name}",
                name=name,
                size=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
                uploaded=self._clock.wall_time(),
            )
            try:
                self._storage.write(_program_file(entry), content)
            except OSError as error:
                raise RegistryError(f"the program {name} could not be stored: {error}") from error
            self._store(lead, entry)
            return entry

    def programs(self) -> Sequence[ProgramEntry]:
        """Return the uploaded programs, newest first."""
        with self._lock:
            return sorted(self._leading().programs.values(), key=lambda entry: -entry.uploaded)

    def program(self, program_id: str) -> ProgramEntry | None:
        with self._lock:
            return self._leading().programs.get(program_id)

    def delete_program(self, program_id: str) -> bool:
        """Forget a program; return whether it was known. Jobs that were started from it go on, and can be started again."""
        with self._lock:
            lead = self._leading()
            entry = lead.programs.get(program_id)
            if entry is None:
                return False
            self._forget(lead, entry)
            self._remove_unused(lead, entry)
            return True

    def _remove_unused(self, lead: _Lead, program: ProgramEntry) -> None:
        if program.id not in lead.programs and all(job.program.id != program.id for job in lead.jobs.values()):
            self._remove_file(_program_file(program))

    def _remove_file(self, inside: str) -> None:
        try:
            self._storage.remove(inside)
        except OSError as error:
            _log.warning("%s in %s could not be removed: %s", inside, self.settings.root, error)

    # -- jobs ----------------------------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> str:
        """Start a program and return its job's id; raises StartError, RegistryError, NotLeaderError.

        Waits until the job has started or the script has ended without one, for at most session.driver.start-timeout.
        """
        with self._lock:
            lead = self._leading()
            job_id = submission.job_id or self._ids()
            if job_id in lead.jobs:
                raise StartError(f"there is a job {job_id} already", hint="leave the job id out.")
            entry = JobEntry(
                job_id=job_id,
                program=submission.program,
                entry_class=submission.entry_class,
                arguments=submission.arguments,
                properties=submission.properties,
                submitted=self._clock.wall_time(),
            )
            live = lead.live[job_id] = _Live(heard=self._clock.monotonic(), awaited=True)
            try:
                self._start(lead, entry)
            except BaseException:
                live.awaited = False
                if job_id in lead.jobs:
                    self._forget(lead, lead.jobs[job_id])
                lead.live.pop(job_id, None)
                raise
        try:
            self._await_start(lead, job_id, live)
        finally:
            live.awaited = False
        return job_id

    def _await_start(self, lead: _Lead, job_id: str, live: _Live) -> None:
        deadline = self._clock.monotonic() + self.settings.start_timeout
        waiting = threading.Condition()
        while self._lead is lead and self._clock.monotonic() < deadline:
            with self._lock:
                entry = lead.jobs.get(job_id)
                if entry is None or entry.status is not None or (live.report is not None and live.report.summary is not None):
                    return
                if self._is_gone(entry):
                    ended = self._ended(entry)
                    if ended is None:
                        self._forget(lead, entry)
                        self._remove_unused(lead, entry.program)
                        raise StartError(
                            f"{entry.program.name} ended without starting a job. The end of its log:\n{self._log_end(job_id)}",
                            hint="the script must call execute() when it is run as a script; test it with: flinkish run SCRIPT.",
                        )
                    return
            with waiting:
                self._clock.wait(waiting, 50)

    def _log_end(self, job_id: str) -> str:
        return tail(self.log_file(job_id), _TAIL).strip() or tail(self.stdout_file(job_id), _TAIL).strip() or "(it is empty)"

    def job(self, job_id: str) -> JobEntry | None:
        """Return a job; None if it is not known."""
        with self._lock:
            return self._leading().jobs.get(job_id)

    def job_with_prefix(self, digits: str) -> JobEntry | None:
        """Return the job whose id begins so and that has not ended; None if there is none, or several."""
        with self._lock:
            found = [job for job in self._leading().jobs.values() if job.status is None and job.job_id.startswith(digits)]
            return found[0] if len(found) == 1 else None

    def jobs(self) -> Sequence[JobEntry]:
        """Return all jobs, oldest first."""
        with self._lock:
            return sorted(self._leading().jobs.values(), key=lambda entry: entry.submitted)

    def summary(self, entry: JobEntry) -> JobSummary:
        """Return a job's line in /jobs/overview."""
        now = self._clock.wall_time()
        if entry.status is None and entry.summary is not None and self.driver(entry) is None:
            return msgspec.structs.replace(entry.shown(now), state="RESTARTING")
        return entry.shown(now)

    def slots(self, entry: JobEntry) -> int:
        """Return the number of slots that a job has now."""
        with self._lock:
            live = self._leading().live.get(entry.job_id)
        return 0 if entry.status is not None or live is None or live.report is None else live.report.slots

    def driver(self, entry: JobEntry) -> Report | None:
        """Return the last report of a driver that may answer about its job; None if the job has not started in any."""
        with self._lock:
            live = self._leading().live.get(entry.job_id)
            return None if live is None or live.report is None or live.report.summary is None else live.report

    def is_lost(self, entry: JobEntry) -> bool:
        """Look whether the process of a job's driver is gone, and note it."""
        with self._lock:
            live = self._leading().live.get(entry.job_id)
            if live is None or live.report is None:
                return True
            if self._is_gone(entry):
                live.report = None
            return live.report is None

    def cancel(self, entry: JobEntry) -> None:
        """Have a job whose driver is not there not started again; raises RegistryError."""
        with self._lock:
            lead = self._leading()
            current = lead.jobs[entry.job_id]
            if current.status is None:
                self._store(lead, changed(current, cancelling=True))

    def archive(self, entry: JobEntry) -> Archive | None:
        """Return the answers about a job that has ended; None if there are none. Raises RegistryError if they cannot be read."""
        if entry.archive is None:
            return None
        final = self.driver(entry) is None
        with self._lock:
            known = self._archives.get(entry.archive)
        if known is not None and final:
            return known
        try:
            content = self._storage.read(entry.archive)
            found = None if content is None else decode_archive(content)
        except (OSError, ValueError) as error:
            raise RegistryError(f"the archive of job {entry.job_id} cannot be read: {error}") from error
        if found is not None and final:
            with self._lock:
                self._archives[entry.archive] = found
                while len(self._archives) > _ARCHIVES:
                    self._archives.popitem(last=False)
        return found

    def log_file(self, job_id: str) -> Path:
        """Return the file with the logs of a job's drivers."""
        return self.settings.logs / f"driver-{job_id}.log"

    def stdout_file(self, job_id: str) -> Path:
        """Return the file with the standard output of a job's drivers."""
        return self.settings.logs / f"driver-{job_id}.out"

    # -- drivers -------------------------------------------------------------------------------------------------------------

    def report(self, report: Report, token: str) -> bool:
        """Take a driver's report; return False if the driver must end, because it is not that of the job any more.

        Raises NotLeaderError, RegistryError.
        """
        with self._lock:
            lead = self._leading()
            entry = lead.jobs.get(report.job_id)
            record = None if entry is None else entry.driver
            if entry is None or record is None or record.id != report.driver_id or record.token_hash != hash_of(token):
                return False
            if entry.status is not None and report.status is None:
                return False
            live = lead.live[entry.job_id]
            live.report, live.heard = report, self._clock.monotonic()
            if record.pid != report.pid:
                # With spark-submit, the process that was started is not the driver itself.
                entry = changed(entry, driver=msgspec.structs.replace(record, pid=report.pid, created=report.created))
                self._store(lead, entry)
            first = entry.summary is None
            if report.summary is not None:
                entry = lead.jobs[entry.job_id] = changed(entry, summary=report.summary)
                if first and report.status is None:
                    # The name is known from now on, also after the Dispatcher was killed.
                    self._store(lead, entry)
            if report.status is not None and entry.status is None:
                self._close(lead, entry, report.status)
            return True

    def _supervise(self, lead: _Lead) -> None:
        for job_id in list(lead.jobs):
            with self._lock:
                entry = lead.jobs.get(job_id)
                live = lead.live.get(job_id)
                if entry is None or live is None or self._lead is not lead:
                    continue
                try:
                    self._look_after(lead, entry, live)
                except NotLeaderError:
                    return
                except (FlinkishError, OSError) as error:
                    _log.warning("Job %s: %s", job_id, error)
        self._expire(lead)

    def _look_after(self, lead: _Lead, entry: JobEntry, live: _Live) -> None:
        gone = self._is_gone(entry)
        if gone:
            live.report = None
        if entry.status is not None or live.awaited:
            return
        now = self._clock.monotonic()
        sight = Sight(
            alive=self._is_alive(entry),
            silent=now - live.heard,
            ended=self._ended(entry) if gone or now - live.heard > self._patience(entry) else None,
            now=self._clock.wall_time(),
        )
        limits = self.settings.limits
        if entry.driver is not None and entry.driver.pid is None:
            limits = type(limits)(
                heartbeat_timeout=min(limits.heartbeat_timeout, UNKNOWN_PATIENCE),
                max_restarts=limits.max_restarts,
                restart_window=limits.restart_window,
            )
        match decide(entry, sight, limits):
            case Keep():
                return
            case Start(kill=kill):
                if kill:
                    self._kill(entry)
                self._start_again(lead, entry, live)
            case Close(status=status):
                self._close(lead, entry, status)
            case Fail(reason=reason):
                self._close(lead, changed(entry, failure=reason), "FAILED")
            case unexpected:
                assert_never(unexpected)

    def _patience(self, entry: JobEntry) -> int:
        unknown = entry.driver is None or entry.driver.pid is None
        return UNKNOWN_PATIENCE if unknown else self.settings.limits.heartbeat_timeout

    def _is_alive(self, entry: JobEntry) -> bool | None:
        record = entry.driver
        if record is None or record.pid is None or record.created is None or record.host != HOST:
            return None
        return self._processes.is_alive(record.pid, record.created)

    def _is_gone(self, entry: JobEntry) -> bool:
        return self._is_alive(entry) is False

    def _kill(self, entry: JobEntry) -> None:
        record = entry.driver
        if record is not None and record.pid is not None and record.created is not None and record.host == HOST:
            _log.warning("Job %s: its driver (process %d) has been silent for too long and is killed.", entry.job_id, record.pid)
            self._processes.kill(record.pid, record.created)

    def _ended(self, entry: JobEntry) -> str | None:
        """Return the final state that a driver wrote down; None if there is none. Raises OSError."""
        if entry.driver is None:
            return None
        content = self._storage.read(wire.archive_file(entry.job_id, entry.driver.id))
        if content is not None:
            try:
                return decode_archive(content).status
            except ValueError:
                _log.warning("The archive of job %s is damaged.", entry.job_id)
        content = self._storage.read(wire.end_file(entry.job_id, entry.driver.id))
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=wire.End).status
        except (msgspec.MsgspecError, UnicodeDecodeError):
            _log.warning("The note of the end of job %s is damaged.", entry.job_id)
            return None

    def _close(self, lead: _Lead, entry: JobEntry, status: str) -> None:
        """Store that a job has ended."""
        driver = entry.driver
        archive = None if driver is None else wire.archive_file(entry.job_id, driver.id)
        if archive is not None and self._storage.read(archive) is None:
            archive = None
        self._store(lead, changed(entry, status=status, ended=self._clock.wall_time(), archive=archive))
        _log.info("Job %s ended: %s.", entry.job_id, status)

    def _start_again(self, lead: _Lead, entry: JobEntry, live: _Live) -> None:
        before = entry.driver
        if before is not None:
            entry = changed(entry, restarts=(*entry.restarts, self._clock.wall_time())[-100:])
            _log.warning("Job %s: its driver is gone; another one is started (%d.).", entry.job_id, len(entry.restarts))
        live.report = None
        self._start(lead, entry)

    def _start(self, lead: _Lead, entry: JobEntry) -> None:
        """Start a driver; the entry is stored before, and again with the process's id."""
        token, driver_id = self._ids() + self._ids(), self._ids()
        record = DriverRecord(id=driver_id, token_hash=hash_of(token), started=self._clock.wall_time(), host=HOST)
        entry = changed(entry, driver=record)
        self._store(lead, entry)
        live = lead.live[entry.job_id]
        live.heard = self._clock.monotonic()
        pid, created = self._processes.start(self._command(entry, driver_id, token))
        self._store(lead, changed(entry, driver=msgspec.structs.replace(record, pid=pid, created=created)))

    def _command(self, entry: JobEntry, driver_id: str, token: str) -> Command:
        """Return the command of a driver. No secret is part of the command line, which every user of the machine can read."""
        folder = self.settings.local / "jobs" / entry.job_id
        script = self._fetch(entry.program, folder)
        properties = (*self.settings.properties, *entry.properties)
        environment = {key: value for key, value in self._environment.items() if key not in _NOT_FOR_DRIVERS}
        before = shlex.split(environment.get(PROPERTIES_VARIABLE, ""))
        environment |= {
            PROPERTIES_VARIABLE: shlex.join([*before, *properties]),
            "PYTHONUNBUFFERED": "1",
            wire.ADDRESS_VARIABLE: self._reports,
            wire.TOKEN_VARIABLE: token,
            wire.STORAGE_VARIABLE: str(self.settings.root),
            wire.DRIVER_VARIABLE: driver_id,
            wire.JOB_VARIABLE: entry.job_id,
            wire.LOG_VARIABLE: str(self.log_file(entry.job_id)),
            wire.STDOUT_VARIABLE: str(self.stdout_file(entry.job_id)),
            wire.PROGRAM_VARIABLE: msgspec.json.encode(
                wire.Program(file=str(script), entry_class=entry.entry_class, arguments=entry.arguments)
            ).decode(),
        }
        options = self.settings.submit_options
        arguments = driver_command() if options is None else submit_command((*options, str(_bootstrap(folder))))
        return Command(
            arguments=arguments,
            environment=environment,
            folder=self.settings.working_folder,
            log=self.log_file(entry.job_id),
            stdout=self.stdout_file(entry.job_id),
        )

    def _fetch(self, program: ProgramEntry, folder: Path) -> Path:
        """Copy a program into a folder of this machine; raises StartError if it is not what was uploaded."""
        try:
            content = self._storage.read(_program_file(program))
            if content is None or hashlib.sha256(content).hexdigest() != program.sha256:
                what = "gone" if content is None else "not the one that was uploaded"
                raise StartError(f"the program {program.name} in {self.settings.root} is {what}")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            target = folder / program.name
            draft = folder / f".{self._ids()}.new"
            draft.write_bytes(content)
            draft.chmod(0o600)
            draft.replace(target)
        except OSError as error:
            raise EngineError(f"the program {program.name} could not be copied to {folder}: {error}") from error
        return target

    # -- jobs that have ended --------------------------------------------------------------------------------------------------

    def _expire(self, lead: _Lead) -> None:
        """Forget jobs that ended long ago, or are too many."""
        now = self._clock.wall_time()
        server = self.settings.server
        with self._lock:
            ended = sorted((job for job in lead.jobs.values() if job.ended is not None), key=lambda job: -(job.ended or 0))
            for number, entry in enumerate(ended):
                if number >= server.capacity or now - (entry.ended or 0) > server.expiration:
                    try:
                        self._forget(lead, entry)
                    except (RegistryError, NotLeaderError) as error:
                        _log.warning("Job %s could not be forgotten: %s", entry.job_id, error)
                        return
                    self._remove_traces(lead, entry)

    def _remove_traces(self, lead: _Lead, entry: JobEntry) -> None:
        if entry.driver is not None:
            for file in (wire.archive_file(entry.job_id, entry.driver.id), wire.end_file(entry.job_id, entry.driver.id)):
                self._remove_file(file)
        self._remove_unused(lead, entry.program)


def _program_file(program: ProgramEntry) -> str:
    return f"programs/{program.id[:32]}"


def _bootstrap(folder: Path) -> Path:
    """Write the script that spark-submit runs."""
    file = folder / "flinkish_driver.py"
    file.write_text("from flinkish.cli.driver import main\n\nmain()\n")
    return file
