"""Handlers of the paths below /jobs/:jobid, and of operations."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NoReturn

from flinkish.checkpoint import disposal
from flinkish.checkpoint.statistics import CheckpointRecord
from flinkish.common.completable_future import CompletableFuture
from flinkish.common.errors import CheckpointError, InvalidArgumentError, JobNotFoundError
from flinkish.common.job_status import JobStatus
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.graph.job_graph import JobVertex
from flinkish.jobmaster.execution_graph import Execution
from flinkish.metrics.plain import text_of
from flinkish.server import metrics
from flinkish.server.answers import vertices as answers
from flinkish.server.answers.checkpoints import Checkpoint, VertexCheckpointDetails
from flinkish.server.answers.jobs import (
    CheckpointRequest,
    DisposalRequest,
    HeartbeatRequest,
    JobExceptions,
    MetricHistoryInfo,
    OperationResult,
    SavepointRequest,
    StopRequest,
    Triggered,
)
from flinkish.server.answers.vertices import AggregatedMetric, Metric
from flinkish.server.answers.wire import Nothing
from flinkish.server.operations import OperationKey
from flinkish.server.rest.calls import HEX_ID, Call, JobCall, RestError, unreadable
from flinkish.server.state import ServerState
from flinkish.server.views import checkpoints, jobs, vertices

NO_STOP = (
    'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" instead. '
    'For a graceful shutdown, please use "jobs/:jobId/stop" instead.'
)
#: Kinds of operations. Clients request the result of a stop as if it were a savepoint.
SAVEPOINT, CHECKPOINT, DISPOSAL, DATA_SET = "savepoint", "checkpoint", "savepoint disposal", "data set"
#: The field of OperationInfo that has the result of an operation; the others have none.
_RESULTS = {SAVEPOINT: "location", CHECKPOINT: "checkpointId"}
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
    checkpoint_id, figures = call.number("checkpointid"), call.view.checkpoints
    known = (*figures.history, figures.latest_completed, figures.latest_failed, figures.latest_savepoint)
    record = next((record for record in known if record is not None and record.checkpoint_id == checkpoint_id), None)
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
    return vertices.back_pressure(view, vertex)


def flame_graph(call: JobCall) -> answers.FlameGraph:
    kind = call.query.get("type", "full")
    if kind.lower() not in ("full", "on_cpu", "off_cpu"):
        raise unreadable("query", "type", "known", kind)
    call.vertex()
    return answers.FlameGraph()


def subtask(call: JobCall) -> answers.SubtaskInfo:
    vertex = call.vertex()
    return vertices.subtask(call.view, vertex, call.execution(vertex))


def attempt(call: JobCall) -> answers.SubtaskInfo:
    vertex = call.vertex()
    return vertices.subtask(call.view, vertex, _attempt(call, vertex))


def attempt_accumulators(call: JobCall) -> answers.AttemptAccumulators:
    vertex = call.vertex()
    return vertices.attempt_accumulators(call.view, vertex, _attempt(call, vertex))


def _attempt(call: JobCall, vertex: JobVertex) -> Execution:
    execution = call.execution(vertex)
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
        return aggregated({}, call)
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


# -- savepoints, checkpoints, stops: one handler starts an operation, another one returns its result -----------------------------
#
# As in Flink, a request for a job that does not run is accepted, and the result of the operation is a failure.


def trigger_savepoint(state: ServerState, call: Call) -> Triggered:
    request = call.read(SavepointRequest)

    def begin() -> CompletableFuture[Any]:
        client = _running(state, call)
        future = client.trigger_savepoint(request.target_directory)
        if request.cancel_job:
            # As in Flink, the job continues if its savepoint fails.
            future.add_done_callback(lambda done: client.job_master.cancel() if done.exception() is None else None)
        return future

    return _start(state, call, SAVEPOINT, begin, request.triggerId)


def stop(state: ServerState, call: Call) -> Triggered:
    request = call.read(StopRequest)

    def begin() -> CompletableFuture[str]:
        return _running(state, call).stop_with_savepoint(request.drain, request.targetDirectory)

    return _start(state, call, SAVEPOINT, begin, request.triggerId)


def trigger_checkpoint(state: ServerState, call: Call) -> Triggered:
    request = call.read(CheckpointRequest)

    def begin() -> CompletableFuture[Any]:
        # As in Flink, INCREMENTAL is the same as CONFIGURED.
        return _running(state, call).trigger_checkpoint(full=request.checkpointType == "FULL")

    return _start(state, call, CHECKPOINT, begin, request.triggerId)


def dispose_savepoint(state: ServerState, call: Call) -> Triggered:
    path = call.read(DisposalRequest).savepoint_path
    if not path:
        raise RestError(400, "Field savepoint-path must not be omitted or be null.")

    def begin() -> CompletableFuture[None]:
        done: CompletableFuture[None] = CompletableFuture()
        # In a thread of its own, because there may be many files on slow storage.
        threading.Thread(target=_dispose, args=(state, path, done), name="flinkish-disposal", daemon=True).start()
        return done

    return _start(state, call, DISPOSAL, begin)


def _dispose(state: ServerState, path: str, done: CompletableFuture[None]) -> None:
    try:
        root = disposal.savepoint_root(path)
        job_id = _needing(state, root) if state.needing_savepoint is None else state.needing_savepoint(root)
        if job_id is not None:
            raise CheckpointError(
                f"the savepoint {path!r} is not deleted: job {job_id} was started from it and would restart from it",
                hint="wait for the first checkpoint of that job, or stop it.",
            )
        disposal.dispose(path)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)


def _needing(state: ServerState, root: PurePath) -> str | None:
    """Return the id of a job of this process that would restart from the savepoint at `root` after a failure, or None."""
    for job in state.jobs.all():
        client = job.client
        needed = None if client is None else client.job_master.checkpoints.restore_point()
        if needed is not None and disposal.is_at(needed.root, root):
            return job.job_id
    return None


def delete_data_set(state: ServerState, call: Call) -> Triggered:
    data_set = call.id("datasetid")

    def begin() -> CompletableFuture[Any]:
        raise InvalidArgumentError(f"there is no data set {data_set} in the cluster: cached streams belong to their programs")

    return _start(state, call, DATA_SET, begin)


def result_of(kind: str) -> Callable[[ServerState, Call], OperationResult]:
    """Return a handler that answers with the result of an operation of a kind."""

    def handler(state: ServerState, call: Call) -> OperationResult:
        job_id, trigger_id = _job_id(call), call.id("triggerid")
        found = state.operations.result(OperationKey(kind, job_id, trigger_id))
        if found is None:
            raise RestError(404, f"There is no {kind} operation with triggerId={trigger_id}.")
        return found

    return handler


def _start(
    state: ServerState, call: Call, kind: str, begin: Callable[[], CompletableFuture[Any]], trigger_id: str | None = None
) -> Triggered:
    if trigger_id is not None and not HEX_ID.fullmatch(trigger_id):
        raise RestError(400, f"triggerId must be 32 hexadecimal digits; got {trigger_id[:80]!r}.")
    key = OperationKey(kind, _job_id(call), trigger_id or secrets.token_hex(16))
    state.operations.start(key, begin, _RESULTS.get(kind))
    return Triggered(request_id=key.trigger_id)


def _job_id(call: Call) -> str | None:
    return call.id("jobid") if "jobid" in call.path else None


def _running(state: ServerState, call: Call) -> EmbeddedJobClient:
    job_id = call.id("jobid")
    job = state.jobs.get(job_id)
    if job is None or job.client is None:
        raise JobNotFoundError(f"could not find a running job {job_id}", hint="GET /jobs lists the jobs.")
    return job.client
