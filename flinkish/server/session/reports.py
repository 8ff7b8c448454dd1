"""The server that receives the drivers' reports: a port of its own on 127.0.0.1, and a token for each driver."""

from __future__ import annotations

import logging

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from flinkish.common.errors import RegistryError
from flinkish.server.proof import PROOF_PATH, proof_for, session_secret
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.leadership import NotLeaderError
from flinkish.server.session.wire import REPORT_PATH, Report
from flinkish.server.settings import is_loopback

_log = logging.getLogger("flinkish.server.session")

_LONGEST = 100_000


class ReportsApp:
    """Answers reports by status: 200 = accepted, 409 = the driver must end, 503 = ask another Dispatcher, 500 = try again."""

    def __init__(self) -> None:
        #: Set before the first driver is started.
        self.dispatcher: Dispatcher | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a report, or prove that this is a Dispatcher of the session; everything else is a 404."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if scope["path"] == PROOF_PATH and self.dispatcher is not None:
            secret = session_secret(self.dispatcher.settings.key)
            await Response(proof_for(secret, scope))(scope, receive, send)
            return
        try:
            status = await self._status(request)
        except ClientDisconnect:
            return
        except Exception:
            _log.exception("A driver's report could not be processed.")
            status = 500
        await Response(b"", status)(scope, receive, send)

    async def _status(self, request: Request) -> int:
        dispatcher = self.dispatcher
        if request.method != "POST" or request.url.path != REPORT_PATH or dispatcher is None:
            return 404
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LONGEST:
                return 413
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            report = msgspec.json.decode(bytes(body), type=Report)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return 400
        if not is_loopback(report.host) or not 0 < report.port < 65_536:
            # Clients' requests are forwarded to this address with the driver's token, so it must be on this machine.
            _log.warning("A report of job %s names a driver that is not on this machine.", report.job_id)
            return 400
        try:
            taken = await anyio.to_thread.run_sync(dispatcher.report, report, token)
        except NotLeaderError:
            return 503
        except (RegistryError, OSError) as error:
            _log.warning("The report of job %s could not be stored: %s", report.job_id, error)
            return 500
        return 200 if taken else 409
