"""The gate before the application: who may ask. Whatever is not allowed here reaches no handler."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from flinkish.server.answers.wire import encode
from flinkish.server.settings import ServerSettings, is_loopback

_JSON = "application/json; charset=UTF-8"
_BEARER = "Bearer "


class Gate:
    """Checks the token, and the headers by which a page of another site could use a browser of this machine.

    Without a token, a request must name this machine as its host: a site whose name is made to point to 127.0.0.1 has its own
    name in the header (DNS rebinding). An Origin must be the host itself.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._token = settings.token
        self._names = {"localhost", settings.address.lower(), settings.bind_address.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that is allowed; answer the others."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, message = refusal
        extra = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        await Response(encode({"errors": [message]}), status, extra, _JSON)(scope, receive, send)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        host = _host(headers.get("host", ""))
        if host is None or (self._token is None and not (host in self._names or is_loopback(host))):
            return 403, "The header Host does not name this server."
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return 403, "Requests of pages of other sites are not answered."
        if self._token is not None and not self._knows_token(headers.get("authorization", "")):
            return 401, "This server needs a token: Authorization: Bearer TOKEN."
        return None

    def _knows_token(self, header: str) -> bool:
        given = header.removeprefix(_BEARER) if header.startswith(_BEARER) else ""
        return hmac.compare_digest(given.encode(), (self._token or "").encode())


def _host(header: str) -> str | None:
    """Return the name in a Host header without its port; None if it is malformed."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
