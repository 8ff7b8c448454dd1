"""Requests to an application in this process, byte for byte as they are given, without a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from flinkish.common import Configuration
from flinkish.common.clock import SystemClock
from flinkish.server.rest.app import make_app
from flinkish.server.server_settings import server_settings
from flinkish.server.session.app import SessionApplication
from flinkish.server.session.handlers import SessionState
from flinkish.server.state import ServerState


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_error(self) -> bool:
        """Whether the body has Flink's form of errors."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return False
        return isinstance(found, dict) and list(found) == ["errors"] and all(isinstance(text, str) for text in found["errors"])


def make_state(**settings: str) -> ServerState:
    """Return the state of a server without jobs."""
    read = server_settings(Configuration.from_dict({"rest.port": "0", **settings}))
    assert read is not None
    return ServerState(read, SystemClock())


class _Untouchable:
    """A part of a server that no request may reach."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


def untouchable_session(**settings: str) -> ASGIApp:
    """Return the application of a session whose Dispatcher answers nothing: what is not refused before is a status 500."""
    part: Any = _Untouchable()
    return make_app(make_state(**settings), SessionApplication(SessionState(part, None), part))


async def ask_async(
    app: ASGIApp, method: str, target: str | bytes, headers: Iterable[tuple[str, str]] | None = None, body: bytes = b""
) -> Answered:
    raw_path, _, query = (target.encode() if isinstance(target, str) else target).partition(b"?")
    given = [("host", "localhost"), *(headers or ())] if "host" not in dict(headers or ()) else list(headers or ())
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 1),
        "client": ("127.0.0.1", 2),
        "method": method,
        "root_path": "",
        # As uvicorn makes it.
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given],
        "state": {},
    }
    sent: list[Message] = []
    bodies: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return bodies.pop() if bodies else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    begin, *parts = sent
    found = {name.decode(): value.decode("latin-1") for name, value in begin["headers"]}
    return Answered(begin["status"], found, b"".join(part.get("body", b"") for part in parts))


def ask(
    app: ASGIApp, method: str, target: str | bytes, headers: Iterable[tuple[str, str]] | None = None, body: bytes = b""
) -> Answered:
    """Send one request and return the answer."""
    return asyncio.run(ask_async(app, method, target, headers, body))
