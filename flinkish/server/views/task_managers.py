"""Answers about task managers: the processes of a job on one host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from flinkish.server.answers import cluster as answers
from flinkish.server.views.job_view import JobView, TaskManager


def info(view: JobView, manager: TaskManager) -> answers.TaskManagerInfo:
    """Return its line in /taskmanagers."""
    slots = len(manager.processes)
    machine = next(iter(manager.processes.values()))
    return answers.TaskManagerInfo(
        id=manager.id,
        path=f"{view.name} on {manager.host}",
        timeSinceLastHeartbeat=0 if view.silent is None else view.now - view.silent,
        slotsNumber=slots,
        freeSlots=0,
        assignedTasks=sum(_tasks(view)[slot] for slot in manager.processes),
        totalResource=answers.ResourceProfile(cpuCores=float(slots)),
        freeResource=answers.ResourceProfile(cpuCores=0.0),
        hardware=answers.Hardware(cpuCores=machine.cpus, physicalMemory=machine.memory),
        memoryConfiguration=answers.MemoryConfiguration(),
    )


def details(view: JobView, manager: TaskManager, figures: Mapping[str, Any]) -> answers.TaskManagerDetails:
    """Return /taskmanagers/:taskmanagerid; `figures` are those of its processes, see `process_figures`."""
    tasks = _tasks(view)
    used = int(figures.get("Status.JVM.Memory.Heap.Used", 0))
    return answers.TaskManagerDetails(
        **msgspec.structs.asdict(info(view, manager)),
        allocatedSlots=tuple(
            answers.AllocatedSlot(jobId=view.job_id, resource=answers.ResourceProfile(cpuCores=1.0), assignedTasks=tasks[slot])
            for slot in manager.processes
        ),
        metrics=answers.TaskManagerMetrics(
            heapUsed=used, heapCommitted=used, heapMax=int(figures.get("Status.JVM.Memory.Heap.Max", 0))
        ),
    )


def _tasks(view: JobView) -> Counter[int]:
    """Return how many subtasks run in each slot."""
    return Counter(execution.slot for execution in view.details.executions if not execution.state.is_terminal)
