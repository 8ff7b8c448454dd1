"""The HTTP application: finds the route of a request, calls its handler, and answers in Flink's form.

Every request passes the gate (`trust.py`) first, because the gate wraps the whole application.
"""

from __future__ import annotations

import logging

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from flinkish.common.redaction import redact
from flinkish.server.answers.wire import Errors, encode
from flinkish.server.rest.calls import Answer, Call, JobCall, RestError, Text
from flinkish.server.rest.recent import RecentAnswers
from flinkish.server.rest.routes import ROUTES, JobRoute, ServerRoute
from flinkish.server.rest.trust import Gate
from flinkish.server.state import ServerState
from flinkish.server.web import WebPage, page_files

_log = logging.getLogger("flinkish.server")

JSON = "application/json; charset=UTF-8"
#: Maximum length of a body in bytes: requests are small JSON objects.
_LONGEST_BODY = 1_000_000
#: Paths that open pages request repeatedly. /jobs/:jobid/status is not one of them, so it is always current.
_REPEATED = frozenset(
    {
        "/overview",
        "/jobs/overview",
        "/jobs/:jobid",
        "/jobs/:jobid/checkpoints",
        "/jobs/:jobid/exceptions",
        "/jobs/:jobid/metrics",
        "/jobs/:jobid/vertices/:vertexid",
        "/jobs/:jobid/vertices/:vertexid/backpressure",
        "/jobs/:jobid/vertices/:vertexid/metrics",
        "/jobs/:jobid/vertices/:vertexid/subtasks/metrics",
        "/jobs/:jobid/vertices/:vertexid/watermarks",
    }
)


def make_app(state: ServerState) -> ASGIApp:
    """Return the application."""
    return Gate(WebPage(_Application(state)), state.settings, page_paths=frozenset(page_files()))


def make_ungated_app(state: ServerState) -> ASGIApp:
    """Return the application without the gate, for another application behind a gate of its own."""
    return _Application(state)


class _Application:
    def __init__(self, state: ServerState) -> None:
        self._state = state
        # Wrong methods and errors are answered as in Flink, so only the path patterns of Starlette's routing are used.
        self._routes = [(route, compile_path(starlette_path(route.path))[0]) for route in ROUTES]
        self._recent = RecentAnswers(state.clock, state.settings.refresh_interval)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        target = f"{scope['path']}?{scope['query_string'].decode('latin-1')}"
        if request.method != "GET":
            self._recent.forget()
        elif (recent := self._recent.find(target)) is not None:
            await Response(recent, 200, media_type=JSON)(scope, receive, send)
            return
        try:
            route, call = await self._find(request)
            answer = self._call(route, call)
            if isinstance(answer, Text):
                # Plain text without sniffing: a browser must not run anything that a log contains.
                headers = {"X-Content-Type-Options": "nosniff"}
                response = Response(answer.text, route.status, headers, "text/plain; charset=UTF-8")
            else:
                content = encode(answer)
                if route.method == "GET" and route.path in _REPEATED:
                    self._recent.keep(target, content)
                response = Response(content, route.status, media_type=JSON)
        except RestError as error:
            response = error_response(error.status, *error.messages)
        except ClientDisconnect:
            return
        except Exception as error:
            # The text of the error may contain paths or values, so it goes only to the log.
            _log.exception("The request %s %s failed.", request.method, request.url.path)
            response = error_response(500, "Internal server error.", f"{type(error).__name__}: see the log of the server.")
        await response(scope, receive, send)

    async def _find(self, request: Request) -> tuple[ServerRoute | JobRoute, Call]:
        """Return the route of a request and the call for its handler; raises RestError 404 if there is no route."""
        path = normalised(request.scope["path"])
        for route, pattern in self._routes:
            found = pattern.match(path)
            if found is not None and request.method == route.method:
                return route, Call(found.groupdict(), dict(request.query_params), await _body(request))
        raise RestError(404, f"Unable to load requested file {path}." if request.method == "GET" else f"Not found: {path}")

    def _call(self, route: ServerRoute | JobRoute, call: Call) -> Answer:
        if isinstance(route, ServerRoute):
            return route.handler(self._state, call)
        job_id = call.id("jobid")
        job = self._state.jobs.get(job_id)
        if job is not None:
            return route.handler(JobCall(call, job, job.view()))
        if route.unknown == 200:
            return []
        raise RestError(route.unknown, *(["Internal server error."] if route.unknown == 500 else []), f"Job {job_id} not found")


def error_response(status: int, *messages: str) -> Response:
    """Return an error in the form that Flink's clients expect."""
    return Response(encode(Errors(errors=tuple(redact(message) for message in messages))), status, media_type=JSON)


def normalised(path: str) -> str:
    """Return a path without the version prefix `/v1` and without a trailing slash."""
    if path == "/v1" or path.startswith("/v1/"):
        path = path[3:]
    return path.rstrip("/") or "/"


def starlette_path(path: str) -> str:
    return "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in path.split("/"))


async def _body(request: Request) -> bytes:
    """Read the body; raises RestError 413 if it is too long. Flink's command line sends a body with GET, too; it is ignored."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_BODY:
            raise RestError(413, f"The body of the request is longer than {_LONGEST_BODY} bytes.")
    return b"" if request.method == "GET" else bytes(body)
