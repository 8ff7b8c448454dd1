"""Answers about a whole job, and about its task managers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.job_status import JobStatus
from flinkish.graph.columns import working_on_columns
from flinkish.graph.job_graph import JobGraph, JobVertex
from flinkish.graph.runtime_mode import is_batch
from flinkish.graph.stream_graph import NodeId, StreamNode
from flinkish.jobmaster import user_messages
from flinkish.jobmaster.exception_history import FailureRecord
from flinkish.jobmaster.execution_graph import Execution, ExecutionState
from flinkish.jobmaster.job_metrics import SubtaskFigures
from flinkish.jobmaster.restart_strategies import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartConfig
from flinkish.metrics.plain import text_of
from flinkish.server.answers import cluster
from flinkish.server.answers import jobs as answers
from flinkish.server.answers.jobs import ExecutionResult, JobExecutionResultInfo, QueueStatus
from flinkish.server.java_throwable import failure_cause
from flinkish.server.views.job_view import (
    UNASSIGNED,
    JobView,
    TaskManager,
    ended_at,
    endpoint_of,
    group_id,
    lasted,
    rest_id,
    started_at,
)

#: The states of Flink's ExecutionState, which its answers count; flinkish never enters the last one.
EXECUTION_STATES = (*(state.name for state in ExecutionState), "RECONCILING")
#: Flink's JobStatus, with a state for jobs whose JobMaster starts.
_JOB_STATES = ("INITIALIZING", *(status.name for status in JobStatus))
_OUTCOMES = {"FINISHED": "SUCCEEDED", "CANCELED": "CANCELED", "FAILED": "FAILED"}


def job_type(configuration: Configuration) -> str:
    return "BATCH" if is_batch(configuration) else "STREAMING"


def summary(view: JobView) -> answers.JobSummary:
    """Return the job's line in /jobs/overview."""
    counts = Counter(execution.state.name.lower() for execution in view.details.executions)
    tasks = {"total": len(view.details.executions)}
    tasks |= {state.lower(): counts[state.lower()] for state in EXECUTION_STATES}
    changes = [at for execution in view.details.executions for at in execution.timestamps.values()]
    return answers.JobSummary(
        jid=view.job_id,
        name=view.name,
        jobType=job_type(view.setup.configuration),
        start_time=view.started_at,
        end_time=view.ended_at,
        duration=view.duration,
        state=view.status.name,
        last_modification=max([*view.details.timestamps.values(), *changes]),
        tasks=tasks,
        restarts=restarts(view),
    )


def restarts(view: JobView) -> answers.RestartsInfo | msgspec.UnsetType:
    """Return the restarts and the last failure of a job; UNSET, which is left out of answers, if it has not failed yet."""
    if not view.failures:
        return msgspec.UNSET
    last = view.failures[0]
    return answers.RestartsInfo(
        count=view.figures.restarts,
        last_failure=last.line,
        last_failure_time=last.timestamp,
        restarting_since=None if view.status.is_terminal_state() else last.restarting_since(view.now),
    )


def info(view: JobView) -> answers.JobInfo:
    """Return /jobs/:jobid."""
    return info_of(
        summary(view),
        now=view.now,
        entered={status.name: at for status, at in view.details.timestamps.items()},
        plan=plan(view).plan,
        vertices=tuple(_vertex_summary(view, vertex) for vertex in view.vertices.values()),
        late_records=user_messages.late(view.setup, view.figures) or msgspec.UNSET,
    )


def info_of(
    job: answers.JobSummary,
    *,
    now: int,
    entered: Mapping[str, int],
    plan: answers.Plan,
    vertices: tuple[answers.VertexSummary, ...] = (),
    late_records: str | msgspec.UnsetType = msgspec.UNSET,
) -> answers.JobInfo:
    """Return /jobs/:jobid of a job with this line in /jobs/overview; `entered` says when it entered its states."""
    return answers.JobInfo(
        **{name: getattr(job, name) for name in answers.JobHead.__struct_fields__},
        application_id=job.jid,
        job_type=job.jobType,
        now=now,
        timestamps={state: entered.get(state, 0) for state in _JOB_STATES} | {"INITIALIZING": job.start_time},
        vertices=vertices,
        status_counts=count(vertex.status for vertex in vertices),
        plan=plan,
        late_records=late_records,
    )


def plan(view: JobView) -> answers.JobPlan:
    """Return /jobs/:jobid/plan: the vertices, sinks first, with the operators of each as a tree."""
    return plan_of(view.setup.plan.job_graph, view.setup.configuration, view.job_id)


def plan_of(graph: JobGraph, configuration: Configuration, job_id: str) -> answers.JobPlan:
    """Return the plan of a job, which need not run; the configuration has the decided mode."""
    reasons = working_on_columns(graph, batch=is_batch(configuration))
    nodes = tuple(_node(graph, vertex, reasons) for vertex in reversed(tuple(graph.vertices.values())))
    return answers.JobPlan(plan=answers.Plan(jid=job_id, name=graph.job_name, type=job_type(configuration), nodes=nodes))


def status(view: JobView) -> answers.JobStatusInfo:
    """Return /jobs/:jobid/status."""
    return answers.JobStatusInfo(status=view.status.name)


def config(view: JobView) -> answers.JobConfigInfo:
    """Return /jobs/:jobid/config."""
    configuration = view.setup.configuration
    parameters = configuration.get(options.GLOBAL_JOB_PARAMETERS) or {}
    return answers.JobConfigInfo(
        jid=view.job_id,
        name=view.name,
        execution_config=answers.ExecutionConfigInfo(
            restart_strategy=_restart_text(view.setup.restart),
            job_parallelism=view.setup.plan.slots,
            object_reuse_mode=bool(configuration.get(options.OBJECT_REUSE)),
            user_config=dict(Configuration.from_dict(parameters).shown()),
        ),
    )


def configuration(view: JobView) -> list[cluster.ConfigurationEntry]:
    """Return /jobs/:jobid/jobmanager/config: all settings, with secrets hidden."""
    return [cluster.ConfigurationEntry(key=key, value=value) for key, value in view.setup.configuration.shown()]


def exceptions(view: JobView, limit: int) -> answers.JobExceptions:
    """Return /jobs/:jobid/exceptions with at most `limit` failures."""
    kept = view.failures[:limit]
    return answers.JobExceptions(
        exceptionHistory=answers.ExceptionHistoryInfo(
            entries=tuple(_exception(view, failure) for failure in kept), truncated=len(kept) < view.failure_count
        )
    )


def accumulators(view: JobView) -> answers.JobAccumulators:
    """Return /jobs/:jobid/accumulators: the user metrics, combined over all subtasks."""
    return answers.JobAccumulators(user_task_accumulators=user_metrics(view.figures.user))


def execution_result(view: JobView) -> JobExecutionResultInfo:
    """Return /jobs/:jobid/execution-result."""
    if view.status is JobStatus.CANCELED:
        return result_of(summary(view), ("JobCancelledError", f"Job {view.name!r} ({view.job_id}) was cancelled."))
    last = view.failures[0] if view.failures and view.status is JobStatus.FAILED else None
    return result_of(summary(view), None if last is None else (last.error, last.text))


def result_of(job: answers.JobSummary, failure: tuple[str, str] | None) -> JobExecutionResultInfo:
    """Return /jobs/:jobid/execution-result of a job with this line in /jobs/overview, and its failure as class and text."""
    if job.end_time < 0:
        return JobExecutionResultInfo(status=QueueStatus(id="IN_PROGRESS"))
    return JobExecutionResultInfo(
        status=QueueStatus(id="COMPLETED"),
        job_execution_result=ExecutionResult(
            id=job.jid,
            name=job.name,
            application_status=_OUTCOMES.get(job.state, "UNKNOWN"),
            net_runtime=job.duration,
            failure_cause=msgspec.UNSET if failure is None else failure_cause(*failure),
            application_id=job.jid,
            start_time=job.start_time,
            end_time=job.end_time,
        ),
    )


def count(states: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each of Flink's states, including 0."""
    counts = Counter(states)
    return {state: counts[state] for state in EXECUTION_STATES}


def aggregate_state(states: Sequence[ExecutionState]) -> str:
    """Return the state of a vertex, from the states of its subtasks, by Flink's rules."""
    found = {state.name for state in states}
    for name in ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING"):
        if name in found:
            return name
    if "FINISHED" in found:
        return "FINISHED" if len(found) == 1 else "RUNNING"
    return "CREATED"


def io_metrics(subtasks: Iterable[SubtaskFigures]) -> answers.IoMetrics:
    """Return the summed figures of subtasks. Input that sources read is counted only in records, as in Flink."""
    figures = list(subtasks)
    return answers.IoMetrics(
        read_bytes=sum(each.bytes_in for each in figures),
        write_bytes=sum(each.bytes_out for each in figures),
        read_records=sum(each.records_in for each in figures),
        write_records=sum(each.records_out for each in figures),
        accumulated_backpressured_time=int(sum(each.back_pressured_ms for each in figures)),
        accumulated_idle_time=int(sum(each.idle_ms for each in figures)),
        accumulated_busy_time=float(round(sum(each.busy_ms for each in figures))),
    )


def user_metrics(values: Mapping[str, Any]) -> tuple[answers.UserAccumulator, ...]:
    """Return user metrics with their kinds, sorted by name."""
    kinds = {int: "LongCounter", float: "DoubleCounter"}
    return tuple(
        answers.UserAccumulator(name=name, type=kinds.get(type(value), "Metric"), value=text_of(value))
        for name, value in sorted(values.items())
    )


def _vertex_summary(view: JobView, vertex: JobVertex) -> answers.VertexSummary:
    executions = view.executions(vertex.id)
    return answers.VertexSummary(
        id=rest_id(vertex),
        slotSharingGroupId=group_id(vertex.slot_sharing_group),
        name=vertex.name,
        maxParallelism=vertex.max_parallelism,
        parallelism=vertex.parallelism,
        tasks=count(execution.state.name for execution in executions),
        **combined(view, vertex, executions),
    )


def combined(view: JobView, vertex: JobVertex, executions: Sequence[Execution]) -> dict[str, Any]:
    """Return the fields of answers that combine some subtasks of a vertex: its state, times and figures.

    It starts when the first of them was deployed, and ends when the last one has ended; -1 if that has not happened.
    """
    begin = min((at for execution in executions if (at := started_at(execution)) >= 0), default=-1)
    ends = [ended_at(execution) for execution in executions]
    end = -1 if -1 in ends else max(ends)
    return {
        "status": aggregate_state([execution.state for execution in executions]),
        "start_time": begin,
        "end_time": end,
        "duration": lasted(begin, end, view.now),
        "metrics": io_metrics(view.subtask(vertex.id, execution.subtask) for execution in executions),
    }


def _node(graph: JobGraph, vertex: JobVertex, reasons: Mapping[NodeId, str | None]) -> answers.PlanNode:
    inputs = tuple(
        answers.PlanInput(
            id=rest_id(graph.vertices[edge.source_vertex]),
            num=number,
            exchange="pipelined_bounded",
            ship_strategy=edge.partitioner.partitioning.value,
        )
        for number, edge in enumerate(graph.inputs(vertex.id))
    )
    return answers.PlanNode(
        id=rest_id(vertex),
        operator="",
        parallelism=vertex.parallelism,
        operator_strategy="",
        description=_chain_text(vertex, reasons),
        optimizer_properties={},
        inputs=inputs,
    )


def _chain_text(vertex: JobVertex, reasons: Mapping[NodeId, str | None]) -> str:
    """Draw the operators of a chain as a tree, in the form that Flink's page shows.

    In a job with operators on columns, each operator says whether it is one, or why it works on records.
    """

    def shown(node: StreamNode) -> str:
        if not reasons:
            return node.name
        reason = reasons[node.id]
        return f"{node.name} (columns)" if reason is None else f"{node.name} (records: {reason})"

    names = {node.id: shown(node) for node in vertex.operators}
    lines = [names[vertex.head.id]]

    def draw(parent: Any, depth: int) -> None:
        for edge in vertex.chain_edges:
            if edge.source == parent:
                lines.append(f"{'   ' * depth}+- {names[edge.target]}")
                draw(edge.target, depth + 1)

    draw(vertex.head.id, 0)
    return "".join(f"{line}<br/>" for line in lines)


def _exception(view: JobView, failure: FailureRecord) -> answers.ExceptionInfo:
    """Return a failure. As in Flink, the failure that ended the job is the job's own and contains the failure of the task."""
    on_task = failure.task is not None
    own = answers.ExceptionInfo(
        exceptionName=failure.error,
        stacktrace=failure.text,
        timestamp=failure.timestamp,
        failureLabels={},
        taskName=failure.task,
        endpoint=endpoint_of(failure.process) if on_task else None,
        taskManagerId=(UNASSIGNED if failure.process is None else view.id_of_host(failure.process.host)) if on_task else None,
        concurrentExceptions=None if failure.why_final is not None else (),
    )
    if failure.why_final is None:
        return own
    return answers.ExceptionInfo(
        exceptionName="JobExecutionError",
        stacktrace=f"JobExecutionError: the job was not started again: {failure.why_final}.\nCaused by: {failure.text}",
        timestamp=failure.timestamp,
        failureLabels={},
        concurrentExceptions=(own,),
    )


def _restart_text(restart: RestartConfig) -> str:
    match restart:
        case NoRestart():
            return "Restart deactivated."
        case FixedDelay(attempts=attempts, delay=delay):
            return f"Restart with fixed delay ({delay} ms). #{attempts} restart attempts."
        case FailureRate(max_failures_per_interval=most, interval=interval, delay=delay):
            return f"Failure rate restart with maximum of {most} failures within interval {interval} ms, delay {delay} ms."
        case ExponentialDelay(initial_backoff=first, max_backoff=last, backoff_multiplier=factor):
            return f"Restart with exponential delay, from {first} ms to {last} ms, multiplied by {factor}."
    raise AssertionError(restart)


def task_manager(view: JobView, manager: TaskManager) -> cluster.TaskManagerInfo:
    """Return its line in /taskmanagers."""
    slots = len(manager.processes)
    machine = next(iter(manager.processes.values()))
    return cluster.TaskManagerInfo(
        id=manager.id,
        path=f"{view.name} on {manager.host}",
        timeSinceLastHeartbeat=0 if view.silent is None else view.now - view.silent,
        slotsNumber=slots,
        assignedTasks=sum(_tasks(view)[slot] for slot in manager.processes),
        totalResource=cluster.ResourceProfile(cpuCores=float(slots)),
        freeResource=cluster.ResourceProfile(cpuCores=0.0),
        hardware=cluster.Hardware(cpuCores=machine.cpus, physicalMemory=machine.memory),
    )


def task_manager_details(view: JobView, manager: TaskManager, figures: Mapping[str, Any]) -> cluster.TaskManagerDetails:
    """Return /taskmanagers/:taskmanagerid; `figures` are the figures of its processes, see `process_figures`."""
    tasks = _tasks(view)
    used = int(figures.get("Status.JVM.Memory.Heap.Used", 0))
    return cluster.TaskManagerDetails(
        **msgspec.structs.asdict(task_manager(view, manager)),
        allocatedSlots=tuple(
            cluster.AllocatedSlot(jobId=view.job_id, resource=cluster.ResourceProfile(cpuCores=1.0), assignedTasks=tasks[slot])
            for slot in manager.processes
        ),
        metrics=cluster.TaskManagerMetrics(
            heapUsed=used, heapCommitted=used, heapMax=int(figures.get("Status.JVM.Memory.Heap.Max", 0))
        ),
    )


def _tasks(view: JobView) -> Counter[int]:
    """Return how many subtasks run in each slot."""
    return Counter(execution.slot for execution in view.details.executions if not execution.state.is_terminal)
