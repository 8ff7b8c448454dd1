"""Handlers of the paths below /jobs/:jobid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from flinkish.checkpoint.statistics import CheckpointRecord
from flinkish.common.job_status import JobStatus
from flinkish.graph.job_graph import JobVertex
from flinkish.jobmaster.execution_graph import Execution
from flinkish.metrics.plain import text_of
from flinkish.server import metrics
from flinkish.server.answers import vertices as answers
from flinkish.server.answers.checkpoints import Checkpoint, VertexCheckpointDetails
from flinkish.server.answers.jobs import JobExceptions, MetricHistoryInfo
from flinkish.server.answers.operations import HeartbeatRequest
from flinkish.server.answers.vertices import AggregatedMetric, Metric
from flinkish.server.answers.wire import Nothing
from flinkish.server.rest.calls import Call, JobCall, RestError, unreadable
from flinkish.server.state import ServerState
from flinkish.server.views import checkpoints, jobs, vertices

NO_STOP = (
    'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" instead. '
    'For a graceful shutdown, please use "jobs/:jobId/stop" instead.'
)
#: How to change the parallelism of a job, which is not possible while it runs.
RESCALE = "Stop the job with a savepoint and start it from there: flinkish stop, then flinkish run -s SAVEPOINT -p N."


# -- the job -------------------------------------------------------------------------------------------------------------------


def exceptions(call: JobCall) -> JobExceptions:
    limit = call.query_number("maxExceptions")
    if limit is not None and limit < 0:
        raise RestError(400, f"Bad request, could not parse parameters: query parameter (maxExceptions) is negative: {limit}.")
    return jobs.exceptions(call.view, 16 if limit is None else limit)


def heartbeat(state: ServerState, call: Call) -> Nothing:
    """Accept the heartbeat of a client. In Flink it keeps a job alive that ends with its client; here no job does."""
    call.read(HeartbeatRequest)
    return Nothing()


def rescales(call: JobCall) -> NoReturn:
    raise RestError(404, f"AdaptiveScheduler is not enabled for this job ({call.view.job_id}).", RESCALE)


def change_requirements(state: ServerState, call: Call) -> NoReturn:
    if not call.read(dict[str, Any]):
        raise RestError(400, "Request body does not specify resource requirements.")
    raise RestError(400, f"The resource requirements of a job cannot be changed while it runs. {RESCALE}")


def cancel(call: JobCall) -> Nothing:
    mode = call.query.get("mode", "cancel")
    if mode == "stop":
        raise RestError(308, NO_STOP)
    if mode != "cancel":
        raise unreadable("query", "mode", "a mode", mode)
    status = call.view.status
    if status in (JobStatus.FINISHED, JobStatus.FAILED):
        raise RestError(409, f"Job cancellation failed: the job has already reached the terminal state {status.name}.")
    if call.job.client is not None:
        call.job.client.job_master.cancel()
    return Nothing()


# -- checkpoints ---------------------------------------------------------------------------------------------------------------


def checkpoint_details(call: JobCall) -> Checkpoint:
    return checkpoints.checkpoint(call.view, _checkpoint(call), details=True)


def checkpoint_subtasks(call: JobCall) -> VertexCheckpointDetails:
    return checkpoints.vertex_details(_checkpoint(call), call.vertex())


def _checkpoint(call: JobCall) -> CheckpointRecord:
    checkpoint_id = call.number("checkpointid")
    record = checkpoints.find(call.view, checkpoint_id)
    if record is None:
        raise RestError(404, f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
    return record


# -- vertices ------------------------------------------------------------------------------------------------------------------


def back_pressure(state: ServerState, call: Call) -> answers.BackPressure:
    """Return the back pressure of a vertex; as in Flink, the status "deprecated" if the vertex is unknown."""
    vertex_id = call.id("vertexid")
    job = state.jobs.get(call.id("jobid"))
    view = None if job is None else job.view()
    vertex = None if view is None else view.vertex(vertex_id)
    if view is None or vertex is None:
        return answers.BackPressure(status="deprecated")
    shares = [metrics.shares(view, vertex, index) for index in range(vertex.parallelism)]
    return vertices.back_pressure(view, shares)


def flame_graph(call: JobCall) -> answers.FlameGraph:
    kind = call.query.get("type", "full")
    if kind.lower() not in ("full", "on_cpu", "off_cpu"):
        raise unreadable("query", "type", "known", kind)
    call.vertex()
    return answers.FlameGraph()


def subtask(call: JobCall) -> answers.SubtaskInfo:
    vertex = call.vertex()
    return vertices.subtask(call.view, vertex, _execution(call, vertex))


def attempt(call: JobCall) -> answers.SubtaskInfo:
    vertex = call.vertex()
    return vertices.subtask(call.view, vertex, _attempt(call, vertex))


def attempt_accumulators(call: JobCall) -> answers.AttemptAccumulators:
    vertex = call.vertex()
    return vertices.attempt_accumulators(call.view, vertex, _attempt(call, vertex))


def _execution(call: JobCall, vertex: JobVertex) -> Execution:
    return call.view.executions(vertex.id)[call.subtask(vertex)]


def _attempt(call: JobCall, vertex: JobVertex) -> Execution:
    execution = _execution(call, vertex)
    number = call.number("attempt")
    if number != execution.attempt_number:
        raise RestError(404, f"Could not find attempt {number} of subtask {execution.subtask}: only the current one is known.")
    return execution


# -- metrics -------------------------------------------------------------------------------------------------------------------


def job_metrics(call: JobCall) -> list[Metric]:
    return chosen({**metrics.job_metrics(call.view), **metrics.latency_metrics(call.view)}, call)


def metric_history(call: JobCall) -> MetricHistoryInfo:
    return call.job.history.answer(call.view)


def vertex_metrics(call: JobCall) -> list[Metric]:
    vertex = call.view.vertex(call.id("vertexid"))
    if vertex is None:
        return []
    found = {
        f"{index}.{name}": value
        for index in range(vertex.parallelism)
        for name, value in metrics.subtask_metrics(call.view, vertex, index).items()
    }
    return chosen(found, call)


def subtask_metrics(call: JobCall) -> list[Metric]:
    vertex = call.view.vertex(call.id("vertexid"))
    if vertex is None or not 0 <= call.number("subtaskindex") < vertex.parallelism:
        return []
    return chosen(metrics.subtask_metrics(call.view, vertex, call.number("subtaskindex")), call)


def no_metrics(call: JobCall) -> list[Metric]:
    return []


def aggregated_subtask_metrics(call: JobCall) -> list[AggregatedMetric]:
    vertex = call.view.vertex(call.id("vertexid"))
    if vertex is None:
        return []
    listed = call.words("subtasks")
    indexes = _subtasks(listed, vertex.parallelism) if listed else range(vertex.parallelism)
    return aggregated(by_name(metrics.subtask_metrics(call.view, vertex, index) for index in indexes), call)


def by_name(subjects: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the values of each metric, of those that are numbers, from the metrics of several subjects."""
    found: dict[str, list[float]] = {}
    for subject in subjects:
        for name, value in subject.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found.setdefault(name, []).append(value)
    return found


def _subtasks(words: Sequence[str], parallelism: int) -> list[int]:
    """Return the indexes in a list such as `0,2-4`; as in Flink, words that are not numbers are ignored."""
    found: list[int] = []
    for word in words:
        first, dash, last = word.partition("-")
        if first.isdecimal() and (last.isdecimal() or not dash) and len(word) <= 12:
            found.extend(range(int(first), min(int(last or first) + 1, parallelism)))
    return [index for index in dict.fromkeys(found) if index < parallelism]


def chosen(found: Mapping[str, Any], call: Call) -> list[Metric]:
    """Return the names of all metrics, or the values of the metrics that the query lists."""
    names = call.words("get")
    if not names:
        return [Metric(name) for name in sorted(found)]
    return [Metric(name, text_of(found[name])) for name in names if name in found]


def aggregated(found: Mapping[str, Sequence[float]], call: Call) -> list[AggregatedMetric]:
    """Return the names of all metrics, or the statistics that the query wants of those that it lists.

    Raises RestError 400 if one of these statistics does not exist.
    """
    names, wanted = call.words("get"), call.words("agg")
    for word in wanted:
        if word not in ("min", "max", "avg", "sum", "skew"):
            raise unreadable("query", "agg", "known", word)
    if not names:
        return [AggregatedMetric(id=name) for name in sorted(found)]
    return [AggregatedMetric(id=name, **metrics.aggregate(found[name], wanted)) for name in names if name in found]
