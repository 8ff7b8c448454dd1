"""Answers about the cluster: /config, /overview, /applications, /jobmanager, /taskmanagers."""

from __future__ import annotations

import msgspec

from flinkish.server.answers.jobs import JobSummary
from flinkish.server.answers.wire import Kebab, Wire


class Features(Kebab, frozen=True, kw_only=True):
    """The optional functions of the web page that are enabled."""

    web_submit: bool
    web_cancel: bool
    web_rescale: bool = False
    web_history: bool = False


class DashboardConfiguration(Kebab, frozen=True, kw_only=True):
    """Flink's DashboardConfiguration; `refresh_interval` and `timezone_offset` are milliseconds."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: Features


class ClusterOverview(Kebab, frozen=True, kw_only=True):
    """Flink's ClusterOverviewWithVersion."""

    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str


class Application(Kebab, frozen=True, kw_only=True):
    """An application: here each job is one of its own. Times are milliseconds; `end_time` may be -1."""

    id: str
    name: str
    start_time: int
    end_time: int
    duration: int
    status: str


class ApplicationSummary(Application, frozen=True, kw_only=True):
    """Flink's ApplicationDetails."""

    #: Number of jobs in each state.
    jobs: dict[str, int]


class Applications(Wire, frozen=True, kw_only=True):
    """Flink's MultipleApplicationsDetails."""

    applications: tuple[ApplicationSummary, ...]


class ApplicationDetails(Application, frozen=True, kw_only=True):
    """Flink's ApplicationDetailsInfo."""

    #: When each status was entered, in milliseconds since the epoch; 0 = never.
    timestamps: dict[str, int]
    jobs: tuple[JobSummary, ...]


class ApplicationException(Wire, frozen=True, kw_only=True):
    """Flink's ApplicationExceptionInfo."""

    exceptionName: str
    stacktrace: str
    timestamp: int
    jobId: str


class ApplicationExceptionHistory(Wire, frozen=True, kw_only=True):
    """The failures of an application, newest first."""

    entries: tuple[ApplicationException, ...]


class ApplicationExceptions(Wire, frozen=True, kw_only=True):
    """Flink's ApplicationExceptionsInfoWithHistory."""

    exceptionHistory: ApplicationExceptionHistory


class ConfigurationEntry(Wire, frozen=True, kw_only=True):
    """One setting; the value of a secret is hidden."""

    key: str
    value: str


class Jvm(Wire, frozen=True, kw_only=True):
    """Flink's JVMInfo, filled with this process's Python."""

    version: str
    arch: str
    options: tuple[str, ...]


class EnvironmentInfo(Wire, frozen=True, kw_only=True):
    """Flink's EnvironmentInfo; `classpath` has Python's module search path."""

    jvm: Jvm
    classpath: tuple[str, ...]


class LogInfo(Wire, frozen=True, kw_only=True):
    """A log file; `mtime` is milliseconds since the epoch."""

    name: str
    size: int
    mtime: int


class LogList(Wire, frozen=True, kw_only=True):
    """Flink's LogListInfo."""

    logs: tuple[LogInfo, ...]


class LogUrl(Wire, frozen=True, kw_only=True):
    """Flink's LogUrlResponse."""

    url: str


class ThreadInfo(Wire, frozen=True, kw_only=True):
    """The stack of one thread."""

    threadName: str
    stringifiedThreadInfo: str


class ThreadDump(Wire, frozen=True, kw_only=True):
    """Flink's ThreadDumpInfo."""

    threadInfos: tuple[ThreadInfo, ...]


class DataSets(Wire, frozen=True, kw_only=True):
    """Flink's ClusterDataSetListResponseBody: flinkish keeps cached streams with their programs, not in the cluster."""

    dataSets: tuple[msgspec.Raw, ...] = ()
