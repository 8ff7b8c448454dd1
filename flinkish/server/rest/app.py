"""The HTTP application: finds the route of a request, calls its handler, and answers in Flink's form.

Every request passes the gate (`trust.py`) first, because the gate wraps the whole application.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from flinkish.common.clock import Clock
from flinkish.common.redaction import redact
from flinkish.server.answers.wire import JSON, Errors, encode
from flinkish.server.rest.calls import Answer, Call, JobCall, RestError
from flinkish.server.rest.routes import ROUTES, JobRoute, Route, ServerRoute
from flinkish.server.rest.trust import Gate
from flinkish.server.state import ServerState
from flinkish.server.web import WebPage, page_files

R = TypeVar("R", bound=Route)

_log = logging.getLogger("flinkish.server")

#: Maximum length of a body in bytes: requests are small JSON objects.
LONGEST_BODY = 1_000_000
#: Requests per second from which on the cache is used: as many as 25 pages send.
BUSY = 50
#: Maximum age of an answer from the cache, in milliseconds; it is also limited by web.refresh-interval.
_OLDEST = 1_000
#: Maximum number of answers in the cache, and of bytes in one of them.
_MOST, _LONGEST = 256, 262_144


def make_app(state: ServerState, app: ASGIApp | None = None) -> ASGIApp:
    """Return the application of a server, behind the gate; `app` = answer by this instead of the table of routes."""
    return Gate(WebPage(app or Application(state)), state.settings, page_paths=frozenset(page_files()))


class RestApplication:
    """Answers requests by `answer`, and with errors in Flink's form."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self.answer(request)
        except RestError as error:
            response = error_response(error.status, *error.messages)
        except ClientDisconnect:
            return
        except Exception as error:
            # The text of the error may contain paths or values, so it goes only to the log.
            _log.exception("The request %s %s failed.", request.method, request.url.path)
            response = error_response(500, "Internal server error.", f"{type(error).__name__}: see the log of the server.")
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request; raises RestError to refuse it."""
        raise NotImplementedError


class Application(RestApplication):
    """Answers by the table of routes."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._routes = RouteTable(ROUTES)
        self._recent = RecentAnswers(state.clock, state.settings.refresh_interval)

    async def answer(self, request: Request, body: bytes | None = None) -> Response:
        """Return the answer; `body` is that of the request if it has been read already."""
        target = f"{request.scope['path']}?{request.scope['query_string'].decode('latin-1')}"
        if request.method != "GET":
            self._recent.forget()
        elif (recent := self._recent.find(target)) is not None:
            return Response(recent, 200, media_type=JSON)
        path = normalised(request.scope["path"])
        found = self._routes.find(request.method, path)
        if found is None:
            raise RestError(404, f"Unable to load requested file {path}." if request.method == "GET" else f"Not found: {path}")
        route, parameters = found
        if body is None:
            body = await read_body(request, LONGEST_BODY)
        call = Call(parameters, dict(request.query_params), body)
        answer = self._call(route, call)
        if isinstance(answer, str):
            return Response(answer, route.status, media_type="text/plain; charset=UTF-8")
        content = encode(answer)
        if route.repeated:
            self._recent.keep(target, content)
        return Response(content, route.status, media_type=JSON)

    def _call(self, route: ServerRoute | JobRoute, call: Call) -> Answer:
        job_id = call.id("jobid") if "jobid" in call.path else ""
        if isinstance(route, ServerRoute):
            return route.handler(self._state, call)
        job = self._state.jobs.get(job_id)
        if job is not None:
            return route.handler(JobCall(call.path, call.query, call.body, job=job, view=job.view()))
        if route.unknown == 200:
            return []
        raise RestError(route.unknown, *(["Internal server error."] if route.unknown == 500 else []), f"Job {job_id} not found")


class RecentAnswers:
    """A cache of recent answers by path and query, used only while many clients send requests; used by one thread only.

    Pages request the same paths every few seconds. Under load, one view of a job serves all of them, as in Flink, where answers
    are up to web.refresh-interval old. Unlike in Flink, a few clients always get a new answer.
    """

    def __init__(self, clock: Clock, refresh_interval: int) -> None:
        self._clock = clock
        self._oldest = min(_OLDEST, refresh_interval)
        self._kept: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._second = 0
        #: Requests in this second, and in the one before.
        self._now = self._before = 0

    def find(self, target: str) -> bytes | None:
        """Return a recent answer; None if there is none, or if there are few requests. Counts the request."""
        now = self._clock.monotonic()
        second = now // 1_000
        if second != self._second:
            self._before = self._now if second == self._second + 1 else 0
            self._second, self._now = second, 0
        self._now += 1
        if max(self._before, self._now) < BUSY:
            return None
        at, content = self._kept.get(target, (now - self._oldest, b""))
        return content if now - at < self._oldest else None

    def keep(self, target: str, content: bytes) -> None:
        """Add an answer to the cache, unless it is too long."""
        if len(content) <= _LONGEST:
            self._kept[target] = self._clock.monotonic(), content
            self._kept.move_to_end(target)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Clear the cache, because a request may have changed something."""
        self._kept.clear()


class RouteTable(Generic[R]):
    """Finds routes. Wrong methods are answered as in Flink, so only the path patterns of Starlette's routing are used."""

    def __init__(self, routes: Iterable[R]) -> None:
        self._routes = [(route, compile_path(route.template)[0]) for route in routes]

    def find(self, method: str, path: str) -> tuple[R, dict[str, str]] | None:
        """Return the first route of a method and a path, and the parameters in the path; None if there is none."""
        for route, pattern in self._routes:
            found = pattern.match(path)
            if found is not None and method == route.method:
                return route, found.groupdict()
        return None


def error_response(status: int, *messages: str) -> Response:
    """Return an error in the form that Flink's clients expect."""
    return Response(encode(Errors(errors=tuple(redact(message) for message in messages))), status, media_type=JSON)


def normalised(path: str) -> str:
    """Return a path without the version prefix `/v1` and without a trailing slash."""
    if path == "/v1" or path.startswith("/v1/"):
        path = path[3:]
    return path.rstrip("/") or "/"


async def read_body(request: Request, longest: int) -> bytes:
    """Read the body; raises RestError 413 if it is too long. Flink's command line sends a body with GET, too; it is ignored."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > longest:
            raise RestError(413, f"The body of the request is longer than {longest} bytes.")
    return b"" if request.method == "GET" else bytes(body)
