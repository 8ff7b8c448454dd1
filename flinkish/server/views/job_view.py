"""A view of one job at one time, from which all answers about the job are computed.

A task manager in these answers is the processes of one job on one host. A subtask's endpoint is the host and the process that
runs it, where Flink has a port; no port is open there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.checkpoint.statistics import CheckpointFigures
from flinkish.common.clock import Clock
from flinkish.common.job_status import JobStatus
from flinkish.graph.job_graph import JobVertex, VertexId
from flinkish.graph.stream_graph import StreamNode
from flinkish.jobmaster.exception_history import FailureRecord
from flinkish.jobmaster.execution_graph import Execution, ExecutionState, JobDetails
from flinkish.jobmaster.job_master import JobMaster
from flinkish.jobmaster.job_metrics import JobFigures, SlotProcess, SubtaskFigures
from flinkish.jobmaster.setup import JobSetup

#: Flink's text for a subtask that no process runs yet.
UNASSIGNED = "(unassigned)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManager:
    """The processes of a job on one host; by slot."""

    id: str
    host: str
    processes: Mapping[int, SlotProcess]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job; `now` is milliseconds since the epoch."""

    setup: JobSetup
    details: JobDetails
    figures: JobFigures
    checkpoints: CheckpointFigures
    #: The figures of each subtask, by vertex and subtask index.
    subtasks: Mapping[tuple[VertexId, int], SubtaskFigures]
    #: The last failures, newest first, and the number of all failures.
    failures: tuple[FailureRecord, ...]
    failure_count: int
    now: int
    #: Milliseconds since the slots last reported; None = they have not reported yet.
    silent: int | None

    @property
    def job_id(self) -> str:
        return self.setup.job_id

    @property
    def name(self) -> str:
        return self.setup.job_name

    @property
    def status(self) -> JobStatus:
        return self.details.status

    @property
    def started_at(self) -> int:
        return self.details.timestamps[JobStatus.CREATED]

    @property
    def ended_at(self) -> int:
        """When the job reached its final state, in milliseconds since the epoch; -1 while it runs."""
        return self.details.timestamps[self.status] if self.status.is_terminal_state() else -1

    @property
    def duration(self) -> int:
        return lasted(self.started_at, self.ended_at, self.now)

    @property
    def vertices(self) -> Mapping[VertexId, JobVertex]:
        return self.setup.plan.job_graph.vertices

    @property
    def task_managers(self) -> tuple[TaskManager, ...]:
        """The hosts on which the job runs; empty until its slots have reported."""
        hosts: dict[str, dict[int, SlotProcess]] = {}
        for slot, process in sorted(self.figures.processes.items()):
            hosts.setdefault(process.host, {})[slot] = process
        # The id has Flink's form: host, number, and digits that make it unique.
        return tuple(
            TaskManager(id=f"{host}:{processes[min(processes)].pid}-{self.job_id[:6]}", host=host, processes=processes)
            for host, processes in hosts.items()
        )

    def endpoint(self, slot: int) -> str:
        return endpoint_of(self.figures.processes.get(slot))

    def task_manager_id(self, slot: int) -> str:
        return next((manager.id for manager in self.task_managers if slot in manager.processes), UNASSIGNED)

    def id_of_host(self, host: str) -> str:
        """Return the id of the task manager on a host, even if it is gone."""
        return next((manager.id for manager in self.task_managers if manager.host == host), f"{host}:0-{self.job_id[:6]}")

    def vertex(self, vertex_id: str) -> JobVertex | None:
        """Return the vertex with this REST id; None if there is none."""
        return next((vertex for vertex in self.vertices.values() if rest_id(vertex) == vertex_id), None)

    def executions(self, vertex: VertexId) -> tuple[Execution, ...]:
        """Return the current executions of a vertex, by subtask."""
        return tuple(execution for execution in self.details.executions if execution.vertex == vertex)

    def subtask(self, vertex: VertexId, index: int) -> SubtaskFigures:
        return self.subtasks.get((vertex, index), SubtaskFigures())


def endpoint_of(process: SlotProcess | None) -> str:
    return UNASSIGNED if process is None else f"{process.host}:{process.pid}"


def look_at(master: JobMaster, *, clock: Clock) -> JobView:
    """Return a view of a job; may be called from any thread, even after the job has ended."""
    failures, count = master.exceptions.records()
    figures = master.figures()
    return JobView(
        setup=master.setup,
        details=master.details(),
        figures=figures,
        checkpoints=master.checkpoints.figures(),
        subtasks={(each.vertex, index): subtask for each in figures.vertices for index, subtask in each.subtasks.items()},
        failures=failures,
        failure_count=count,
        now=clock.wall_time(),
        silent=None if figures.reported is None else max(0, round(clock.monotonic() - figures.reported)),
    )


def rest_id(vertex: JobVertex) -> str:
    """Return the id of a vertex in REST, which is the id of its first operator.

    It is the same in each run of a program whose operators have uids, as in Flink.
    """
    return operator_id(vertex.head)


def operator_id(node: StreamNode) -> str:
    """Return the id of an operator in REST: 32 hexadecimal digits, a hash of its uid."""
    return hashlib.blake2b(node.uid.encode(), digest_size=16).hexdigest()


def group_id(name: str) -> str:
    """Return the id of a slot sharing group in REST."""
    return hashlib.blake2b(f"slot sharing group {name}".encode(), digest_size=16).hexdigest()


def started_at(execution: Execution) -> int:
    """Return when a subtask was deployed, in milliseconds since the epoch; -1 = it has not been deployed."""
    return execution.timestamps.get(ExecutionState.DEPLOYING, -1)


def ended_at(execution: Execution) -> int:
    """Return when a subtask reached its final state, in milliseconds since the epoch; -1 = it has not reached one."""
    return execution.timestamps[execution.state] if execution.state.is_terminal else -1


def lasted(begin: int, end: int, now: int) -> int:
    """Return the time from `begin` to `end`, or until now if it has not ended; -1 if it has not begun. In milliseconds."""
    return -1 if begin < 0 else (now if end < 0 else end) - begin
