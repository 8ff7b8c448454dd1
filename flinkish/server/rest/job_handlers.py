"""Handlers of the paths below /jobs/:jobid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flinkish.checkpoint.statistics import CheckpointRecord
from flinkish.common.job_status import JobStatus
from flinkish.graph.job_graph import JobVertex
from flinkish.jobmaster.execution_graph import Execution
from flinkish.server import metrics
from flinkish.server.answers import vertices as vertex_answers
from flinkish.server.answers.cluster import LogUrl
from flinkish.server.rest.calls import Answer, JobCall, RestError
from flinkish.server.views import checkpoints, jobs, vertices

JobHandler = Callable[[JobCall], Answer]


# -- the job -------------------------------------------------------------------------------------------------------------------


def exceptions(call: JobCall) -> Answer:
    limit = call.call.query_number("maxExceptions")
    return jobs.exceptions(call.view, 16 if limit is None else limit)


def log_url(call: JobCall) -> Answer:
    return LogUrl(url="#/job-manager/logs")


def cancel(call: JobCall) -> Answer:
    mode = call.call.query.get("mode", "cancel")
    if mode == "stop":
        raise RestError(
            308,
            'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" instead. '
            'For a graceful shutdown, please use "jobs/:jobid/stop" instead.',
        )
    if mode != "cancel":
        raise RestError(400, f"Bad request, could not parse parameters: query parameter (mode) is not a mode: {mode[:80]!r}.")
    status = call.view.status
    if status in (JobStatus.FINISHED, JobStatus.FAILED):
        raise RestError(409, f"Job cancellation failed: the job has already reached the terminal state {status.name}.")
    if call.job.client is not None:
        call.job.client.job_master.cancel()
    return {}


# -- checkpoints ---------------------------------------------------------------------------------------------------------------


def checkpoint_details(call: JobCall) -> Answer:
    return checkpoints.checkpoint(call.view, _checkpoint(call), details=True)


def checkpoint_subtasks(call: JobCall) -> Answer:
    return checkpoints.vertex_details(_checkpoint(call), call.vertex())


def _checkpoint(call: JobCall) -> CheckpointRecord:
    checkpoint_id = call.call.number("checkpointid")
    record = checkpoints.find(call.view, checkpoint_id)
    if record is None:
        raise RestError(404, f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
    return record


# -- vertices ------------------------------------------------------------------------------------------------------------------


def on_vertex(view: Callable[[Any, JobVertex], Answer]) -> JobHandler:
    """Return a handler that shows the vertex which the path names."""
    return lambda call: view(call.view, call.vertex())


def back_pressure(call: JobCall) -> Answer:
    vertex = call.view.vertex(call.call.id("vertexid"))
    if vertex is None:
        return vertex_answers.BackPressure(status="deprecated")
    shares = [metrics.shares(call.view, vertex, index) for index in range(vertex.parallelism)]
    return vertices.back_pressure(call.view, shares)


def flame_graph(call: JobCall) -> Answer:
    call.vertex()
    return vertex_answers.FlameGraph()


def subtask(call: JobCall) -> Answer:
    vertex = call.vertex()
    return vertices.subtask(call.view, vertex, _execution(call, vertex))


def attempt(call: JobCall) -> Answer:
    vertex = call.vertex()
    return vertices.subtask(call.view, vertex, _attempt(call, vertex))


def attempt_accumulators(call: JobCall) -> Answer:
    vertex = call.vertex()
    return vertices.attempt_accumulators(call.view, vertex, _attempt(call, vertex))


def _execution(call: JobCall, vertex: JobVertex) -> Execution:
    return call.view.executions(vertex.id)[call.subtask(vertex)]


def _attempt(call: JobCall, vertex: JobVertex) -> Execution:
    execution = _execution(call, vertex)
    number = call.call.number("attempt")
    if number != execution.attempt_number:
        raise RestError(404, f"Could not find attempt {number} of subtask {execution.subtask}: only the current one is known.")
    return execution


# -- metrics -------------------------------------------------------------------------------------------------------------------


def job_metrics(call: JobCall) -> Answer:
    return _chosen({**metrics.job_metrics(call.view), **metrics.latency_metrics(call.view)}, call)


def vertex_metrics(call: JobCall) -> Answer:
    vertex = call.view.vertex(call.call.id("vertexid"))
    if vertex is None:
        return []
    found = {
        f"{index}.{name}": value
        for index in range(vertex.parallelism)
        for name, value in metrics.subtask_metrics(call.view, vertex, index).items()
    }
    return _chosen(found, call)


def subtask_metrics(call: JobCall) -> Answer:
    vertex = call.view.vertex(call.call.id("vertexid"))
    if vertex is None or not 0 <= call.call.number("subtaskindex") < vertex.parallelism:
        return []
    return _chosen(metrics.subtask_metrics(call.view, vertex, call.call.number("subtaskindex")), call)


def no_metrics(call: JobCall) -> Answer:
    return []


def aggregated_subtask_metrics(call: JobCall) -> Answer:
    wanted = aggregations(call.call.words("agg"))
    vertex = call.view.vertex(call.call.id("vertexid"))
    if vertex is None:
        return []
    chosen = [index for index in _subtasks(call) if index < vertex.parallelism] or range(vertex.parallelism)
    found: dict[str, list[float]] = {}
    for index in chosen:
        for name, value in metrics.subtask_metrics(call.view, vertex, index).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found.setdefault(name, []).append(value)
    names = call.call.words("get")
    if not names:
        return [{"id": name} for name in sorted(found)]
    return [{"id": name, **metrics.aggregate(found[name], wanted)} for name in names if name in found]


def aggregations(words: tuple[str, ...]) -> tuple[str, ...]:
    """Check the statistics that a query asks for; raises RestError 400."""
    for word in words:
        if word not in ("min", "max", "avg", "sum", "skew"):
            raise RestError(400, f"Bad request, could not parse parameters: query parameter (agg) is not known: {word[:80]!r}.")
    return words


def _subtasks(call: JobCall) -> list[int]:
    """Read `subtasks=0,2-4`; raises RestError 400."""
    found: list[int] = []
    for word in call.call.words("subtasks"):
        first, _, last = word.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or len(word) > 12:
            raise RestError(400, f"Bad request, could not parse parameters: query parameter (subtasks): {word[:80]!r}.")
        found.extend(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return found


def _chosen(found: Mapping[str, Any], call: JobCall) -> Answer:
    """Return the names of all metrics, or the values of those that the query asks for."""
    names = call.call.words("get")
    if not names:
        return [vertex_answers.Metric(name) for name in sorted(found)]
    return [vertex_answers.Metric(name, metrics.text_of(found[name])) for name in names if name in found]
