"""The HTTP applications of a Dispatcher.

One is for clients: it answers the session's own routes, forwards all paths about a job to the job's driver, and answers from the
archive of a job that has ended, or from the registry for a job without a driver. The other one takes the drivers' reports: a port
of its own on 127.0.0.1, and a token for each driver.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from flinkish.common.errors import CorruptCheckpointError, EngineError, RegistryError
from flinkish.server.answers import jobs as answers
from flinkish.server.answers.wire import JSON, encode
from flinkish.server.proof import PROOF_PATH, proof_for, session_secret
from flinkish.server.rest.app import LONGEST_BODY, Application, RestApplication, RouteTable, error_response, normalised, read_body
from flinkish.server.rest.calls import Call, RestError
from flinkish.server.rest.routes import ROUTES
from flinkish.server.server_settings import is_loopback
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.driver_protocol import REPORT_PATH, Report
from flinkish.server.session.drivers import forward
from flinkish.server.session.entries import JobEntry
from flinkish.server.session.handlers import SESSION_ROUTES, SessionState
from flinkish.server.session.launch import StartError
from flinkish.server.session.leadership import NotLeaderError
from flinkish.server.views import jobs

T = TypeVar("T")

_log = logging.getLogger("flinkish.server.session")

#: The id of a task manager ends with the first digits of its job's id.
_TASK_MANAGER = re.compile(r"/taskmanagers/[^/]*-([0-9a-f]{6})(?:/.*)?")
#: Requests that wait for drivers or the storage at the same time.
_THREADS = 64
#: How long a request waits for a driver that is ending, so that the archive is complete, in seconds.
_END_PATIENCE = 15.0
#: Maximum size of a report in bytes.
_LONGEST_REPORT = 100_000


@dataclass(frozen=True, slots=True)
class _Target:
    """A request to forward."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes


class SessionApplication(RestApplication):
    """Answers clients; `inner` answers requests that are neither about the session nor about a known job."""

    def __init__(self, state: SessionState, inner: Application) -> None:
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
        except StartError as error:
            return error_response(500, str(error))
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
        dispatcher.leadership.leading()
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
        return await self._inner.answer(request, body)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(call, limiter=self._limiter)

    def _of_job(self, entry: JobEntry, target: _Target) -> Response | None:
        """Return the answer of the job's driver, else from its archive; None = answer as for an unknown job."""
        dispatcher = self._state.dispatcher
        deadline = time.monotonic() + _END_PATIENCE
        while True:
            report = dispatcher.driver(entry)
            if report is None:
                break
            try:
                reply = forward(report, target.method, target.path, target.query, target.body)
                if reply.status == 202 and _is_cancel(entry.job_id, target):
                    dispatcher.note_cancel(entry)
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
        return _answer_without_driver(dispatcher, current, target)


def _is_cancel(job_id: str, target: _Target) -> bool:
    """Return whether a request is about cancelling a job; its query may ask for something else."""
    if target.path == f"/jobs/{job_id}":
        return target.method != "GET"
    return target.path in (f"/jobs/{job_id}/yarn-cancel", f"/applications/{job_id}/cancel")


def _answer_without_driver(dispatcher: Dispatcher, entry: JobEntry, target: _Target) -> Response | None:
    """Return the answer; None = answer as for an unknown job. Raises RestError 503 while the driver is being started again."""
    restarting = RestError(503, f"The driver of job {entry.job_id} is being started again. Try again in a moment.")
    if _is_cancel(entry.job_id, target):
        return _cancel(dispatcher, entry, target.query)
    if target.method != "GET":
        if entry.status is None:
            # An operation that was accepted here would be unknown to the next driver, which is asked for its result.
            raise restarting
        # As for an unknown job: the operation is accepted, and its result is a failure.
        return None
    found = _answers(dispatcher, entry).get(target.path)
    if found is not None:
        return Response(encode(found), 200, media_type=JSON)
    if entry.status is None:
        raise restarting
    return None


def _cancel(dispatcher: Dispatcher, entry: JobEntry, query: Mapping[str, str]) -> Response:
    if query.get("mode", "cancel") != "cancel":
        raise RestError(400, "Bad request, could not parse parameters: query parameter (mode) is not a mode of cancelling.")
    if entry.status in ("FINISHED", "FAILED"):
        raise RestError(409, f"Job cancellation failed: the job has already reached the terminal state {entry.status}.")
    if entry.status is None:
        dispatcher.cancel(entry)
    return Response(b"{}", 202, media_type=JSON)


def _answers(dispatcher: Dispatcher, entry: JobEntry) -> dict[str, Any]:
    job = dispatcher.summary(entry)
    entered = {"CREATED": job.start_time} | ({} if entry.status is None else {entry.status: job.end_time})
    plan = answers.Plan(jid=entry.job_id, name=job.name, type=job.jobType, nodes=())
    failure = answers.ExceptionInfo(
        exceptionName="JobExecutionError",
        stacktrace=f"JobExecutionError: {entry.failure}",
        timestamp=job.end_time,
        failureLabels={},
        concurrentExceptions=(),
    )
    failures = () if entry.failure is None else (failure,)
    why = entry.failure or (f"Job {entry.job_id} was cancelled." if entry.status == "CANCELED" else "its driver was lost.")
    path = f"/jobs/{entry.job_id}"
    return {
        path: jobs.info_of(job, now=job.start_time + job.duration, entered=entered, plan=plan),
        f"{path}/status": answers.JobStatusInfo(status=job.state),
        f"{path}/plan": answers.JobPlan(plan=plan),
        f"{path}/exceptions": answers.JobExceptions(
            exceptionHistory=answers.ExceptionHistoryInfo(entries=failures, truncated=False)
        ),
        f"{path}/execution-result": jobs.result_of(job, None if entry.status == "FINISHED" else ("JobExecutionError", why)),
    }


class ReportsApp(RestApplication):
    """Answers reports by status: 200 = accepted, 409 = the driver must end, 503 = ask another Dispatcher, 500 = try again."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def answer(self, request: Request) -> Response:
        """Answer a report, or prove that this is a Dispatcher of the session; everything else is a 404."""
        if request.scope["path"] == PROOF_PATH:
            return Response(proof_for(session_secret(self._dispatcher.settings.key), request.scope))
        return Response(b"", await self._status(request))

    async def _status(self, request: Request) -> int:
        if request.method != "POST" or request.url.path != REPORT_PATH:
            return 404
        body = await read_body(request, _LONGEST_REPORT)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            report = msgspec.json.decode(body, type=Report)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return 400
        if not is_loopback(report.host) or not 0 < report.port < 65_536:
            # Clients' requests are forwarded to this address with the driver's token, so it must be on this machine.
            _log.warning("A report of job %s names a driver that is not on this machine.", report.job_id)
            return 400
        try:
            taken = await anyio.to_thread.run_sync(self._dispatcher.report, report, token)
        except NotLeaderError:
            return 503
        except (RegistryError, OSError) as error:
            _log.warning("The report of job %s could not be stored: %s", report.job_id, error)
            return 500
        return 200 if taken else 409
