"""The states of a job and of its subtasks: Flink's state machines as two frozen tables, and the graph that holds them.

The states only inform people; decisions are made elsewhere. A transition of a job that is not in its table is a bug and raises;
one of a subtask has no effect, because its attempt may have ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from flinkish.common.clock import Clock
from flinkish.common.job_status import JobStatus
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import VertexId

_log = logging.getLogger("flinkish.jobmaster.execution_graph")


class ExecutionState(Enum):
    """State of one attempt to run a subtask; names and order are those of Flink's ExecutionState."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return not EXECUTION_TRANSITIONS[self]


_E = ExecutionState

EXECUTION_TRANSITIONS: Mapping[ExecutionState, frozenset[ExecutionState]] = MappingProxyType(
    {
        _E.CREATED: frozenset({_E.SCHEDULED, _E.CANCELED, _E.FAILED}),
        _E.SCHEDULED: frozenset({_E.DEPLOYING, _E.CANCELED, _E.FAILED}),
        _E.DEPLOYING: frozenset({_E.INITIALIZING, _E.CANCELING, _E.FAILED}),
        _E.INITIALIZING: frozenset({_E.RUNNING, _E.CANCELING, _E.FAILED}),
        _E.RUNNING: frozenset({_E.FINISHED, _E.CANCELING, _E.FAILED}),
        _E.CANCELING: frozenset({_E.CANCELED, _E.FAILED}),
        _E.FINISHED: frozenset(),
        _E.CANCELED: frozenset(),
        _E.FAILED: frozenset(),
    }
)

_J = JobStatus

JOB_TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = MappingProxyType(
    {
        _J.CREATED: frozenset({_J.RUNNING, _J.CANCELLING, _J.FAILING, _J.SUSPENDED}),
        _J.RUNNING: frozenset({_J.FAILING, _J.CANCELLING, _J.FINISHED, _J.SUSPENDED}),
        _J.FAILING: frozenset({_J.RESTARTING, _J.FAILED, _J.CANCELLING, _J.SUSPENDED}),
        _J.RESTARTING: frozenset({_J.RUNNING, _J.CANCELLING, _J.FAILING, _J.SUSPENDED}),
        _J.CANCELLING: frozenset({_J.CANCELED, _J.FAILED, _J.SUSPENDED}),
        _J.RECONCILING: frozenset({_J.RUNNING, _J.FAILING, _J.CANCELLING, _J.SUSPENDED}),
        _J.FINISHED: frozenset(),
        _J.CANCELED: frozenset(),
        _J.FAILED: frozenset(),
        _J.SUSPENDED: frozenset(),
    }
)


class IllegalTransitionError(AssertionError):
    """A change of a job's status that the state machine does not allow; a bug in flinkish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt to run one subtask. `timestamps` holds when each state was entered, in milliseconds since the epoch."""

    vertex: VertexId
    vertex_name: str
    subtask: int
    parallelism: int
    attempt_number: int
    slot: int
    state: ExecutionState
    timestamps: Mapping[ExecutionState, int]

    @property
    def label(self) -> str:
        """Return the name as Flink writes it: task name, subtask counted from 1, attempt."""
        return f"{self.vertex_name} ({self.subtask + 1}/{self.parallelism})#{self.attempt_number}"

    @property
    def flink_label(self) -> str:
        """Return the name as Flink's exception history writes it."""
        return f"{self.vertex_name} ({self.subtask + 1}/{self.parallelism}) - execution #{self.attempt_number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """The states of a job at one moment, for REST, tests and people."""

    status: JobStatus
    #: When each status was entered last, in milliseconds since the epoch.
    timestamps: Mapping[JobStatus, int]
    #: Current execution of each subtask, by vertex in topological order and subtask.
    executions: tuple[Execution, ...]


class ExecutionGraph:
    """The states of one job; the JobMaster's thread changes them, any thread may read them."""

    def __init__(self, plan: ExecutionPlan, job_id: str, clock: Clock) -> None:
        self._plan = plan
        self._job_id = job_id
        self._clock = clock
        self._lock = threading.Lock()
        self._status = JobStatus.CREATED
        self._timestamps = {JobStatus.CREATED: clock.wall_time()}
        self._executions: dict[tuple[VertexId, int], Execution] = {}
        self._create_executions(attempt_number=0)

    @property
    def status(self) -> JobStatus:
        with self._lock:
            return self._status

    def details(self) -> JobDetails:
        with self._lock:
            return JobDetails(status=self._status, timestamps=dict(self._timestamps), executions=tuple(self._executions.values()))

    def execution(self, vertex: VertexId | None, subtask: int | None) -> Execution | None:
        """Return the current execution of a subtask; None if there is no such subtask."""
        with self._lock:
            return None if vertex is None or subtask is None else self._executions.get((vertex, subtask))

    def transition_job(self, to: JobStatus) -> None:
        """Change the status of the job; does nothing if it is already `to`."""
        with self._lock:
            before = self._status
            if before is to:
                return
            if to not in JOB_TRANSITIONS[before]:
                raise IllegalTransitionError(f"job {self._job_id}: {before.name} -> {to.name} is not a transition")
            self._status = to
            self._timestamps[to] = self._clock.wall_time()
        _log.info("Job %s (%s) switched from state %s to %s.", self._plan.job_graph.job_name, self._job_id, before.name, to.name)

    def new_attempt(self, attempt_number: int) -> None:
        """Replace all executions by new ones in state CREATED."""
        with self._lock:
            self._create_executions(attempt_number)

    def transition_all(self, to: ExecutionState) -> None:
        """Change the state of all executions that may enter `to`; the others do not change."""
        with self._lock:
            current = list(self._executions)
        for vertex, subtask in current:
            self.move(vertex, subtask, to)

    def move(self, vertex: VertexId, subtask: int, to: ExecutionState) -> None:
        """Change the state of an execution if it may enter `to`, and do nothing otherwise."""
        with self._lock:
            execution = self._executions.get((vertex, subtask))
            if execution is None or to not in EXECUTION_TRANSITIONS[execution.state]:
                return
            self._executions[vertex, subtask] = replace(
                execution, state=to, timestamps={**execution.timestamps, to: self._clock.wall_time()}
            )
        _log.info("%s switched from %s to %s.", execution.label, execution.state.name, to.name)

    def end_executions(self) -> None:
        """Move all executions that have not ended through CANCELING to CANCELED, because the attempt ends."""
        self.transition_all(ExecutionState.CANCELING)
        self.transition_all(ExecutionState.CANCELED)

    def _create_executions(self, attempt_number: int) -> None:
        now = self._clock.wall_time()
        self._executions = {
            (vertex.id, subtask): Execution(
                vertex=vertex.id,
                vertex_name=vertex.name,
                subtask=subtask,
                parallelism=vertex.parallelism,
                attempt_number=attempt_number,
                slot=self._plan.slot_of(vertex.id, subtask),
                state=ExecutionState.CREATED,
                timestamps={ExecutionState.CREATED: now},
            )
            for vertex in self._plan.job_graph.vertices.values()
            for subtask in range(vertex.parallelism)
        }
