"""All routes in one table: method, path, handler, status of success. The app and the tests read this table and no other.

Paths are Flink's; parameters begin with a colon. A handler of a ServerRoute gets the state of the server and the call; a handler
of a JobRoute gets the call with its job. `openapi.py` generates its document from the types of answers and requests and from the
names of query parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkish.server.answers import checkpoints as checkpoint_answers
from flinkish.server.answers import cluster as cluster_answers
from flinkish.server.answers import jobs as job_answers
from flinkish.server.answers import operations as operation_answers
from flinkish.server.answers import task_managers as manager_answers
from flinkish.server.answers import vertices as vertex_answers
from flinkish.server.answers.wire import Nothing
from flinkish.server.rest import cluster_handlers as cluster
from flinkish.server.rest import job_handlers as of_job
from flinkish.server.rest import operation_handlers as operations
from flinkish.server.rest import process_handlers as processes
from flinkish.server.rest.calls import Answer, Call, JobCall, Text
from flinkish.server.rest.job_handlers import on_vertex
from flinkish.server.state import ServerState
from flinkish.server.views import checkpoints, jobs, vertices
from flinkish.server.views.job_view import JobView


@dataclass(frozen=True, slots=True)
class ServerRoute:
    """A path that is not about one job, or that also answers for unknown jobs.

    `answer` is the type of a successful answer; None = the path always refuses. `request` is the type of the body; None = the
    body is not read. `query` has the names of the query parameters that are read.
    """

    method: str
    path: str
    handler: Callable[[ServerState, Call], Answer]
    status: int = 200
    answer: Any = None
    request: Any = None
    query: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobRoute:
    """A path about one job; `unknown` is the HTTP status of the answer if the job is unknown."""

    method: str
    path: str
    handler: Callable[[JobCall], Answer]
    status: int = 200
    unknown: int = 404
    answer: Any = None
    request: Any = None
    query: tuple[str, ...] = ()


def _view(function: Callable[[JobView], Answer]) -> Callable[[JobCall], Answer]:
    return lambda call: function(call.view)


#: The metrics of an unknown job are an empty list with status 200, as in Flink.
_EMPTY = 200
_METRICS = list[vertex_answers.Metric]
_AGGREGATED = list[vertex_answers.AggregatedMetric]
_SETTINGS = list[cluster_answers.ConfigurationEntry]
_JOB = "/jobs/:jobid"
_VERTEX = "/jobs/:jobid/vertices/:vertexid"
_MANAGER = "/taskmanagers/:taskmanagerid"


def document(state: ServerState, call: Call) -> Answer:
    """Return the OpenAPI document of this table."""
    # Imported late: that module imports this table.
    from flinkish.server.rest.openapi import document_of

    return document_of(ROUTES)


ROUTES: tuple[ServerRoute | JobRoute, ...] = (
    ServerRoute("GET", "/config", cluster.config, answer=cluster_answers.DashboardConfiguration),
    ServerRoute("GET", "/overview", cluster.overview, answer=cluster_answers.ClusterOverview),
    ServerRoute("GET", "/applications/overview", cluster.applications, answer=cluster_answers.Applications),
    JobRoute("GET", "/applications/:jobid", cluster.application, unknown=500, answer=cluster_answers.ApplicationDetails),
    JobRoute(
        "GET",
        "/applications/:jobid/exceptions",
        cluster.application_exceptions,
        unknown=500,
        answer=cluster_answers.ApplicationExceptions,
    ),
    JobRoute("GET", "/applications/:jobid/jobmanager/config", _view(jobs.configuration), answer=_SETTINGS),
    JobRoute("POST", "/applications/:jobid/cancel", of_job.cancel, 202, answer=Nothing),
    ServerRoute("GET", "/datasets", cluster.data_sets, answer=cluster_answers.DataSets),
    ServerRoute("DELETE", "/datasets/:datasetid", operations.delete_data_set, 202, answer=operation_answers.Triggered),
    ServerRoute("GET", "/datasets/delete/:triggerid", operations.data_set_result, answer=operation_answers.OperationResult),
    ServerRoute("GET", "/jobmanager/config", processes.manager_config, answer=_SETTINGS),
    ServerRoute("GET", "/jobmanager/environment", processes.manager_environment, answer=cluster_answers.EnvironmentInfo),
    ServerRoute("GET", "/jobmanager/metrics", processes.manager_metrics, answer=_METRICS, query=("get",)),
    ServerRoute("GET", "/jobmanager/log", processes.manager_log, answer=Text),
    ServerRoute("GET", "/jobmanager/logs", processes.manager_logs, answer=cluster_answers.LogList),
    ServerRoute("GET", "/jobmanager/logs/:filename", processes.manager_log, answer=Text),
    ServerRoute("GET", "/jobmanager/stdout", processes.manager_output, answer=Text),
    ServerRoute("GET", "/jobmanager/thread-dump", processes.thread_dump, answer=cluster_answers.ThreadDump),
    ServerRoute("GET", "/taskmanagers", processes.all_managers, answer=manager_answers.TaskManagers),
    ServerRoute(
        "GET", "/taskmanagers/metrics", processes.managers_metrics, answer=_AGGREGATED, query=("get", "agg", "taskmanagers")
    ),
    ServerRoute("GET", f"{_MANAGER}", processes.one_manager, answer=manager_answers.TaskManagerDetails),
    ServerRoute("GET", f"{_MANAGER}/metrics", processes.one_managers_metrics, answer=_METRICS, query=("get",)),
    ServerRoute("GET", f"{_MANAGER}/log", processes.managers_log, answer=Text),
    ServerRoute("GET", f"{_MANAGER}/logs", processes.managers_logs, answer=cluster_answers.LogList),
    ServerRoute("GET", f"{_MANAGER}/logs/:filename", processes.managers_log, answer=Text),
    ServerRoute("GET", f"{_MANAGER}/stdout", processes.managers_output, answer=Text),
    ServerRoute("GET", f"{_MANAGER}/thread-dump", processes.managers_threads, answer=cluster_answers.ThreadDump),
    ServerRoute("GET", "/jobs", cluster.job_ids, answer=job_answers.JobIds),
    ServerRoute("POST", "/jobs", cluster.submit_job),
    ServerRoute("GET", "/jobs/overview", cluster.job_summaries, answer=job_answers.JobSummaries),
    ServerRoute("GET", "/jobs/metrics", cluster.jobs_metrics, answer=_AGGREGATED, query=("get", "agg", "jobs")),
    JobRoute("GET", "/jobs/:jobid", _view(jobs.info), answer=job_answers.JobInfo),
    JobRoute("PATCH", "/jobs/:jobid", of_job.cancel, 202, answer=Nothing, query=("mode",)),
    JobRoute("GET", f"{_JOB}/yarn-cancel", of_job.cancel, 202, answer=Nothing),
    ServerRoute("GET", f"{_JOB}/yarn-stop", of_job.removed_stop),
    JobRoute("GET", f"{_JOB}/status", _view(jobs.status), unknown=500, answer=job_answers.JobStatusInfo),
    JobRoute("GET", f"{_JOB}/plan", _view(jobs.plan), answer=job_answers.JobPlan),
    JobRoute("GET", f"{_JOB}/config", _view(jobs.config), answer=job_answers.JobConfigInfo),
    ServerRoute("GET", f"{_JOB}/jobmanager/config", processes.job_manager_config, answer=_SETTINGS),
    ServerRoute("GET", f"{_JOB}/jobmanager/environment", processes.job_environment, answer=cluster_answers.EnvironmentInfo),
    ServerRoute("GET", f"{_JOB}/jobmanager/log-url", processes.log_url, answer=cluster_answers.LogUrl),
    ServerRoute("GET", f"{_JOB}/taskmanagers/:taskmanagerid/log-url", processes.managers_log_url, answer=cluster_answers.LogUrl),
    JobRoute("GET", f"{_JOB}/exceptions", of_job.exceptions, answer=job_answers.JobExceptions, query=("maxExceptions",)),
    JobRoute("GET", f"{_JOB}/accumulators", _view(jobs.accumulators), answer=job_answers.JobAccumulators),
    JobRoute("GET", f"{_JOB}/execution-result", _view(jobs.execution_result), answer=operation_answers.JobExecutionResultInfo),
    ServerRoute(
        "PATCH", f"{_JOB}/clientHeartbeat", of_job.heartbeat, 202, answer=Nothing, request=operation_answers.HeartbeatRequest
    ),
    JobRoute("POST", f"{_JOB}/coordinators/:operatorUid", of_job.coordinator),
    ServerRoute("PATCH", f"{_JOB}/rescaling", of_job.rescaling),
    ServerRoute("GET", f"{_JOB}/rescaling/:triggerid", of_job.rescaling),
    JobRoute("GET", f"{_JOB}/rescales/config", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/overview", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/history", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/summary", of_job.rescales),
    JobRoute("GET", f"{_JOB}/rescales/details/:rescaleuuid", of_job.rescales),
    JobRoute("GET", f"{_JOB}/resource-requirements", of_job.requirements, unknown=500),
    ServerRoute("PUT", f"{_JOB}/resource-requirements", of_job.change_requirements, request=dict[str, Any]),
    JobRoute("GET", f"{_JOB}/metrics", of_job.job_metrics, unknown=_EMPTY, answer=_METRICS, query=("get",)),
    JobRoute("GET", f"{_JOB}/metrics/history", of_job.metric_history, answer=job_answers.MetricHistoryInfo),
    JobRoute("GET", f"{_JOB}/checkpoints", _view(checkpoints.checkpoints), answer=checkpoint_answers.Checkpoints),
    JobRoute("GET", f"{_JOB}/checkpoints/config", _view(checkpoints.config), answer=checkpoint_answers.CheckpointConfig),
    JobRoute("GET", f"{_JOB}/checkpoints/details/:checkpointid", of_job.checkpoint_details, answer=checkpoint_answers.Checkpoint),
    JobRoute(
        "GET",
        f"{_JOB}/checkpoints/details/:checkpointid/subtasks/:vertexid",
        of_job.checkpoint_subtasks,
        answer=checkpoint_answers.VertexCheckpointDetails,
    ),
    ServerRoute(
        "POST",
        f"{_JOB}/checkpoints",
        operations.trigger_checkpoint,
        202,
        answer=operation_answers.Triggered,
        request=operation_answers.CheckpointRequest,
    ),
    ServerRoute("GET", f"{_JOB}/checkpoints/:triggerid", operations.checkpoint_result, answer=operation_answers.OperationResult),
    ServerRoute(
        "POST",
        f"{_JOB}/savepoints",
        operations.trigger_savepoint,
        202,
        answer=operation_answers.Triggered,
        request=operation_answers.SavepointRequest,
    ),
    ServerRoute("GET", f"{_JOB}/savepoints/:triggerid", operations.savepoint_result, answer=operation_answers.OperationResult),
    ServerRoute(
        "POST", f"{_JOB}/stop", operations.stop, 202, answer=operation_answers.Triggered, request=operation_answers.StopRequest
    ),
    JobRoute("GET", f"{_VERTEX}", on_vertex(vertices.info), answer=vertex_answers.VertexInfo),
    JobRoute("GET", f"{_VERTEX}/accumulators", on_vertex(vertices.accumulators), answer=vertex_answers.VertexAccumulators),
    ServerRoute("GET", f"{_VERTEX}/backpressure", of_job.back_pressure, answer=vertex_answers.BackPressure),
    JobRoute("GET", f"{_VERTEX}/flamegraph", of_job.flame_graph, answer=vertex_answers.FlameGraph, query=("type",)),
    JobRoute("GET", f"{_VERTEX}/jm-operator-metrics", of_job.no_metrics, unknown=_EMPTY, answer=_METRICS, query=("get",)),
    JobRoute("GET", f"{_VERTEX}/metrics", of_job.vertex_metrics, unknown=_EMPTY, answer=_METRICS, query=("get",)),
    JobRoute(
        "GET",
        f"{_VERTEX}/subtasks/accumulators",
        on_vertex(vertices.subtask_accumulators),
        answer=vertex_answers.AllSubtaskAccumulators,
    ),
    JobRoute(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        of_job.aggregated_subtask_metrics,
        unknown=_EMPTY,
        answer=_AGGREGATED,
        query=("get", "agg", "subtasks"),
    ),
    JobRoute("GET", f"{_VERTEX}/subtasks/:subtaskindex", of_job.subtask, answer=vertex_answers.SubtaskInfo),
    JobRoute(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex/metrics",
        of_job.subtask_metrics,
        unknown=_EMPTY,
        answer=_METRICS,
        query=("get",),
    ),
    JobRoute("GET", f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt", of_job.attempt, answer=vertex_answers.SubtaskInfo),
    JobRoute(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt/accumulators",
        of_job.attempt_accumulators,
        answer=vertex_answers.AttemptAccumulators,
    ),
    JobRoute("GET", f"{_VERTEX}/subtasktimes", on_vertex(vertices.times), answer=vertex_answers.SubtaskTimes),
    JobRoute("GET", f"{_VERTEX}/taskmanagers", on_vertex(vertices.task_managers), answer=vertex_answers.VertexTaskManagers),
    JobRoute("GET", f"{_VERTEX}/watermarks", on_vertex(vertices.watermarks), answer=_METRICS),
    ServerRoute(
        "POST",
        "/savepoint-disposal",
        operations.dispose_savepoint,
        answer=operation_answers.Triggered,
        request=operation_answers.DisposalRequest,
    ),
    ServerRoute("GET", "/savepoint-disposal/:triggerid", operations.disposal_result, answer=operation_answers.OperationResult),
    ServerRoute("GET", "/openapi.json", document, answer=dict[str, Any]),
)
