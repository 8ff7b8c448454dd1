"""The gate in front of the application: decides which requests are allowed. A refused request reaches no handler."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
import unicodedata
from itertools import chain
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flinkish.server.answers.wire import JSON, encode
from flinkish.server.proof import PROOF_PATH, proof_for
from flinkish.server.rest.calls import RestError
from flinkish.server.server_settings import ServerSettings, is_loopback

#: Paths for probes, which need no token: they say that the server runs, and nothing else. The only others are the page's files.
#: The gate answers these paths itself, so that no route of any table is an exception.
OPEN_PATHS = frozenset({"/health", "/v1/health"})
#: Paths to which a link on another site may lead: the page, which then sends its own requests.
_LINKED_PATHS = frozenset({"/", "/index.html"})
#: Maximum length of a query in bytes: pages request up to some hundred metrics by name.
_LONGEST_QUERY = 16_384
#: Maximum number of headers, and of bytes in all of them. A browser sends about twenty; the longest ones are tokens and cookies.
_MOST_HEADERS, _LONGEST_HEADERS = 100, 32_768
#: Time for a body: this number of seconds, and one more for each of these numbers of bytes.
_BODY_SECONDS, _BODY_RATE = 20.0, 65_536
#: Headers of every answer that does not set them itself. The files of the page set a policy of their own.
_HEADERS = {
    # A browser must not run anything that a log contains.
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
#: Maximum length of a path in bytes.
_LONGEST_PATH = 2_048
#: Maximum length of a file's name on common file systems, in bytes.
_LONGEST_NAME = 255
#: Characters that look like a dot, a slash or a backslash, or that another program may convert to one.
_LOOKALIKES = frozenset(
    "\u2024\u2025\u2026\u2044\u2215\u2216\u29f5\u29f8\u29f9\u3002\uff61\ufe52\ufe68\uff0e\uff0f\uff3c\u2571\u2572"
)
_ENCODED = re.compile(r"%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
#: The ids of task managers have a colon: host:port-digits.
_COLON_OF_PORT = re.compile(r"(?:[^:]{2,}|\[[0-9A-Fa-f:.]+\]):[0-9]+(?:-[0-9A-Za-z]+)?")


class Gate:
    """Checks the token, the path, and the headers that show whether a page of another site sends a request through a browser.

    Without a token, a request must name this machine in the header Host: with DNS rebinding, the header contains the name of the
    other site. An Origin must be the host itself. The token comes as `Authorization: Bearer TOKEN`, or as the password of
    `Basic`, for which browsers can ask. The files of the page, `page_paths`, need no token: they are the same in every
    installation, and a browser cannot send a token before it has loaded the page that asks for it.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, *, page_paths: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._page_paths = page_paths
        self._token = settings.token
        self._open_paths = OPEN_PATHS | ({PROOF_PATH} if settings.proves else frozenset())
        self._names = {"localhost", settings.address.lower(), settings.bind_address.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an allowed request to the application; answer any other with an error."""
        if scope["type"] != "http":
            return
        protected = _protected(send)
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            if scope["path"] == PROOF_PATH and PROOF_PATH in self._open_paths:
                await Response(proof_for(self._token or "", scope), 200)(scope, receive, protected)
            elif scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD"):
                await Response(encode({"status": "ok"}), 200, media_type=JSON)(scope, receive, protected)
            else:
                await self._app(scope, _in_time(receive), protected)
            return
        status, message = refusal
        # The body of a refused request is not read, so the connection must be closed.
        extra = {"Connection": "close"}
        if status == 401:
            extra["WWW-Authenticate"] = 'Basic realm="flinkish", Bearer'
        await Response(encode({"errors": [message]}), status, extra, JSON)(scope, receive, protected)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if any(len(headers.getlist(name)) > 1 for name in ("host", "origin", "authorization", "content-length")):
            return 400, "Bad request: a header that is allowed only once was sent twice."
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may use the other header, and take a part of the body for another request (request smuggling).
            return 400, "Bad request: the request has both Content-Length and Transfer-Encoding."
        if len(headers) > _MOST_HEADERS or sum(map(len, chain(*headers.raw))) > _LONGEST_HEADERS:
            return 431, f"The request has more than {_MOST_HEADERS} headers, or more than {_LONGEST_HEADERS} bytes of them."
        host = _host(headers.get("host", ""))
        if not host or (self._token is None and not (host in self._names or is_loopback(host))):
            return 403, "The header Host does not name this server."
        if _from_other_site(scope, headers):
            return 403, "Requests that pages of other sites send are refused."
        if (
            self._token is not None
            and scope["path"] not in self._open_paths
            and not (scope["method"] == "GET" and scope["path"] in self._page_paths)
            and not self._knows_token(headers.get("authorization", ""))
        ):
            return 401, "This server needs a token: Authorization: Bearer TOKEN."
        why = refused(scope.get("raw_path") or scope["path"].encode())
        if why is not None:
            return 400, f"Bad request: the path is refused: {why}."
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
    """Return whether a browser sends this request for a page of another site."""
    origin = headers.get("origin")
    if origin is not None:
        try:
            return urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
        except ValueError:
            return True
    # A GET of an image or a script has no Origin. Browsers send Sec-Fetch-Site only to this machine and to servers with TLS.
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
    """Return a `receive` that raises RestError 408 if the body does not arrive in time."""
    seconds, begun, whole = _BODY_SECONDS, None, False

    async def within() -> Message:
        nonlocal seconds, begun, whole
        if whole:
            # The body is complete: this call waits for the end of the connection.
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
    """Return a `send` that adds headers by which browsers protect the answer."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers


# -- the rule for paths of requests, which also applies to names of files -------------------------------------------------------


def refused(raw_path: bytes) -> str | None:
    """Return why a path, as it is in the request, is refused; None if it is allowed."""
    if len(raw_path) > _LONGEST_PATH:
        return f"it is longer than {_LONGEST_PATH} bytes"
    try:
        path = unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        return "it is not UTF-8"
    if path.count("/") != raw_path.count(b"/"):
        return "a slash in it is encoded"
    first, *names = path.split("/")
    if first or not names:
        return "it does not begin with a slash"
    if names[-1] == "":
        # One slash at the end is ignored, as in Flink.
        names.pop()
    return next(filter(None, map(refused_name, names)), None)


def refused_name(name: str) -> str | None:
    """Return why a decoded name is refused as the name of a file or as an id in a path; None if it is allowed."""
    if not name:
        return "it has an empty part"
    if len(name.encode(errors="surrogatepass")) > _LONGEST_NAME:
        return f"a part of it is longer than {_LONGEST_NAME} bytes"
    if _ENCODED.search(name):
        return "it is encoded twice"
    if not name.isprintable() or any(character in _LOOKALIKES for character in name):
        return "it has characters that are not allowed"
    for form in (name, unicodedata.normalize("NFKC", name)):
        if "/" in form or "\\" in form or ";" in form or form.startswith("~"):
            return "it has characters that are not allowed"
        if not form.strip(". "):
            return "it has a part of dots"
        if ":" in form and not _COLON_OF_PORT.fullmatch(form):
            return "it has a colon"
    return None
