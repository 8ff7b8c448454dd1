"""The page: its files, and the application that serves them in front of REST.

The table of files is made once, from this package; a request names an entry of it or none, so no path leads anywhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

#: Kinds of files by their suffix; no other file of the package is served.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    # Everything comes from this server: no inline script or style, no other site, no frame around the page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    # Kept by the browser, but asked for again: a newer server has a newer page.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    content: bytes
    content_type: str
    etag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the files of the page by their path in requests."""
    found: dict[str, PageFile] = {}
    _collect(files(__name__), "/", found)
    found["/"] = found["/index.html"]
    return found


def _collect(folder: Traversable, path: str, found: dict[str, PageFile]) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            _collect(entry, f"{path}{entry.name}/", found)
            continue
        content_type = _TYPES.get(entry.name[entry.name.rfind(".") :])
        if content_type is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
            found[f"{path}{entry.name}"] = PageFile(content, content_type, etag)


class WebPage:
    """Answers GET requests for files of the page; passes all others on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = page_files().get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if file is None:
            await self._app(scope, receive, send)
            return
        headers = {**_HEADERS, "ETag": file.etag}
        if file.etag in Headers(scope=scope).get("if-none-match", ""):
            response = Response(None, 304, headers)
        else:
            response = Response(file.content, 200, {**headers, "Content-Type": file.content_type})
        await response(scope, receive, send)
