"""The gate before the application: who may ask, and in which form. Whatever is not allowed here reaches no handler."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from itertools import chain
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flinkish.server.answers.wire import encode
from flinkish.server.rest.calls import RestError
from flinkish.server.rest.paths import refused
from flinkish.server.settings import ServerSettings, is_loopback

_JSON = "application/json; charset=UTF-8"
#: The only paths that answer without a token besides the page's files, for probes: they say that the server runs, and nothing
#: else. The gate itself answers, so that no route of any table is an exception.
OPEN_PATHS = frozenset({"/health", "/v1/health"})
#: Where a link of another site may lead: the page, which then asks for the rest by itself.
_LINKED_PATHS = frozenset({"/", "/index.html"})
#: Most bytes behind the question mark: pages ask for some hundred metrics by name.
_LONGEST_QUERY = 16_384
#: A browser sends some twenty headers; the longest is a token or a cookie of another server of the machine.
_MOST_HEADERS, _LONGEST_HEADERS = 100, 32_768
#: How long a body may take: seconds, and bytes a second in addition.
_BODY_SECONDS, _BODY_RATE = 20.0, 65_536
#: Of every answer, unless it has such a header itself. Pages are files of the server, which set their own policy.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class Gate:
    """Checks the token, the path, and the headers by which a page of another site could use a browser of this machine.

    Without a token, a request must name this machine as its host: a site whose name is made to point to 127.0.0.1 has its own
    name in the header (DNS rebinding). An Origin must be the host itself. The token comes as `Authorization: Bearer TOKEN`, or as
    the password of `Basic`, for which browsers ask. The files of the page, `page_paths`, need no token: they are the
    same in every installation, and a browser cannot send one before it has the page that asks for it.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, *, page_paths: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._page_paths = page_paths
        self._token = settings.token
        self._names = {"localhost", settings.address.lower(), settings.bind_address.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that is allowed; answer the others."""
        if scope["type"] != "http":
            return
        protected = _protected(send)
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            if scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD"):
                await Response(encode({"status": "ok"}), 200, media_type=_JSON)(scope, receive, protected)
            else:
                await self._app(scope, _in_time(receive), protected)
            return
        status, message = refusal
        # The body of a request that is refused is not read, so the connection ends.
        extra = {"Connection": "close"}
        if status == 401:
            extra["WWW-Authenticate"] = 'Basic realm="flinkish", Bearer'
        await Response(encode({"errors": [message]}), status, extra, _JSON)(scope, receive, protected)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if any(len(headers.getlist(name)) > 1 for name in ("host", "origin", "authorization", "content-length")):
            return 400, "Bad request: a header that may come once came twice."
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy before the server may read the other one, and see another request behind the body.
            return 400, "Bad request: the body has two lengths."
        if len(headers) > _MOST_HEADERS or sum(map(len, chain(*headers.raw))) > _LONGEST_HEADERS:
            return 431, f"The request has more than {_MOST_HEADERS} headers, or more than {_LONGEST_HEADERS} bytes of them."
        host = _host(headers.get("host", ""))
        if not host or (self._token is None and not (host in self._names or is_loopback(host))):
            return 403, "The header Host does not name this server."
        if _from_other_site(scope, headers):
            return 403, "Requests of pages of other sites are not answered."
        if (
            self._token is not None
            and scope["path"] not in OPEN_PATHS
            and not (scope["method"] == "GET" and scope["path"] in self._page_paths)
            and not self._knows_token(headers.get("authorization", ""))
        ):
            return 401, "This server needs a token: Authorization: Bearer TOKEN."
        why = refused(scope.get("raw_path") or scope["path"].encode())
        if why is not None:
            return 400, f"Bad request: the path is not looked at: {why}."
        if len(scope["query_string"]) > _LONGEST_QUERY:
            return 414, f"The query is longer than {_LONGEST_QUERY} bytes."
        return None

    def _knows_token(self, header: str) -> bool:
        kind, _, given = header.partition(" ")
        if kind.lower() == "basic":
            given = _password(given)
        elif kind.lower() != "bearer":
            given = ""
        return hmac.compare_digest(given.encode(), (self._token or "").encode())


def _from_other_site(scope: Scope, headers: Headers) -> bool:
    """Tell whether a browser sends this request for a page of another site."""
    origin = headers.get("origin")
    if origin is not None:
        try:
            return urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
        except ValueError:
            return True
    # A GET of an image or a script has no Origin; browsers send this header to servers of this machine and to those with TLS.
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    follows_a_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not (follows_a_link and scope["method"] == "GET" and scope["path"] in _LINKED_PATHS)


def _host(header: str) -> str | None:
    """Return the name in a Host header without its port; None if it is malformed."""
    if any(character in header for character in "@/?#\\, \t"):
        return None
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
        return parts.hostname
    except ValueError:
        return None


def _password(credentials: str) -> str:
    """Return the password of `Basic` credentials; the name before the colon does not matter."""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _in_time(receive: Receive) -> Receive:
    """Return a `receive` that raises RestError 408 if the body takes too long."""
    seconds, begun, whole = _BODY_SECONDS, None, False

    async def within() -> Message:
        nonlocal seconds, begun, whole
        if whole:
            # What is awaited now is the end of the connection.
            return await receive()
        begun = begun or asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(begun + seconds):
                message = await receive()
        except TimeoutError:
            raise RestError(408, "The body of the request did not come in time.") from None
        seconds += len(message.get("body", b"")) / _BODY_RATE
        whole = not message.get("more_body", False)
        return message

    return within


def _protected(send: Send) -> Send:
    """Return a `send` that adds the headers by which browsers protect the answer."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers
