"""All routes in one table: method, path, handler, status of success. The app and the tests read this table and no other.

Paths are Flink's; parameters begin with a colon. A handler of a ServerRoute gets the state of the server and the call; a handler
of a JobRoute gets the call with its job. `openapi.py` generates its document from the types that handlers return, the types of
requests, and the names of query parameters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, get_type_hints

from flinkish.graph.job_graph import JobVertex
from flinkish.server.answers.jobs import CheckpointRequest, DisposalRequest, HeartbeatRequest, SavepointRequest, StopRequest
from flinkish.server.rest import job_handlers as of_job
from flinkish.server.rest import server_handlers as server
from flinkish.server.rest.calls import Answer, Call, JobCall, RestError
from flinkish.server.state import ServerState
from flinkish.server.views import checkpoints, jobs, vertices
from flinkish.server.views.job_view import JobView


@dataclass(frozen=True, slots=True)
class Route:
    """A path; `request` is the type of the body, None = it is not read. `query` has the names of the parameters that are read.

    Open pages request a path that is `repeated` again and again, so under load its answer may be a second old. The status of a
    job is not one of these paths, so it is always current.
    """

    method: str
    path: str
    handler: Callable[..., Answer]
    status: int = 200
    request: Any = None
    query: tuple[str, ...] = ()
    repeated: bool = False

    @property
    def template(self) -> str:
        """The path with its parameters in braces."""
        return re.sub(r":(\w+)", r"{\1}", self.path)

    @property
    def parameters(self) -> list[str]:
        return re.findall(r":(\w+)", self.path)

    @property
    def answer(self) -> Any:
        """The type of a successful answer, which the handler's annotation names; None = the path always refuses."""
        found = get_type_hints(self.handler)["return"]
        return None if found is NoReturn else found


@dataclass(frozen=True, slots=True)
class ServerRoute(Route):
    """A path that is not about one job, or that also answers for unknown jobs."""

    handler: Callable[[ServerState, Call], Answer]


@dataclass(frozen=True, slots=True)
class JobRoute(Route):
    """A path about one job; `unknown` is the HTTP status of the answer if the job is unknown."""

    handler: Callable[[JobCall], Answer]
    unknown: int = 404


def _view(function: Callable[[JobView], Answer]) -> Callable[[JobCall], Answer]:
    @functools.wraps(function)
    def handler(call: JobCall) -> Answer:
        return function(call.view)

    return handler


def _on_vertex(function: Callable[[JobView, JobVertex], Answer]) -> Callable[[JobCall], Answer]:
    """Return a handler that applies `function` to the vertex that the path names."""

    @functools.wraps(function)
    def handler(call: JobCall) -> Answer:
        return function(call.view, call.vertex())

    return handler


def _refusal(status: int, *messages: str) -> Callable[..., NoReturn]:
    """Return a handler that refuses every request."""

    def handler(*_: object) -> NoReturn:
        raise RestError(status, *messages)

    return handler


_NO_GRAPHS = (
    "A Flink program is sent as a serialised Java graph, which flinkish cannot run. "
    "Start the script itself: flinkish run JOB.py, or flink run -d -py JOB.py."
)
_NO_COORDINATORS = "Requests to coordinators of operators are serialised Java objects, which flinkish does not read."
_NO_RESCALING = "Rescaling is temporarily disabled. See FLINK-12312.", of_job.RESCALE
_NO_REQUIREMENTS = (
    "Internal server error.",
    f"The DefaultScheduler does not support changing the parallelism without a job restart. {of_job.RESCALE}",
)
#: The metrics of an unknown job are an empty list with status 200, as in Flink.
_EMPTY = 200
_JOB = "/jobs/:jobid"
_VERTEX = "/jobs/:jobid/vertices/:vertexid"
_MANAGER = "/taskmanagers/:taskmanagerid"


def document(state: ServerState, call: Call) -> dict[str, Any]:
    # Imported late: that module imports this table.
    from flinkish.server.rest.openapi import document_of

    return document_of(ROUTES)


ROUTES: tuple[ServerRoute | JobRoute, ...] = (
    ServerRoute("GET", "/config", server.config),
    ServerRoute("GET", "/overview", server.overview, repeated=True),
    ServerRoute("GET", "/applications/overview", server.applications),
    JobRoute("GET", "/applications/:jobid", server.application, unknown=500),
    JobRoute("GET", "/applications/:jobid/exceptions", server.application_exceptions, unknown=500),
    JobRoute("GET", "/applications/:jobid/jobmanager/config", _view(jobs.configuration)),
    JobRoute("POST", "/applications/:jobid/cancel", of_job.cancel, 202),
    ServerRoute("GET", "/datasets", server.data_sets),
    ServerRoute("DELETE", "/datasets/:datasetid", of_job.delete_data_set, 202),
    ServerRoute("GET", "/datasets/delete/:triggerid", of_job.result_of(of_job.DATA_SET)),
    ServerRoute("GET", "/jobmanager/config", server.manager_config),
    ServerRoute("GET", "/jobmanager/environment", server.manager_environment),
    ServerRoute("GET", "/jobmanager/metrics", server.manager_metrics, query=("get",)),
    ServerRoute("GET", "/jobmanager/log", server.manager_log),
    ServerRoute("GET", "/jobmanager/logs", server.manager_logs),
    ServerRoute("GET", "/jobmanager/logs/:filename", server.manager_log),
    ServerRoute("GET", "/jobmanager/stdout", server.manager_output),
    ServerRoute("GET", "/jobmanager/thread-dump", server.thread_dump),
    ServerRoute("GET", "/taskmanagers", server.all_managers),
    ServerRoute("GET", "/taskmanagers/metrics", server.managers_metrics, query=("get", "agg", "taskmanagers")),
    ServerRoute("GET", _MANAGER, server.one_manager),
    ServerRoute("GET", f"{_MANAGER}/metrics", server.one_managers_metrics, query=("get",)),
    ServerRoute("GET", f"{_MANAGER}/log", server.managers_log),
    ServerRoute("GET", f"{_MANAGER}/logs", server.managers_logs),
    ServerRoute("GET", f"{_MANAGER}/logs/:filename", server.managers_log),
    ServerRoute("GET", f"{_MANAGER}/stdout", server.managers_output),
    ServerRoute("GET", f"{_MANAGER}/thread-dump", server.managers_threads),
    ServerRoute("GET", "/jobs", server.job_ids),
    ServerRoute("POST", "/jobs", _refusal(501, _NO_GRAPHS)),
    ServerRoute("GET", "/jobs/overview", server.job_summaries, repeated=True),
    ServerRoute("GET", "/jobs/metrics", server.jobs_metrics, query=("get", "agg", "jobs")),
    JobRoute("GET", _JOB, _view(jobs.info), repeated=True),
    JobRoute("PATCH", _JOB, of_job.cancel, 202, query=("mode",)),
    JobRoute("GET", f"{_JOB}/yarn-cancel", of_job.cancel, 202),
    ServerRoute("GET", f"{_JOB}/yarn-stop", _refusal(308, of_job.NO_STOP)),
    JobRoute("GET", f"{_JOB}/status", _view(jobs.status), unknown=500),
    JobRoute("GET", f"{_JOB}/plan", _view(jobs.plan)),
    JobRoute("GET", f"{_JOB}/config", _view(jobs.config)),
    ServerRoute("GET", f"{_JOB}/jobmanager/config", server.job_manager_config),
    ServerRoute("GET", f"{_JOB}/jobmanager/environment", server.manager_environment),
    ServerRoute("GET", f"{_JOB}/jobmanager/log-url", server.log_url),
    ServerRoute("GET", f"{_JOB}/taskmanagers/:taskmanagerid/log-url", server.managers_log_url),
    JobRoute("GET", f"{_JOB}/exceptions", of_job.exceptions, query=("maxExceptions",), repeated=True),
    JobRoute("GET", f"{_JOB}/accumulators", _view(jobs.accumulators)),
    JobRoute("GET", f"{_JOB}/execution-result", _view(jobs.execution_result)),
    ServerRoute("PATCH", f"{_JOB}/clientHeartbeat", of_job.heartbeat, 202, request=HeartbeatRequest),
    JobRoute("POST", f"{_JOB}/coordinators/:operatorUid", _refusal(400, _NO_COORDINATORS)),
    ServerRoute("PATCH", f"{_JOB}/rescaling", _refusal(503, *_NO_RESCALING)),
    ServerRoute("GET", f"{_JOB}/rescaling/:triggerid", _refusal(503, *_NO_RESCALING)),
    JobRoute("GET", f"{_JOB}/rescales/config", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/overview", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/history", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/summary", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/details/:rescaleuuid", of_job.rescales),
    JobRoute("GET", f"{_JOB}/resource-requirements", _refusal(500, *_NO_REQUIREMENTS), unknown=500),
    ServerRoute("PUT", f"{_JOB}/resource-requirements", of_job.change_requirements, request=dict[str, Any]),
    JobRoute("GET", f"{_JOB}/metrics", of_job.job_metrics, unknown=_EMPTY, query=("get",), repeated=True),
    JobRoute("GET", f"{_JOB}/metrics/history", of_job.metric_history),
    JobRoute("GET", f"{_JOB}/checkpoints", _view(checkpoints.checkpoints), repeated=True),
    JobRoute("GET", f"{_JOB}/checkpoints/config", _view(checkpoints.config)),
    JobRoute("GET", f"{_JOB}/checkpoints/details/:checkpointid", of_job.checkpoint_details),
    JobRoute("GET", f"{_JOB}/checkpoints/details/:checkpointid/subtasks/:vertexid", of_job.checkpoint_subtasks),
    ServerRoute("POST", f"{_JOB}/checkpoints", of_job.trigger_checkpoint, 202, request=CheckpointRequest),
    ServerRoute("GET", f"{_JOB}/checkpoints/:triggerid", of_job.result_of(of_job.CHECKPOINT)),
    ServerRoute("POST", f"{_JOB}/savepoints", of_job.trigger_savepoint, 202, request=SavepointRequest),
    ServerRoute("GET", f"{_JOB}/savepoints/:triggerid", of_job.result_of(of_job.SAVEPOINT)),
    ServerRoute("POST", f"{_JOB}/stop", of_job.stop, 202, request=StopRequest),
    JobRoute("GET", _VERTEX, _on_vertex(vertices.info), repeated=True),
    JobRoute("GET", f"{_VERTEX}/accumulators", _on_vertex(vertices.accumulators)),
    ServerRoute("GET", f"{_VERTEX}/backpressure", of_job.back_pressure, repeated=True),
    JobRoute("GET", f"{_VERTEX}/flamegraph", of_job.flame_graph, query=("type",)),
    JobRoute("GET", f"{_VERTEX}/jm-operator-metrics", of_job.no_metrics, unknown=_EMPTY, query=("get",)),
    JobRoute("GET", f"{_VERTEX}/metrics", of_job.vertex_metrics, unknown=_EMPTY, query=("get",), repeated=True),
    JobRoute("GET", f"{_VERTEX}/subtasks/accumulators", _on_vertex(vertices.subtask_accumulators)),
    JobRoute(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        of_job.aggregated_subtask_metrics,
        unknown=_EMPTY,
        query=("get", "agg", "subtasks"),
        repeated=True,
    ),
    JobRoute("GET", f"{_VERTEX}/subtasks/:subtaskindex", of_job.subtask),
    JobRoute("GET", f"{_VERTEX}/subtasks/:subtaskindex/metrics", of_job.subtask_metrics, unknown=_EMPTY, query=("get",)),
    JobRoute("GET", f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt", of_job.attempt),
    JobRoute("GET", f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt/accumulators", of_job.attempt_accumulators),
    JobRoute("GET", f"{_VERTEX}/subtasktimes", _on_vertex(vertices.times)),
    JobRoute("GET", f"{_VERTEX}/taskmanagers", _on_vertex(vertices.task_managers)),
    JobRoute("GET", f"{_VERTEX}/watermarks", _on_vertex(vertices.watermarks), repeated=True),
    ServerRoute("POST", "/savepoint-disposal", of_job.dispose_savepoint, request=DisposalRequest),
    ServerRoute("GET", "/savepoint-disposal/:triggerid", of_job.result_of(of_job.DISPOSAL)),
    ServerRoute("GET", "/openapi.json", document),
)
