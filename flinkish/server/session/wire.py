"""The protocol between a driver and its Dispatcher: names of variables and files, and the form of a report."""

from __future__ import annotations

from typing import Literal

import msgspec

from flinkish.server.answers.jobs import JobSummary

#: Variables in a driver's environment: the address and the token for reports, the session's folder, the driver and its job.
ADDRESS_VARIABLE = "FLINKISH_DISPATCHER"
TOKEN_VARIABLE = "FLINKISH_DISPATCHER_TOKEN"
#: The secret with which Dispatchers of the session prove to the driver that they are such; see `server/proof.py`.
PROOF_VARIABLE = "FLINKISH_DISPATCHER_PROOF"
STORAGE_VARIABLE = "FLINKISH_DISPATCHER_STORAGE"
DRIVER_VARIABLE = "FLINKISH_DRIVER_ID"
JOB_VARIABLE = "FLINKISH_JOB_ID"
#: The folder of the job's checkpoints if its configuration names none; not set if the tasks may not be able to access it.
CHECKPOINTS_VARIABLE = "FLINKISH_CHECKPOINTS"
#: The program to run, as JSON of `Program`: arguments may be secret, so they are not on the command line.
PROGRAM_VARIABLE = "FLINKISH_PROGRAM"
#: Options of `flinkish submit` for a driver, quoted as for a shell; they go before those of its command line.
SUBMIT_VARIABLE = "FLINKISH_SUBMIT_OPTIONS"
#: The file that a driver's log is written to, and the one with its standard output.
LOG_VARIABLE = "FLINKISH_LOG"
STDOUT_VARIABLE = "FLINKISH_STDOUT"

#: Where a process writes the plan of the program, instead of running it as a job.
PLAN_VARIABLE = "FLINKISH_PLAN"

#: The path of reports at a Dispatcher.
REPORT_PATH = "/report"
_ARCHIVES = "archive"
LEADERS = "leader"


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
    #: The address of the driver's own server, and the token that it requires.
    host: str
    port: int
    token: str
    #: Whether the driver's server proves that it knows this token; one of an earlier version does not.
    proves: bool = False
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
    #: The place of its process; see `places`.
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


def program_file(program_id: str) -> str:
    """Return the file of an uploaded program."""
    return f"programs/{program_id[:32]}"


def leader_file(generation: int) -> str:
    """Return the file of the leader with this generation."""
    return f"{LEADERS}/{generation:012}.json"


#: Final states of jobs, by Flink's names.
FINAL = ("FINISHED", "CANCELED", "FAILED")


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The note that a driver writes when its job has ended for good."""

    status: Literal["FINISHED", "CANCELED", "FAILED"]
