"""The Dispatcher: manages the jobs and the programs of a session.

`step` is called again and again by one thread (`service.py`): it takes the lead when nobody has it, renews the lease, and looks
after the drivers. Everything that clients and drivers ask is answered under one lock, from memory. What is decided is stored in
the registry before it is done.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import assert_never

import msgspec

from flinkish.checkpoint.job_table import brief
from flinkish.common import options, redaction
from flinkish.common.clock import Clock
from flinkish.common.errors import ConfigurationError, FlinkishError, RegistryError
from flinkish.common.ids import IdSource
from flinkish.server.answers.jobs import JobSummary
from flinkish.server.session import driver_protocol
from flinkish.server.session.archive import Archive
from flinkish.server.session.dispatcher_settings import SessionSettings, make_private
from flinkish.server.session.driver_protocol import Report
from flinkish.server.session.entries import DriverRecord, JobEntry, ProgramEntry, Submission, hash_of
from flinkish.server.session.launch import Launch, StartError, last_words
from flinkish.server.session.leadership import Lead, Leadership, Live, NotLeaderError
from flinkish.server.session.processes import Processes
from flinkish.server.session.storage import SessionStorage
from flinkish.server.session.supervision import (
    Close,
    Fail,
    Keep,
    Sight,
    Start,
    decide,
    expired,
    must_not_run,
    patience,
    restarts_after_loss,
)

_log = logging.getLogger("flinkish.server.session")

_NOT_EXECUTED = "the script must call execute() when it is run as a script; test it with: flinkish run SCRIPT."
#: Maximum number of archives that are kept in memory.
_ARCHIVES = 16


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
        self.address = address
        self._clock = clock
        self._ids = ids
        self._lock = threading.RLock()
        self._processes = processes
        self._storage = SessionStorage(settings.root)
        self.leadership = Leadership(settings, self._storage, processes, clock, self._lock, address=address, reports=reports)
        self._launch = Launch(settings, self._storage, processes, clock, ids, reports, dict(environment))
        self._final_archive = functools.lru_cache(_ARCHIVES)(self._read_archive)
        #: The ended jobs whose logs are on this machine, as far as there are any.
        self._with_logs: set[str] = set()
        self._logs_lock = threading.Lock()

    # -- leading -------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Create the folders. Raises ConfigurationError if one cannot be used."""
        make_private(self.settings.local)
        make_private(self.settings.logs)
        try:
            self._storage.make()
        except OSError as error:
            raise ConfigurationError(
                f"{options.HA_STORAGE_PATH.key}: {self.settings.root} cannot be used: {brief(error)}",
                hint="check the path, its permissions and its space.",
            ) from error

    def step(self) -> None:
        """Do one step. Raises OSError or RegistryError if the storage fails; the next step tries again."""
        lead = self.leadership.look()
        if lead is not None:
            self._supervise(lead)

    # -- programs ------------------------------------------------------------------------------------------------------------

    def upload(self, name: str, content: bytes) -> ProgramEntry:
        """Store a program; raises RegistryError if it cannot be stored, NotLeaderError if this Dispatcher does not lead."""
        with self._lock:
            lead = self.leadership.leading()
            entry = ProgramEntry(
                id=f"{self._ids()}_{name}",
                name=name,
                size=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
                uploaded=self._clock.wall_time(),
            )
            try:
                self._storage.write(driver_protocol.program_file(entry.id), content)
            except OSError as error:
                raise RegistryError(f"the program {name} could not be stored: {error}") from error
            self.leadership.store(lead, entry)
            return entry

    def programs(self) -> Sequence[ProgramEntry]:
        """Return the uploaded programs, newest first."""
        with self._lock:
            return sorted(self.leadership.leading().programs.values(), key=lambda entry: -entry.uploaded)

    def program(self, program_id: str) -> ProgramEntry | None:
        with self._lock:
            return self.leadership.leading().programs.get(program_id)

    def delete_program(self, program_id: str) -> bool:
        """Remove a program; return whether it was known. Jobs that were started from it continue, and can be started again."""
        with self._lock:
            lead = self.leadership.leading()
            entry = lead.programs.get(program_id)
            if entry is None:
                return False
            self.leadership.forget(lead, entry)
            self._remove_unused(lead, entry)
            return True

    def _remove_unused(self, lead: Lead, program: ProgramEntry) -> None:
        if program.id not in lead.programs and all(job.program.id != program.id for job in lead.jobs.values()):
            self._remove_file(driver_protocol.program_file(program.id))

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
            lead = self.leadership.leading()
            job_id = submission.job_id or self._ids()
            if job_id in lead.jobs:
                raise StartError(f"there is a job {job_id} already", hint="choose another jobId, or leave it out.")
            entry = self._entry(submission, job_id)
            live = lead.live[job_id] = Live(heard=self._clock.monotonic(), awaited=True)
            try:
                self._start(lead, entry)
            except BaseException:
                live.awaited = False
                self._forget_start(lead, job_id)
                raise
        try:
            timeout = self.settings.start_timeout
            self._launch.wait_while(lambda: self.leadership.lead is lead and self._starts(lead, job_id, live), timeout)
        finally:
            live.awaited = False
        return job_id

    def _forget_start(self, lead: Lead, job_id: str) -> None:
        """Forget a job whose start has failed: its client gets the error, so it must not be started later."""
        entry = lead.jobs.get(job_id)
        if entry is None:
            lead.live.pop(job_id, None)
            return
        try:
            self.leadership.forget(lead, entry)
        except FlinkishError as error:
            lead.jobs[job_id] = msgspec.structs.replace(entry, cancelling=True)
            _log.warning("Job %s, which could not be started, could not be forgotten either: %s", job_id, error)

    def plan(self, submission: Submission) -> bytes:
        """Return the plan of a program as JSON, without running it as a job; raises StartError, EngineError, NotLeaderError."""
        with self._lock:
            self.leadership.leading()
        entry = self._entry(submission, submission.job_id or self._ids())
        return self._launch.plan(entry, self.settings.start_timeout)

    def _entry(self, submission: Submission, job_id: str) -> JobEntry:
        given = msgspec.structs.asdict(submission)
        return JobEntry(**given | {"job_id": job_id, "submitted": self._clock.wall_time()})

    def _starts(self, lead: Lead, job_id: str, live: Live) -> bool:
        """Return whether a job has not yet started, or ended; raises StartError if its script has ended without one."""
        with self._lock:
            entry = lead.jobs.get(job_id)
            if entry is None or entry.status is not None or (live.report is not None and live.report.summary is not None):
                return False
            if self._launch.is_alive(entry.driver) is not False:
                return True
            if self._launch.ended(entry) is None:
                self.leadership.forget(lead, entry)
                self._remove_unused(lead, entry.program)
                self._launch.remove_files(job_id)
                words = last_words(*self.log_files(job_id))
                raise StartError(
                    f"{entry.program.name} ended without starting a job. The end of its log:\n{words}",
                    # An error in the log says itself what to do.
                    hint=None if "Error" in words else _NOT_EXECUTED,
                )
            return False

    def job(self, job_id: str) -> JobEntry | None:
        """Return a job; None if it is unknown."""
        with self._lock:
            return self.leadership.leading().jobs.get(job_id)

    def job_with_prefix(self, digits: str) -> JobEntry | None:
        """Return the running job whose id begins with these digits; None if there is none, or more than one."""
        with self._lock:
            jobs = self.leadership.leading().jobs.values()
            found = [job for job in jobs if job.status is None and job.job_id.startswith(digits)]
            return found[0] if len(found) == 1 else None

    def jobs(self) -> Sequence[JobEntry]:
        """Return all jobs, oldest first."""
        with self._lock:
            return sorted(self.leadership.leading().jobs.values(), key=lambda entry: entry.submitted)

    def summaries(self) -> tuple[JobSummary, ...]:
        """Return the lines of all jobs in /jobs/overview."""
        return tuple(map(self.summary, self.jobs()))

    def summary(self, entry: JobEntry) -> JobSummary:
        """Return a job's line in /jobs/overview."""
        now = self._clock.wall_time()
        if entry.status is None and entry.summary is not None and self.driver(entry) is None:
            shown = entry.shown(now)
            # Its subtasks ended with the driver that reported them.
            tasks = dict.fromkeys(shown.tasks, 0) | {"total": shown.tasks["total"], "canceled": shown.tasks["total"]}
            return msgspec.structs.replace(shown, state="RESTARTING", tasks=tasks)
        return entry.shown(now)

    def slots(self, entry: JobEntry) -> int:
        report = self._report(entry)
        return 0 if entry.status is not None or report is None else report.slots

    def driver(self, entry: JobEntry) -> Report | None:
        """Return the last report of the driver that can answer about a job; None if the job has not started in any driver."""
        report = self._report(entry)
        return None if report is None or report.summary is None else report

    def _report(self, entry: JobEntry) -> Report | None:
        with self._lock:
            live = self.leadership.leading().live.get(entry.job_id)
        return None if live is None else live.report

    def drivers(self) -> list[Report]:
        """Return the last reports of the drivers of all jobs that have not ended, of those that can answer."""
        return [report for job in self.jobs() if job.status is None and (report := self.driver(job)) is not None]

    def is_lost(self, entry: JobEntry) -> bool:
        """Return whether the process of a job's driver is gone; if it is, drop its last report."""
        with self._lock:
            live = self.leadership.leading().live.get(entry.job_id)
            if live is None or live.report is None:
                return True
            if self._launch.is_alive(entry.driver) is False:
                live.report = None
            return live.report is None

    def cancel(self, entry: JobEntry) -> None:
        """Cancel a job without a driver, so that it is not started again; raises RegistryError."""
        with self._lock:
            lead = self.leadership.leading()
            current = lead.jobs.get(entry.job_id)
            if current is not None and current.status is None:
                self.leadership.store(lead, msgspec.structs.replace(current, cancelling=True))

    def note_cancel(self, entry: JobEntry) -> None:
        """Store that a job is being cancelled by its driver: if the driver is killed meanwhile, it must not be started again.

        An error is only logged, because the job is cancelled all the same.
        """
        try:
            self.cancel(entry)
        except (RegistryError, NotLeaderError) as error:
            _log.warning("That job %s is being cancelled could not be stored: %s", entry.job_id, error)

    def archive(self, entry: JobEntry) -> Archive | None:
        """Return the archive of a job that has ended; None if there is none. Raises RegistryError if it cannot be read."""
        if entry.archive is None:
            return None
        # While its driver is running, it may add the results of operations.
        final = self.driver(entry) is None and self._launch.is_alive(entry.driver) is not True
        found = (self._final_archive if final else self._read_archive)(entry.job_id, entry.archive)
        if found is None:
            # Not for ever: a folder that is not mounted has no files, either.
            self._final_archive.cache_clear()
        return found

    def _read_archive(self, job_id: str, inside: str) -> Archive | None:
        try:
            content = self._storage.read(inside)
            return None if content is None else msgspec.json.decode(content, type=Archive)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise RegistryError(f"the archive of job {job_id} cannot be read: {error}") from error

    def log_files(self, job_id: str) -> tuple[Path, Path]:
        """Return the files with the logs and with the standard output of a job's drivers."""
        return self._launch.log_files(job_id)

    def logs_of_drivers(self) -> Sequence[Path]:
        """Return the files with logs and output of all drivers, the newest job first; the files need not exist."""
        try:
            jobs = sorted(self.jobs(), key=lambda job: -job.submitted)
        except NotLeaderError:
            return []
        for job in jobs:
            self._fetch_logs(job)
            # Those who ask are shown the files: secrets that a former Dispatcher has passed on are hidden in them, too.
            redaction.remember(dict(each.split("=", 1) for each in job.properties if "=" in each))
        files = [file for job in jobs for file in self.log_files(job.job_id)]
        return [part for file in files for part in (file, self._launch.old_log(file))]

    def _fetch_logs(self, job: JobEntry) -> None:
        """Copy the logs of a job that has ended on another machine to this one, once."""
        if job.status is None:
            return
        with self._logs_lock:
            if job.job_id in self._with_logs:
                return
            try:
                self._launch.fetch_logs(job)
                self._with_logs.add(job.job_id)
            except OSError as error:
                _log.warning("The logs of job %s could not be read: %s", job.job_id, error)

    # -- drivers -------------------------------------------------------------------------------------------------------------

    def report(self, report: Report, token: str) -> bool:
        """Process a driver's report; return False if the driver must end, because another one has replaced it.

        Raises NotLeaderError, RegistryError.
        """
        with self._lock:
            lead = self.leadership.leading()
            entry = lead.jobs.get(report.job_id)
            record = None if entry is None else entry.driver
            if entry is None or record is None or record.id != report.driver_id or record.token_hash != hash_of(token):
                return False
            if record.condemned or (entry.status is not None and report.status is None):
                return False
            live = lead.live[entry.job_id]
            if entry.cancelling and must_not_run(live.report, report):
                return False
            live.report, live.heard = report, self._clock.monotonic()
            if (record.pid, record.created) != (report.pid, report.created):
                # With spark-submit, the process that was started is not the driver itself.
                entry = msgspec.structs.replace(
                    entry, driver=msgspec.structs.replace(record, pid=report.pid, created=report.created)
                )
                self.leadership.store(lead, entry)
            first = entry.summary is None
            if report.summary is not None:
                entry = msgspec.structs.replace(entry, summary=report.summary)
                if first and report.status is None:
                    # Store the job's name, so that it is known even if the Dispatcher is killed.
                    self.leadership.store(lead, entry)
                lead.jobs[entry.job_id] = entry
            if report.status is not None and entry.status is None:
                self._close(lead, entry, report.status)
            return True

    def _supervise(self, lead: Lead) -> None:
        try:
            with self._lock:
                if self.leadership.leading() is lead:
                    self.leadership.settle(lead)
        except NotLeaderError:
            return
        for job_id in list(lead.jobs):
            with self._lock:
                entry = lead.jobs.get(job_id)
                live = lead.live.get(job_id)
                if entry is None or live is None:
                    continue
                try:
                    # The lease ends before a driver that could not report because the storage was slow counts as lost.
                    if self.leadership.leading() is not lead:
                        return
                    self._launch.limit_logs(job_id)
                    self._look_after(lead, entry, live)
                    live.error = None
                except NotLeaderError:
                    return
                except (FlinkishError, OSError) as error:
                    if str(error) != live.error:
                        live.error = str(error)
                        _log.warning("Job %s: %s", job_id, error)
        self._expire(lead)

    def _look_after(self, lead: Lead, entry: JobEntry, live: Live) -> None:
        alive = self._launch.is_alive(entry.driver)
        if alive is False:
            live.report = None
        if entry.status is not None or live.awaited:
            return
        limits = self.settings.limits
        silent = self._clock.monotonic() - live.heard
        sight = Sight(
            alive=alive,
            silent=silent,
            ended=self._launch.ended(entry) if alive is False or silent > patience(entry, limits) else None,
            now=self._clock.wall_time(),
        )
        match decide(entry, sight, limits):
            case Keep():
                return
            case Start(kill=True):
                self._kill(lead, entry, live)
            case Start():
                self._start_again(lead, entry, live)
            case Close(status=status):
                self._close(lead, entry, status)
            case Fail(reason=reason):
                self._close(lead, msgspec.structs.replace(entry, failure=reason), "FAILED")
                self._launch.keep_logs(entry)
            case unexpected:
                assert_never(unexpected)

    def _close(self, lead: Lead, entry: JobEntry, status: str) -> None:
        driver = entry.driver
        archive = None if driver is None else driver_protocol.archive_file(entry.job_id, driver.id)
        if archive is not None and self._storage.read(archive) is None:
            archive = None
        self.leadership.store(lead, msgspec.structs.replace(entry, status=status, ended=self._clock.wall_time(), archive=archive))
        _log.info("Job %s ended: %s.", entry.job_id, status)

    def _kill(self, lead: Lead, entry: JobEntry, live: Live) -> None:
        """Kill a silent driver. A Dispatcher that does not lead any more cannot store that, so it kills nothing."""
        driver = entry.driver
        assert driver is not None, "a driver that is running is known"
        if not driver.condemned:
            self.leadership.store(lead, msgspec.structs.replace(entry, driver=msgspec.structs.replace(driver, condemned=True)))
            _log.warning("Job %s: its driver (process %d) has been silent for too long and is killed.", entry.job_id, driver.pid)
        live.report = None
        self._launch.kill(driver)

    def _start_again(self, lead: Lead, entry: JobEntry, live: Live) -> None:
        before = entry.driver
        if before is not None:
            now = self._clock.wall_time()
            earlier = restarts_after_loss(entry.known_restarts, now)
            entry = msgspec.structs.replace(entry, restarts=(*entry.restarts, now)[-100:], earlier=earlier)
            _log.warning("Job %s: its driver is gone; another one is started (restart %d).", entry.job_id, len(entry.restarts))
        live.report = None
        self._start(lead, entry)

    def _start(self, lead: Lead, entry: JobEntry) -> None:
        """Start a driver; the entry is stored before the start, and again with the id of the process.

        A driver whose process could not be stored is killed: there is another start, or none if the caller reports the error.
        """
        token, driver_id = self._ids() + self._ids(), self._ids()
        now, location = self._clock.wall_time(), self._processes.location
        record = DriverRecord(id=driver_id, token_hash=hash_of(token), started=now, host=location)
        entry = msgspec.structs.replace(entry, driver=record)
        self.leadership.store(lead, entry)
        live = lead.live[entry.job_id]
        live.heard = self._clock.monotonic()
        started = self._launch.start(entry, record, token)
        try:
            self.leadership.store(lead, msgspec.structs.replace(entry, driver=started))
        except NotLeaderError:
            # The new leader has read the entry, so it waits for the reports of this driver.
            _log.warning("Job %s: the next leader takes its driver over.", entry.job_id)
        except RegistryError:
            self._launch.kill(started)
            raise

    # -- jobs that have ended --------------------------------------------------------------------------------------------------

    def _expire(self, lead: Lead) -> None:
        """Remove ended jobs that are too old or too many."""
        server = self.settings.server
        now = self._clock.wall_time()
        with self._lock:
            for entry in expired(lead.jobs.values(), now, capacity=server.capacity, expiration=server.expiration):
                if self._launch.is_alive(entry.driver):
                    # Its script goes on, and may import further modules of the program.
                    continue
                try:
                    self.leadership.forget(lead, entry)
                except (RegistryError, NotLeaderError) as error:
                    _log.warning("Job %s, which has ended, could not be removed from the registry: %s", entry.job_id, error)
                    return
                for file in () if entry.driver is None else driver_protocol.files_of(entry.job_id, entry.driver.id):
                    self._remove_file(file)
                self._with_logs.discard(entry.job_id)
                self._launch.remove_files(entry.job_id)
                self._remove_unused(lead, entry.program)
