"""Answers about the vertices of a job and their subtasks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_high, median_low

from flinkish.graph.job_graph import JobVertex
from flinkish.jobmaster.execution_graph import Execution, ExecutionState
from flinkish.runtime.protocol import MIN_WATERMARK
from flinkish.server.answers import vertices as answers
from flinkish.server.views import jobs
from flinkish.server.views.job_view import JobView, ended_at, lasted, rest_id, started_at

#: Above these shares of its time, the back pressure of a subtask is low and high, as in Flink.
_LOW, _HIGH = 0.1, 0.5
#: The figures of subtasks that Flink combines to statistics.
_AGGREGATED = (
    "write_records",
    "accumulated_backpressured_time",
    "accumulated_idle_time",
    "write_bytes",
    "read_bytes",
    "read_records",
    "accumulated_busy_time",
)
#: The states whose durations Flink shows.
_LASTING = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


def info(view: JobView, vertex: JobVertex) -> answers.VertexInfo:
    """Return /jobs/:jobid/vertices/:vertexid."""
    subtasks = tuple(subtask(view, vertex, execution) for execution in view.executions(vertex.id))
    return answers.VertexInfo(
        id=rest_id(vertex),
        name=vertex.name,
        parallelism=vertex.parallelism,
        maxParallelism=vertex.max_parallelism,
        now=view.now,
        subtasks=subtasks,
        aggregated=aggregated(subtasks),
    )


def subtask(view: JobView, vertex: JobVertex, execution: Execution) -> answers.SubtaskInfo:
    """Return the current attempt of a subtask."""
    return answers.SubtaskInfo(
        subtask=execution.subtask,
        attempt=execution.attempt_number,
        endpoint=view.endpoint(execution.slot),
        taskmanager_id=view.task_manager_id(execution.slot),
        status_duration=state_durations(execution, view.now),
        start_time_=started_at(execution),
        **jobs.combined(view, vertex, [execution]) | {"status": execution.state.name},
    )


def aggregated(subtasks: Sequence[answers.SubtaskInfo]) -> answers.Aggregated:
    return answers.Aggregated(
        metrics={
            name.replace("_", "-"): _statistics([int(getattr(each.metrics, name)) for each in subtasks]) for name in _AGGREGATED
        },
        status_duration={
            state.name: _statistics([lasted for each in subtasks if (lasted := each.status_duration[state.name]) >= 0])
            for state in _LASTING
        },
    )


def times(view: JobView, vertex: JobVertex) -> answers.SubtaskTimes:
    """Return /jobs/:jobid/vertices/:vertexid/subtasktimes."""
    return answers.SubtaskTimes(
        id=rest_id(vertex),
        name=vertex.name,
        now=view.now,
        subtasks=tuple(
            answers.SubtaskTime(
                subtask=execution.subtask,
                endpoint=view.endpoint(execution.slot),
                duration=lasted(started_at(execution), ended_at(execution), view.now),
                timestamps=dict.fromkeys(jobs.EXECUTION_STATES, 0)
                | {state.name: at for state, at in execution.timestamps.items()},
            )
            for execution in view.executions(vertex.id)
        ),
    )


def task_managers(view: JobView, vertex: JobVertex) -> answers.VertexTaskManagers:
    """Return /jobs/:jobid/vertices/:vertexid/taskmanagers: the subtasks of the vertex by host."""
    by_manager: dict[str, list[Execution]] = {}
    for execution in view.executions(vertex.id):
        by_manager.setdefault(view.task_manager_id(execution.slot), []).append(execution)
    return answers.VertexTaskManagers(
        id=rest_id(vertex),
        name=vertex.name,
        now=view.now,
        taskmanagers=tuple(
            answers.VertexTaskManager(
                endpoint=view.endpoint(executions[0].slot),
                status_counts=jobs.count(execution.state.name for execution in executions),
                taskmanager_id=manager,
                aggregated=aggregated([subtask(view, vertex, execution) for execution in executions]),
                **jobs.combined(view, vertex, executions),
            )
            for manager, executions in by_manager.items()
        ),
    )


def watermarks(view: JobView, vertex: JobVertex) -> list[answers.Metric]:
    """Return /jobs/:jobid/vertices/:vertexid/watermarks: the input watermark of each subtask; an empty list for a source."""
    if not view.setup.plan.job_graph.inputs(vertex.id):
        return []
    received = [view.subtask(vertex.id, index).watermark for index in range(vertex.parallelism)]
    return [
        answers.Metric(f"{index}.currentInputWatermark", str(MIN_WATERMARK if watermark is None else watermark))
        for index, watermark in enumerate(received)
    ]


def back_pressure(view: JobView, vertex: JobVertex) -> answers.BackPressure:
    """Return /jobs/:jobid/vertices/:vertexid/backpressure."""
    rates = [view.subtask(vertex.id, index).rates for index in range(vertex.parallelism)]
    held = [round(each.back_pressured / 1000, 3) for each in rates]
    subtasks = tuple(
        answers.SubtaskBackPressure(
            subtask=index,
            ratio=held[index],
            idleRatio=round(each.idle / 1000, 3),
            busyRatio=round(each.busy / 1000, 3),
            backpressureLevel=level(held[index]),
            backpressure_level=level(held[index]),
        )
        for index, each in enumerate(rates)
    )
    worst = level(max(held))
    return answers.BackPressure(
        status="ok", end_timestamp=view.now, subtasks=subtasks, backpressureLevel=worst, backpressure_level=worst
    )


def level(ratio: float) -> str:
    """Return Flink's word for a share of time under back pressure."""
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def accumulators(view: JobView, vertex: JobVertex) -> answers.VertexAccumulators:
    """Return /jobs/:jobid/vertices/:vertexid/accumulators: the user metrics, combined over all subtasks."""
    names = {f"{'.'.join(view.setup.plan.job_graph.metric_scope(node))}." for node in vertex.operators}
    own = {name: value for name, value in view.figures.user.items() if name.startswith(tuple(names))}
    return answers.VertexAccumulators(id=rest_id(vertex), user_accumulators=jobs.user_metrics(own))


def subtask_accumulators(view: JobView, vertex: JobVertex) -> answers.AllSubtaskAccumulators:
    """Return /jobs/:jobid/vertices/:vertexid/subtasks/accumulators."""
    return answers.AllSubtaskAccumulators(
        id=rest_id(vertex),
        parallelism=vertex.parallelism,
        subtasks=tuple(
            answers.SubtaskAccumulators(
                subtask=execution.subtask,
                attempt=execution.attempt_number,
                endpoint=view.endpoint(execution.slot),
                user_accumulators=jobs.user_metrics(view.subtask(vertex.id, execution.subtask).user),
            )
            for execution in view.executions(vertex.id)
        ),
    )


def attempt_accumulators(view: JobView, vertex: JobVertex, execution: Execution) -> answers.AttemptAccumulators:
    """Return the user metrics of one attempt of a subtask."""
    return answers.AttemptAccumulators(
        subtask=execution.subtask,
        attempt=execution.attempt_number,
        id=f"{view.job_id}_{rest_id(vertex)}_{execution.subtask}_{execution.attempt_number}",
        user_accumulators=jobs.user_metrics(view.subtask(vertex.id, execution.subtask).user),
    )


def state_durations(execution: Execution, now: int) -> dict[str, int]:
    """Return the duration of each state up to RUNNING in milliseconds; -1 for a state that was not entered, as in Flink."""
    order = list(ExecutionState)
    durations = {}
    for state in _LASTING:
        begin = execution.timestamps.get(state)
        later = [at for other, at in execution.timestamps.items() if order.index(other) > order.index(state)]
        durations[state.name] = -1 if begin is None else min(later, default=now) - begin
    return durations


def _statistics(values: Sequence[int]) -> dict[str, int]:
    ordered = sorted(values) or [0]
    return {
        "p25": ordered[int(0.25 * len(ordered))],
        "min": ordered[0],
        "avg": sum(ordered) // len(ordered),
        "median": (median_low(ordered) + median_high(ordered)) // 2,
        "max": ordered[-1],
        "sum": sum(ordered),
        "p95": ordered[int(0.95 * len(ordered))],
        "p75": ordered[int(0.75 * len(ordered))],
    }
