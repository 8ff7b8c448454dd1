"""Answers about the vertices of a job and their subtasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flinkish.graph.job_graph import JobVertex
from flinkish.jobmaster.execution_graph import Execution, ExecutionState
from flinkish.metrics.registry import merge
from flinkish.runtime.protocol import MIN_WATERMARK
from flinkish.server.answers import vertices as answers
from flinkish.server.answers.jobs import IoMetrics
from flinkish.server.views import jobs
from flinkish.server.views.job_view import JobView, duration, ended_at, rest_id, started_at

#: Above these shares of its time, the back pressure of a subtask is low and high, as in Flink.
_LOW, _HIGH = 0.1, 0.5


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
    begin = started_at(execution)
    return answers.SubtaskInfo(
        subtask=execution.subtask,
        status=execution.state.name,
        attempt=execution.attempt_number,
        endpoint=view.endpoint,
        first_time=begin,
        end_time=ended_at(execution),
        duration=duration(execution, view.now),
        metrics=jobs.io_metrics([view.subtask(vertex.id, execution.subtask)]),
        taskmanager_id=view.task_manager_id,
        status_duration=_state_durations(execution, view.now),
        start_time=begin,
    )


def aggregated(subtasks: Sequence[answers.SubtaskInfo]) -> answers.Aggregated:
    """Return statistics over subtasks."""
    figures: Mapping[str, Callable[[IoMetrics], float]] = {
        "write-records": lambda metrics: metrics.write_records,
        "accumulated-backpressured-time": lambda metrics: metrics.accumulated_backpressured_time,
        "accumulated-idle-time": lambda metrics: metrics.accumulated_idle_time,
        "write-bytes": lambda metrics: metrics.write_bytes,
        "read-bytes": lambda metrics: metrics.read_bytes,
        "read-records": lambda metrics: metrics.read_records,
        "accumulated-busy-time": lambda metrics: metrics.accumulated_busy_time,
    }
    states = list(dict.fromkeys(state for each in subtasks for state in each.status_duration))
    return answers.Aggregated(
        metrics={name: _statistics([int(figure(each.metrics)) for each in subtasks]) for name, figure in figures.items()},
        status_duration={
            state: _statistics([each.status_duration[state] for each in subtasks if state in each.status_duration])
            for state in states
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
                endpoint=view.endpoint,
                duration=duration(execution, view.now),
                timestamps=dict.fromkeys(jobs.EXECUTION_STATES, 0)
                | {state.name: at for state, at in execution.timestamps.items()},
            )
            for execution in view.executions(vertex.id)
        ),
    )


def task_managers(view: JobView, vertex: JobVertex) -> answers.VertexTaskManagers:
    """Return /jobs/:jobid/vertices/:vertexid/taskmanagers: the job's processes are shown as one."""
    executions = view.executions(vertex.id)
    begin, end = jobs.span(executions)
    one = answers.VertexTaskManager(
        endpoint=view.endpoint,
        status=jobs.aggregate_state([execution.state for execution in executions]),
        start_time=begin,
        end_time=end,
        duration=-1 if begin < 0 else (view.now if end < 0 else end) - begin,
        metrics=jobs.io_metrics(view.subtask(vertex.id, index) for index in range(vertex.parallelism)),
        status_counts=jobs.count(execution.state.name for execution in executions),
        taskmanager_id=view.task_manager_id,
        aggregated=aggregated([subtask(view, vertex, execution) for execution in executions]),
    )
    return answers.VertexTaskManagers(id=rest_id(vertex), name=vertex.name, now=view.now, taskmanagers=(one,))


def watermarks(view: JobView, vertex: JobVertex) -> list[answers.Metric]:
    """Return /jobs/:jobid/vertices/:vertexid/watermarks: the input watermark of each subtask; nothing for a source."""
    if not view.setup.plan.job_graph.inputs(vertex.id):
        return []
    return [
        answers.Metric(f"{index}.currentInputWatermark", str(_input_watermark(view, vertex, index)))
        for index in range(vertex.parallelism)
    ]


def back_pressure(view: JobView, shares: Sequence[tuple[float, float, float]]) -> answers.BackPressure:
    """Return /jobs/:jobid/vertices/:vertexid/backpressure.

    `shares` has, for each subtask, the shares of its time in which it was back-pressured, idle and busy.
    """
    subtasks = tuple(
        answers.SubtaskBackPressure(
            subtask=index, backpressureLevel=level(held), ratio=held, idleRatio=idle, busyRatio=busy, level=level(held)
        )
        for index, (held, idle, busy) in enumerate(shares)
    )
    worst = level(max((each.ratio for each in subtasks), default=0.0))
    return answers.BackPressure(status="ok", backpressureLevel=worst, end_timestamp=view.now, subtasks=subtasks, level=worst)


def level(ratio: float) -> str:
    """Return Flink's word for a share of time under back pressure."""
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def accumulators(view: JobView, vertex: JobVertex) -> answers.VertexAccumulators:
    """Return /jobs/:jobid/vertices/:vertexid/accumulators: the user metrics of all subtasks together."""
    own = merge(view.subtask(vertex.id, index).user for index in range(vertex.parallelism))
    return answers.VertexAccumulators(id=rest_id(vertex), user_accumulators=_accumulators(own))


def subtask_accumulators(view: JobView, vertex: JobVertex) -> answers.AllSubtaskAccumulators:
    """Return /jobs/:jobid/vertices/:vertexid/subtasks/accumulators."""
    return answers.AllSubtaskAccumulators(
        id=rest_id(vertex),
        parallelism=vertex.parallelism,
        subtasks=tuple(
            answers.SubtaskAccumulators(
                subtask=execution.subtask,
                attempt=execution.attempt_number,
                endpoint=view.endpoint,
                user_accumulators=_accumulators(view.subtask(vertex.id, execution.subtask).user),
            )
            for execution in view.executions(vertex.id)
        ),
    )


def attempt_accumulators(view: JobView, vertex: JobVertex, execution: Execution) -> answers.AttemptAccumulators:
    """Return the user metrics of one attempt of a subtask."""
    return answers.AttemptAccumulators(
        subtask=execution.subtask,
        attempt=execution.attempt_number,
        id=rest_id(vertex),
        user_accumulators=_accumulators(view.subtask(vertex.id, execution.subtask).user),
    )


def _accumulators(values: Mapping[str, object]) -> tuple[answers.UserAccumulator, ...]:
    return tuple(answers.UserAccumulator(name=name, type=kind, value=text) for name, kind, text in jobs.user_metrics(values))


def _input_watermark(view: JobView, vertex: JobVertex, index: int) -> int:
    watermark = view.subtask(vertex.id, index).watermark
    return MIN_WATERMARK if watermark is None else watermark


def _state_durations(execution: Execution, now: int) -> dict[str, int]:
    """Return how long each state lasted, in the order of the states."""
    entered = sorted(execution.timestamps.items(), key=lambda item: list(ExecutionState).index(item[0]))
    ends = [at for _, at in entered[1:]] + [now]
    return {state.name: end - at for (state, at), end in zip(entered, ends, strict=True) if not state.is_terminal}


def _statistics(values: Sequence[int]) -> dict[str, int]:
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("p25", "min", "avg", "median", "max", "sum", "p95", "p75"), 0)

    def quantile(share: float) -> int:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if share != 0.5 else _median(ordered)

    return {
        "p25": quantile(0.25),
        "min": ordered[0],
        "avg": sum(ordered) // len(ordered),
        "median": quantile(0.5),
        "max": ordered[-1],
        "sum": sum(ordered),
        "p95": quantile(0.95),
        "p75": quantile(0.75),
    }


def _median(ordered: Sequence[int]) -> int:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
