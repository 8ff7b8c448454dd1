"""The routes that a Dispatcher serves itself, in one table. All other paths about a job are forwarded to its driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinkish.server.rest.app import LONGEST_BODY
from flinkish.server.rest.calls import Answer, Call
from flinkish.server.rest.routes import Route
from flinkish.server.session import handlers
from flinkish.server.session.handlers import LONGEST_PROGRAM, SessionState


@dataclass(frozen=True, slots=True)
class SessionRoute(Route):
    """A path of the session; `longest` is the maximum size of the body in bytes."""

    handler: Callable[[SessionState, Call], Answer]
    longest: int = LONGEST_BODY


SESSION_ROUTES: tuple[SessionRoute, ...] = (
    SessionRoute("DELETE", "/cluster", handlers.shut_down),
    SessionRoute("GET", "/config", handlers.config),
    SessionRoute("GET", "/overview", handlers.overview),
    SessionRoute("GET", "/applications/overview", handlers.applications),
    SessionRoute("GET", "/jobs", handlers.job_ids),
    SessionRoute("GET", "/jobs/overview", handlers.job_summaries),
    SessionRoute("GET", "/jobs/metrics", handlers.jobs_metrics),
    SessionRoute("GET", "/jobs/:jobid/jobmanager/log-url", handlers.log_url),
    SessionRoute("GET", "/jobs/:jobid/taskmanagers/:taskmanagerid/log-url", handlers.log_url),
    SessionRoute("GET", "/jobmanager/metrics", handlers.manager_metrics),
    SessionRoute("GET", "/taskmanagers/metrics", handlers.managers_metrics),
    SessionRoute("GET", "/taskmanagers", handlers.task_managers),
    SessionRoute("GET", "/jars", handlers.programs),
    SessionRoute("POST", "/jars/upload", handlers.upload, longest=LONGEST_PROGRAM),
    SessionRoute("DELETE", "/jars/:jarid", handlers.delete),
    SessionRoute("POST", "/jars/:jarid/run", handlers.run),
    SessionRoute("GET", "/jars/:jarid/plan", handlers.plan),
    SessionRoute("POST", "/jars/:jarid/plan", handlers.plan),
)
