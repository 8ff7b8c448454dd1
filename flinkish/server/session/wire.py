"""What a driver and its Dispatcher say to each other: names of variables and files, and the form of a report."""

from __future__ import annotations

from typing import Literal

import msgspec

from flinkish.server.answers.jobs import JobSummary

#: Variables of a driver's environment: where to report, the token for it, where to look for another Dispatcher, and what to run.
ADDRESS_VARIABLE = "FLINKISH_DISPATCHER"
TOKEN_VARIABLE = "FLINKISH_DISPATCHER_TOKEN"
STORAGE_VARIABLE = "FLINKISH_DISPATCHER_STORAGE"
DRIVER_VARIABLE = "FLINKISH_DRIVER_ID"
JOB_VARIABLE = "FLINKISH_JOB_ID"
#: The program to run, as JSON of `Program`: arguments may be secret, so they are not on the command line.
PROGRAM_VARIABLE = "FLINKISH_PROGRAM"
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
    """What a driver runs: a script, or a zip file of Python modules."""

    file: str
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver reports at its start, at its job's end, and every heartbeat.interval in between."""

    job_id: str
    driver_id: str
    pid: int
    #: When the system started the process.
    created: float
    #: The driver's own server, and the token that it wants.
    host: str
    port: int
    token: str
    #: None = the job has not started yet.
    summary: JobSummary | None = None
    slots: int = 0
    #: The final state, once the archive was written.
    status: str | None = None


class LeaderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the leading Dispatcher writes to a file of its generation, again and again."""

    generation: int
    #: Where clients reach it, and where drivers report.
    address: str
    reports: str
    host: str
    pid: int
    created: float
    #: Counts the writes: a record that does not change is that of a Dispatcher that is gone.
    beat: int = 0
    #: Whether it has ended properly.
    ended: bool = False


def archive_file(job_id: str, driver_id: str) -> str:
    """Return the file with the answers about a job that has ended."""
    return f"{_ARCHIVES}/{job_id}-{driver_id}.json"


def end_file(job_id: str, driver_id: str) -> str:
    """Return the file that says that a job has ended for good, written before its checkpoints are deleted."""
    return f"{_ARCHIVES}/{job_id}-{driver_id}.ended"


def program_file(program_id: str) -> str:
    """Return the file of an uploaded program."""
    return f"programs/{program_id[:32]}"


def leader_file(generation: int) -> str:
    """Return the file of the leader with this generation."""
    return f"{LEADERS}/{generation:012}.json"


#: Final states of jobs, in Flink's words.
FINAL = ("FINISHED", "CANCELED", "FAILED")


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver notes when its job has ended for good."""

    status: Literal["FINISHED", "CANCELED", "FAILED"]
