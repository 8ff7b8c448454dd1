"""All routes in one table: method, path, handler, status of success. The app and the tests read nothing else.

Paths are Flink's; parameters have a colon. A handler of the server gets its state and the call, one of a job the job, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinkish.server.rest import cluster_handlers as cluster
from flinkish.server.rest import job_handlers as of_job
from flinkish.server.rest import operation_handlers as operations
from flinkish.server.rest.calls import Answer, Call, JobCall
from flinkish.server.rest.job_handlers import on_vertex
from flinkish.server.state import ServerState
from flinkish.server.views import checkpoints, jobs, vertices
from flinkish.server.views.job_view import JobView


@dataclass(frozen=True, slots=True)
class ServerRoute:
    """A path that is not about one job, or that also answers for unknown jobs."""

    method: str
    path: str
    handler: Callable[[ServerState, Call], Answer]
    status: int = 200


@dataclass(frozen=True, slots=True)
class JobRoute:
    """A path about one job; `unknown` is the status of the answer for a job that is not known."""

    method: str
    path: str
    handler: Callable[[JobCall], Answer]
    status: int = 200
    unknown: int = 404


def _view(function: Callable[[JobView], Answer]) -> Callable[[JobCall], Answer]:
    return lambda call: function(call.view)


#: Metrics of a job that is not known are an empty list, as in Flink.
_EMPTY = 200

ROUTES: tuple[ServerRoute | JobRoute, ...] = (
    ServerRoute("GET", "/config", cluster.config),
    ServerRoute("GET", "/overview", cluster.overview),
    ServerRoute("GET", "/applications/overview", cluster.applications),
    JobRoute("GET", "/applications/:jobid", cluster.application),
    JobRoute("GET", "/applications/:jobid/exceptions", cluster.application_exceptions),
    JobRoute("GET", "/applications/:jobid/jobmanager/config", _view(jobs.configuration)),
    JobRoute("POST", "/applications/:jobid/cancel", of_job.cancel, 202),
    ServerRoute("GET", "/datasets", cluster.data_sets),
    ServerRoute("GET", "/jobmanager/config", cluster.manager_config),
    ServerRoute("GET", "/jobmanager/environment", cluster.manager_environment),
    ServerRoute("GET", "/jobmanager/metrics", cluster.manager_metrics),
    ServerRoute("GET", "/jobmanager/log", cluster.no_log),
    ServerRoute("GET", "/jobmanager/logs", cluster.manager_logs),
    ServerRoute("GET", "/jobmanager/logs/:filename", cluster.no_log),
    ServerRoute("GET", "/jobmanager/stdout", cluster.no_log),
    ServerRoute("GET", "/jobmanager/thread-dump", cluster.thread_dump),
    ServerRoute("GET", "/jobs", cluster.job_ids),
    ServerRoute("POST", "/jobs", cluster.submit_job),
    ServerRoute("GET", "/jobs/overview", cluster.job_summaries),
    ServerRoute("GET", "/jobs/metrics", cluster.jobs_metrics),
    JobRoute("GET", "/jobs/:jobid", _view(jobs.info)),
    JobRoute("PATCH", "/jobs/:jobid", of_job.cancel, 202),
    JobRoute("GET", "/jobs/:jobid/yarn-cancel", of_job.cancel, 202),
    JobRoute("GET", "/jobs/:jobid/status", _view(jobs.status), unknown=500),
    JobRoute("GET", "/jobs/:jobid/plan", _view(jobs.plan)),
    JobRoute("GET", "/jobs/:jobid/config", _view(jobs.config)),
    JobRoute("GET", "/jobs/:jobid/jobmanager/config", _view(jobs.configuration)),
    JobRoute("GET", "/jobs/:jobid/jobmanager/log-url", of_job.log_url),
    JobRoute("GET", "/jobs/:jobid/exceptions", of_job.exceptions),
    JobRoute("GET", "/jobs/:jobid/accumulators", _view(jobs.accumulators)),
    JobRoute("GET", "/jobs/:jobid/execution-result", _view(jobs.execution_result)),
    JobRoute("GET", "/jobs/:jobid/metrics", of_job.job_metrics, unknown=_EMPTY),
    JobRoute("GET", "/jobs/:jobid/checkpoints", _view(checkpoints.checkpoints)),
    JobRoute("GET", "/jobs/:jobid/checkpoints/config", _view(checkpoints.config)),
    JobRoute("GET", "/jobs/:jobid/checkpoints/details/:checkpointid", of_job.checkpoint_details),
    JobRoute("GET", "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid", of_job.checkpoint_subtasks),
    ServerRoute("POST", "/jobs/:jobid/checkpoints", operations.trigger_checkpoint, 202),
    ServerRoute("GET", "/jobs/:jobid/checkpoints/:triggerid", operations.checkpoint_result),
    ServerRoute("POST", "/jobs/:jobid/savepoints", operations.trigger_savepoint, 202),
    ServerRoute("GET", "/jobs/:jobid/savepoints/:triggerid", operations.savepoint_result),
    ServerRoute("POST", "/jobs/:jobid/stop", operations.stop, 202),
    ServerRoute("POST", "/savepoint-disposal", operations.dispose_savepoint),
    ServerRoute("GET", "/savepoint-disposal/:triggerid", operations.disposal_result),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid", on_vertex(vertices.info)),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/accumulators", on_vertex(vertices.accumulators)),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/backpressure", of_job.back_pressure),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/flamegraph", of_job.flame_graph),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/jm-operator-metrics", of_job.no_metrics, unknown=_EMPTY),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/metrics", of_job.vertex_metrics, unknown=_EMPTY),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/subtasks/accumulators", on_vertex(vertices.subtask_accumulators)),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/subtasks/metrics", of_job.aggregated_subtask_metrics, unknown=_EMPTY),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex", of_job.subtask),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics", of_job.subtask_metrics, unknown=_EMPTY),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt", of_job.attempt),
    JobRoute(
        "GET",
        "/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt/accumulators",
        of_job.attempt_accumulators,
    ),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/subtasktimes", on_vertex(vertices.times)),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/taskmanagers", on_vertex(vertices.task_managers)),
    JobRoute("GET", "/jobs/:jobid/vertices/:vertexid/watermarks", on_vertex(vertices.watermarks), unknown=_EMPTY),
)
