"""The server that receives the drivers' reports: a port of its own on 127.0.0.1, and a token for each driver."""

from __future__ import annotations

import logging

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from flinkish.common.errors import RegistryError
from flinkish.server.proof import PROOF_PATH, proof_for, session_secret
from flinkish.server.rest.app import RestApplication, read_body
from flinkish.server.server_settings import is_loopback
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.driver_protocol import REPORT_PATH, Report
from flinkish.server.session.leadership import NotLeaderError

_log = logging.getLogger("flinkish.server.session")

_LONGEST = 100_000


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
        body = await read_body(request, _LONGEST)
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
