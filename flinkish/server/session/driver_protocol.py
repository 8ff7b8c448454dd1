"""The protocol between a driver and its Dispatcher: names of variables and files, and the form of a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from flinkish.server.answers.jobs import JobSummary, RestartsInfo

#: The job of a driver, as JSON of `Assignment`. The name says that it contains secrets.
ASSIGNMENT_VARIABLE = "FLINKISH_ASSIGNMENT_TOKEN"
#: The program to run, as JSON of `Program`: arguments may be secret, so they are not on the command line.
PROGRAM_VARIABLE = "FLINKISH_PROGRAM"
#: Options of `flinkish submit` for a driver, quoted as for a shell; they go before the options of its command line.
SUBMIT_VARIABLE = "FLINKISH_SUBMIT_OPTIONS"
#: The file that a driver's log is written to, and the one with its standard output.
LOG_VARIABLE = "FLINKISH_LOG"
STDOUT_VARIABLE = "FLINKISH_STDOUT"

#: Where a process writes the plan of the program, instead of running it as a job, and the id of the job in the plan.
PLAN_VARIABLE = "FLINKISH_PLAN"
JOB_VARIABLE = "FLINKISH_JOB_ID"

#: The path of reports at a Dispatcher.
REPORT_PATH = "/report"
_ARCHIVES = "archive"
LEADERS = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The job that a Dispatcher has assigned to a driver, and how to report."""

    job_id: str
    driver_id: str
    #: Where to report: host and port.
    reports: str
    #: The session's folder.
    storage: str
    token: str = field(repr=False)
    #: The secret that a Dispatcher has to prove to know; see `server/proof.py`.
    secret: str = field(repr=False)
    #: The files with the driver's log and its standard output.
    files: tuple[str, str]
    #: The folder of the job's checkpoints if its configuration names none; None = the tasks may not be able to access it.
    checkpoints: str | None = None
    #: The restarts of the job before this driver; None = this is the first one.
    earlier: RestartsInfo | None = None


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The program of a driver: a script, or a zip file of Python modules."""

    file: str
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's report, sent when it starts, when its job ends, and every heartbeat.interval in between."""

    job_id: str
    driver_id: str
    pid: int
    #: When the system started the process.
    created: float
    #: The address of the driver's own server, and the token that it requires and proves to know.
    host: str
    port: int
    token: str
    #: None = the job has not started yet.
    summary: JobSummary | None = None
    slots: int = 0
    #: The final state; set after the archive was written.
    status: str | None = None


class LeaderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record that the leading Dispatcher regularly writes to the file of its generation."""

    generation: int
    #: The addresses for clients and for the drivers' reports.
    address: str
    reports: str
    #: The location of its process; see `processes.Location`.
    host: str
    pid: int
    created: float
    #: Number of writes: if it does not change any more, the Dispatcher is gone.
    beat: int = 0
    #: Whether the Dispatcher has resigned, so that another one may take over immediately.
    ended: bool = False


def archive_file(job_id: str, driver_id: str) -> str:
    """Return the file with the answers about a job that has ended."""
    return f"{_ARCHIVES}/{job_id}-{driver_id}.json"


def end_file(job_id: str, driver_id: str) -> str:
    """Return the file that says that a job has ended for good, written before its checkpoints are deleted."""
    return f"{_ARCHIVES}/{job_id}-{driver_id}.ended"


def log_files(job_id: str, driver_id: str) -> tuple[str, str]:
    """Return the files with the end of the log, and of the standard output, of the driver of a job that has ended."""
    return f"{_ARCHIVES}/{job_id}-{driver_id}.log", f"{_ARCHIVES}/{job_id}-{driver_id}.out"


def files_of(job_id: str, driver_id: str) -> tuple[str, ...]:
    return archive_file(job_id, driver_id), end_file(job_id, driver_id), *log_files(job_id, driver_id)


def program_file(program_id: str) -> str:
    return f"programs/{program_id[:32]}"


def leader_file(generation: int) -> str:
    return f"{LEADERS}/{generation:012}.json"


#: Final states of jobs, by Flink's names.
FINAL = ("FINISHED", "CANCELED", "FAILED")


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The note that a driver writes when its job has ended for good; the archive of the job has its field, too."""

    status: Literal["FINISHED", "CANCELED", "FAILED"]
