"""The entries of the registry: uploaded programs, and the jobs that were started from them."""

from __future__ import annotations

import hashlib

import msgspec

from flinkish.server.answers.jobs import JobSummary, RestartsInfo
from flinkish.server.views.jobs import EXECUTION_STATES


class ProgramEntry(msgspec.Struct, frozen=True, kw_only=True, tag="program"):
    """An uploaded program: a script, or a zip file of Python modules."""

    #: `<32 hexadecimal digits>_<name>`, as Flink names uploaded jars.
    id: str
    name: str
    size: int
    sha256: str
    #: Milliseconds since the epoch.
    uploaded: int


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One process that runs a job."""

    id: str
    #: SHA-256 of the token that its reports contain.
    token_hash: str
    #: When it was started, in milliseconds since the epoch.
    started: int
    #: The location of its process; see `processes.Location`.
    host: str
    #: The process id and the start time of the process; None = the Dispatcher was killed before it stored them.
    pid: int | None = None
    created: float | None = None
    #: Whether it was silent for too long: it is to be killed, and its reports are refused.
    condemned: bool = False


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run, with its arguments and settings."""

    program: ProgramEntry
    #: The module of a zip file that is run as a script; None = the script, or the zip file's own __main__.
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    #: Settings as `key=value`.
    properties: tuple[str, ...] = ()
    #: None = any new id.
    job_id: str | None = None


class JobEntry(Submission, frozen=True, kw_only=True, tag="job"):
    """A job from its submission until it is forgotten. Times are milliseconds since the epoch."""

    job_id: str
    submitted: int
    driver: DriverRecord | None = None
    #: When its driver was started again, in milliseconds since the epoch.
    restarts: tuple[int, ...] = ()
    #: Its restarts until its current driver was started; None = that is the first one.
    earlier: RestartsInfo | None = None
    #: Whether the job was cancelled and must not be started again.
    cancelling: bool = False
    #: The last known summary; None = no driver has reported yet.
    summary: JobSummary | None = None
    #: The final state: FINISHED, CANCELED or FAILED; None = the job has not ended.
    status: str | None = None
    ended: int | None = None
    #: The file with the archive of its answers, below the session's folder; None = there is no archive.
    archive: str | None = None
    #: Why the job failed, if its drivers were lost rather than its program failed.
    failure: str | None = None

    @property
    def known_restarts(self) -> RestartsInfo | None:
        """The restarts that a driver reported, or those before it if it has not reported them yet; None = there are none."""
        reported = msgspec.UNSET if self.summary is None else self.summary.restarts
        known = [each for each in (reported, self.earlier) if isinstance(each, RestartsInfo)]
        last = max(known, key=lambda each: each.last_failure_time, default=None)
        # A job that has ended does not restart any more.
        return last if last is None or self.status is None else msgspec.structs.replace(last, restarting_since=None)

    def shown(self, now: int) -> JobSummary:
        """Return the job's line in /jobs/overview."""
        known = self.summary or JobSummary(
            jid=self.job_id,
            name=self.program.name,
            jobType="STREAMING",
            start_time=self.submitted,
            end_time=-1,
            duration=0,
            state="INITIALIZING",
            last_modification=self.submitted,
            tasks={"total": 0, **{state.lower(): 0 for state in EXECUTION_STATES}},
        )
        known = msgspec.structs.replace(known, restarts=self.known_restarts or msgspec.UNSET)
        if self.status is None:
            return msgspec.structs.replace(known, end_time=-1, duration=max(0, now - known.start_time))
        end = known.end_time if known.end_time >= 0 else self.ended or now
        return msgspec.structs.replace(known, state=self.status, end_time=end, duration=max(0, end - known.start_time))


Entry = ProgramEntry | JobEntry


def key_of(entry: Entry) -> str:
    return entry.job_id if isinstance(entry, JobEntry) else entry.id[:32]


def hash_of(secret: str) -> str:
    """Return the SHA-256 of a token, which is stored instead of it."""
    return hashlib.sha256(secret.encode()).hexdigest()
