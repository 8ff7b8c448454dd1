"""The HTTP application of a Dispatcher: its own routes, and all paths about a job, which the job's driver or archive serves."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from flinkish.common.errors import CorruptCheckpointError, EngineError, RegistryError
from flinkish.server.answers.wire import JSON, encode
from flinkish.server.rest.app import LONGEST_BODY, RestApplication, RouteTable, error_response, normalised, read_body
from flinkish.server.rest.calls import Call, RestError
from flinkish.server.rest.routes import ROUTES
from flinkish.server.rest.trust import Gate
from flinkish.server.server_settings import ServerSettings
from flinkish.server.session.driverless_jobs import answer_without_driver, is_cancel
from flinkish.server.session.drivers import forward
from flinkish.server.session.entries import JobEntry
from flinkish.server.session.handlers import SessionState
from flinkish.server.session.leadership import NotLeaderError
from flinkish.server.session.routes import SESSION_ROUTES
from flinkish.server.web import WebPage, page_files

T = TypeVar("T")

_log = logging.getLogger("flinkish.server.session")

#: The id of a task manager ends with the first digits of its job's id.
_TASK_MANAGER = re.compile(r"/taskmanagers/[^/]*-([0-9a-f]{6})(?:/.*)?")
#: Requests that wait for drivers or the storage at the same time.
_THREADS = 64
#: How long a request waits for a driver that is ending, so that the archive is complete, in seconds.
_END_PATIENCE = 15.0


def make_session_app(state: SessionState, settings: ServerSettings, inner: ASGIApp) -> ASGIApp:
    """Return the application; `inner` answers requests that are neither about the session nor about a known job."""
    return Gate(WebPage(_Application(state, inner)), settings, page_paths=frozenset(page_files()))


@dataclass(frozen=True, slots=True)
class _Target:
    """A request to forward."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes


class _Application(RestApplication):
    def __init__(self, state: SessionState, inner: ASGIApp) -> None:
        self._state = state
        self._inner = inner
        self._own = RouteTable(SESSION_ROUTES)
        self._jobs = RouteTable([route for route in ROUTES if "jobid" in route.parameters])
        self._limiter: anyio.CapacityLimiter | None = None

    async def answer(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except NotLeaderError as error:
            response = error_response(503, str(error))
            response.headers["Retry-After"] = "1"
            return response
        except (RegistryError, EngineError, CorruptCheckpointError) as error:
            _log.warning("The request %s %s failed: %s", request.method, request.url.path, error)
            return error_response(500, "Internal server error.", str(error))

    async def _answer(self, request: Request) -> Response:
        path = normalised(request.scope["path"])
        query = dict(request.query_params)
        own = self._own.find(request.method, path)
        if own is not None:
            route, parameters = own
            body = await read_body(request, route.longest)
            call = Call(parameters, query, body, request.headers.get("content-type", ""))
            answer = await self._in_thread(lambda: route.handler(self._state, call))
            return Response(encode(answer), route.status, media_type=JSON)
        body = await read_body(request, LONGEST_BODY)
        dispatcher = self._state.dispatcher
        dispatcher.check_leads()
        entry: JobEntry | None = None
        if (of_job := self._jobs.find(request.method, path)) is not None:
            entry = dispatcher.job(Call(of_job[1], {}, b"").id("jobid"))
        elif request.method == "GET" and (manager := _TASK_MANAGER.fullmatch(path)) is not None:
            entry = dispatcher.job_with_prefix(manager[1])
        if entry is not None:
            target = _Target(request.method, path, query, body)
            answered = await self._in_thread(lambda: self._of_job(entry, target))
            if answered is not None:
                return answered
        return await _captured(self._inner, request.scope, body)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(call, limiter=self._limiter)

    def _of_job(self, entry: JobEntry, target: _Target) -> Response | None:
        """Return the answer of the job's driver, else that of its archive; None = answer as for an unknown job."""
        dispatcher = self._state.dispatcher
        deadline = time.monotonic() + _END_PATIENCE
        while True:
            report = dispatcher.driver(entry)
            if report is None:
                break
            try:
                reply = forward(report, target.method, target.path, target.query, target.body)
                if reply.status == 202 and is_cancel(entry.job_id, target.method, target.path):
                    self._remember_cancel(entry)
                return Response(reply.body, reply.status, media_type=reply.content_type or JSON)
            except OSError as error:
                current = dispatcher.job(entry.job_id)
                if current is None or dispatcher.is_lost(current):
                    break
                if current.status is None:
                    raise RestError(503, f"The driver of job {entry.job_id} does not answer: {error}. Try again.") from error
                # The driver has closed its server and is adding the results of operations to the archive.
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)
        current = dispatcher.job(entry.job_id)
        if current is None:
            return None
        if current.status is not None:
            archive = dispatcher.archive(current)
            found = None if archive is None or target.method != "GET" else archive.find(target.path, target.query)
            if found is not None:
                return Response(found, 200, media_type=JSON)
        return answer_without_driver(dispatcher, current, target.method, target.path, target.query)

    def _remember_cancel(self, entry: JobEntry) -> None:
        """Store that a job is being cancelled: if its driver is killed meanwhile, it must not be started again."""
        try:
            self._state.dispatcher.cancel(entry)
        except (RegistryError, NotLeaderError) as error:
            _log.warning("That job %s is being cancelled could not be stored: %s", entry.job_id, error)


async def _captured(app: ASGIApp, scope: Scope, body: bytes) -> Response:
    """Return the answer of another application to a request whose body was read."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    response = Response(content, sent[0]["status"])
    response.raw_headers = list(sent[0].get("headers", []))
    return response
