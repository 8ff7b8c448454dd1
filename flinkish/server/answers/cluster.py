"""Answers about the cluster: /config, /overview, /applications, /jobmanager, /taskmanagers, /jars.

Memory sizes are bytes except in ResourceProfile, where they are megabytes, as in Flink.
"""

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
    slots_available: int = 0
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
    options: tuple[str, ...] = ()


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


class ResourceProfile(Wire, frozen=True, kw_only=True):
    """Flink's ResourceProfileInfo: one core for each slot; slots have no memory of their own."""

    cpuCores: float
    taskHeapMemory: int = 0
    taskOffHeapMemory: int = 0
    managedMemory: int = 0
    networkMemory: int = 0
    extendedResources: dict[str, float] = msgspec.field(default_factory=dict)


class Hardware(Wire, frozen=True, kw_only=True):
    """Flink's HardwareDescription."""

    cpuCores: int
    physicalMemory: int
    freeMemory: int = 0
    managedMemory: int = 0


class MemoryConfiguration(Wire, frozen=True, kw_only=True):
    """Flink's TaskExecutorMemoryConfiguration: no part of a process's memory is reserved, so all sizes are 0."""

    frameworkHeap: int = 0
    taskHeap: int = 0
    frameworkOffHeap: int = 0
    taskOffHeap: int = 0
    networkMemory: int = 0
    managedMemory: int = 0
    jvmMetaspace: int = 0
    jvmOverhead: int = 0
    totalFlinkMemory: int = 0
    totalProcessMemory: int = 0


class TaskManagerInfo(Wire, frozen=True, kw_only=True):
    """Flink's TaskManagerInfo: the processes of a job on one host."""

    id: str
    path: str
    #: Always the default: the processes have no such port.
    dataPort: int = 0
    jmxPort: int = -1
    #: When it last reported, in milliseconds since the epoch; the name is Flink's, although this is a time.
    timeSinceLastHeartbeat: int
    slotsNumber: int
    freeSlots: int = 0
    assignedTasks: int
    totalResource: ResourceProfile
    freeResource: ResourceProfile
    hardware: Hardware
    memoryConfiguration: MemoryConfiguration = MemoryConfiguration()


class TaskManagers(Wire, frozen=True, kw_only=True):
    """Flink's TaskManagersInfo."""

    taskmanagers: tuple[TaskManagerInfo, ...]


class AllocatedSlot(Wire, frozen=True, kw_only=True):
    """Flink's SlotInfo."""

    jobId: str
    resource: ResourceProfile
    assignedTasks: int


class GarbageCollector(Wire, frozen=True, kw_only=True):
    """The number of garbage collections, and their duration in milliseconds."""

    name: str
    count: int
    time: int


class TaskManagerMetrics(Wire, frozen=True, kw_only=True):
    """Flink's TaskManagerMetricsInfo: only the resident memory of Python processes is known; it is shown as heap."""

    heapUsed: int = 0
    heapCommitted: int = 0
    heapMax: int = 0
    nonHeapUsed: int = 0
    nonHeapCommitted: int = 0
    nonHeapMax: int = 0
    directCount: int = 0
    directUsed: int = 0
    directMax: int = 0
    mappedCount: int = 0
    mappedUsed: int = 0
    mappedMax: int = 0
    nettyShuffleMemorySegmentsAvailable: int = 0
    nettyShuffleMemorySegmentsUsed: int = 0
    nettyShuffleMemorySegmentsTotal: int = 0
    nettyShuffleMemoryAvailable: int = 0
    nettyShuffleMemoryUsed: int = 0
    nettyShuffleMemoryTotal: int = 0
    garbageCollectors: tuple[GarbageCollector, ...] = ()


class TaskManagerDetails(TaskManagerInfo, frozen=True, kw_only=True):
    """Flink's TaskManagerDetailsInfo."""

    allocatedSlots: tuple[AllocatedSlot, ...]
    metrics: TaskManagerMetrics


class JarEntry(Wire, frozen=True, kw_only=True):
    """Flink's JarEntryInfo."""

    name: str
    description: str | None = None


class JarFile(Wire, frozen=True, kw_only=True):
    """Flink's JarFileInfo; `uploaded` is milliseconds since the epoch."""

    id: str
    name: str
    uploaded: int
    entry: tuple[JarEntry, ...]


class JarList(Wire, frozen=True, kw_only=True):
    """Flink's JarListInfo."""

    address: str
    files: tuple[JarFile, ...]


class JarUploaded(Wire, frozen=True, kw_only=True):
    """Flink's JarUploadResponseBody."""

    filename: str
    status: str


class JarRunRequest(Wire, frozen=True, kw_only=True):
    """Flink's JarRunRequestBody."""

    entryClass: str | None = None
    #: Arguments as one string, quoted as for a shell; an older form of programArgsList.
    programArgs: str | None = None
    programArgsList: tuple[str, ...] | None = None
    parallelism: int | None = None
    jobId: str | None = None
    allowNonRestoredState: bool | None = None
    savepointPath: str | None = None
    flinkConfiguration: dict[str, str] | None = None


class JarRun(Wire, frozen=True, kw_only=True):
    """Flink's JarRunResponseBody."""

    jobid: str
