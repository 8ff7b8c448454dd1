"""Answers about task managers. Memory sizes are bytes except in ResourceProfile, where they are megabytes, as in Flink."""

from __future__ import annotations

import msgspec

from flinkish.server.answers.wire import Wire


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
    freeSlots: int
    assignedTasks: int
    totalResource: ResourceProfile
    freeResource: ResourceProfile
    hardware: Hardware
    memoryConfiguration: MemoryConfiguration


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
