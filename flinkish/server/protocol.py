"""HTTP/1.1 by uvicorn and h11, with limits against clients that are slow on purpose.

uvicorn closes connections that are idle after an answer. It has no deadline for the head of a request, for the rest of a body
that the server does not read, or for a client that does not read its answer. These deadlines are here. The deadline for a body
that the server reads is in `rest/trust.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from flinkish.server.answers.wire import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of connections; durations are seconds."""

    #: Maximum number of connections at a time; a browser opens up to six.
    connections: int = 512
    #: Time from the start of a connection, or from the end of an answer, to the end of the next request's head.
    head: float = 15.0
    #: How long a connection may be idle after an answer; pages and the command line send the next request within 3 s.
    idle: int = 10
    #: How long a client may leave its answer unread.
    unread: float = 30.0
    #: Maximum number of bytes of an incomplete request line with its headers; the gate has further limits.
    head_bytes: int = 32_768


class GuardedProtocol(H11Protocol):
    """One connection."""

    limits: ClassVar[Limits] = Limits()
    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "The server has too many connections; try again.")
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._head_timer)
        _cancel(self._unread_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # A connection that was refused or is too slow is being closed; what still comes is not looked at.
        if not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            _cancel(self._head_timer)

    def on_response_complete(self) -> None:
        self._await_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self.limits.unread, self.transport.abort)

    def resume_writing(self) -> None:
        _cancel(self._unread_timer)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP, or whose head is too long."""
        self._refuse(400, "Bad request: the request is not HTTP/1.1, or its line and headers are too long.")

    def _await_head(self) -> None:
        """Give the client `limits.head` seconds for the head of a request, even if it keeps sending parts of it."""
        _cancel(self._head_timer)
        if not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.limits.head, self._too_slow)

    def _too_slow(self) -> None:
        self._refuse(408, "The request did not come in time.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error in Flink's form, if no answer has begun, and close the connection."""
        if self.transport.is_closing():
            return
        body = encode({"errors": [message]})
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json; charset=UTF-8\r\n"
            self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.transport.close()


def protocol_class(limits: Limits) -> type[GuardedProtocol]:
    """Return a connection class with these limits."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
