"""The listening server: uvicorn and h11 in a thread of their own, with limits against clients that are slow on purpose.

uvicorn closes connections that are idle after an answer. It has no deadline for the head of a request, for the rest of a body
that the server does not read, or for a client that does not read its answer. These deadlines are here. The deadline for a body
that the server reads is in `rest/trust.py`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from flinkish.common.errors import ConfigurationError, EngineError
from flinkish.server.answers.wire import JSON, encode
from flinkish.server.server_settings import ServerSettings, is_loopback

_log = logging.getLogger("flinkish.server")

#: How long starting and stopping may take, in seconds.
_PATIENCE = 10


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


class _GuardedProtocol(H11Protocol):
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
            self._head_timer = self.loop.call_later(self.limits.head, self._refuse, 408, "The request did not come in time.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error in Flink's form, if no answer has begun, and close the connection."""
        if self.transport.is_closing():
            return
        body = encode({"errors": [message]})
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = f"HTTP/1.1 {status} Refused\r\nContent-Type: {JSON}\r\n"
            self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class Endpoint:
    """A server on one port, from `listen` to `close`."""

    def __init__(self, settings: ServerSettings, limits: Limits | None = None) -> None:
        """Make a server that does not listen yet; raises ConfigurationError if its certificate cannot be used."""
        self._settings = settings
        self._limits = limits or Limits()
        self._tls = None if settings.tls is None else settings.tls.context()
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def listen(self) -> int:
        """Take the first free port and return it; raises ConfigurationError if there is none."""
        settings = self._settings
        family = socket.AF_INET6 if ":" in settings.bind_address else socket.AF_INET
        for port in settings.ports:
            # asyncio sets TCP_NODELAY only on sockets whose protocol is named; without it, each answer on a connection that stays
            # open takes 40 ms.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((settings.bind_address, port))
            except OSError as error:
                listener.close()
                if error.errno != errno.EADDRINUSE:
                    raise ConfigurationError(
                        f"the server cannot listen on {settings.bind_address}:{port}: {error.strerror}"
                    ) from error
                continue
            self._socket = listener
            if settings.tls is None and not is_loopback(settings.bind_address):
                _log.warning(
                    "Other machines reach the server by plain HTTP, so the token can be read on the network; set "
                    "security.ssl.rest.enabled, or let the server listen on 127.0.0.1 behind a proxy with TLS."
                )
            return int(listener.getsockname()[1])
        ports = ", ".join(map(str, settings.ports[:5])) + (", ..." if len(settings.ports) > 5 else "")
        raise ConfigurationError(
            f"the server cannot listen on {settings.bind_address}: all its ports are taken by other processes: {ports}",
            hint="set rest.bind-port to a range such as 8081-8099, or rest.port to 0 for any free port.",
        )

    def serve(self, app: ASGIApp) -> None:
        """Start to answer requests in a thread; if the server does not start within 10 s, close it and raise EngineError."""
        assert self._socket is not None, "serve before listen"
        config = uvicorn.Config(
            app,
            http=type("LimitedProtocol", (_GuardedProtocol,), {"limits": self._limits}),
            ws="none",
            loop="asyncio",
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            # Headers of proxies are not trusted, and not needed: nothing here depends on the address of the client.
            proxy_headers=False,
            timeout_keep_alive=self._limits.idle,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=self._limits.head_bytes,
        )
        config.load()
        # uvicorn would make a context of files; this one exists already, and its errors were raised by __init__.
        config.ssl = self._tls
        self._server = server = uvicorn.Server(config)
        # Off the main thread, uvicorn leaves signals alone.
        self._thread = threading.Thread(target=server.run, args=([self._socket],), name="flinkish-rest", daemon=True)
        self._thread.start()
        try:
            deadline = time.monotonic() + _PATIENCE
            while not server.started:
                if not self._thread.is_alive() or time.monotonic() > deadline:
                    raise EngineError(f"the server did not start within {_PATIENCE} s")
                time.sleep(0.005)
        except BaseException:
            # Also after Ctrl-C: a further try, as in a notebook, finds the port free.
            self.close()
            raise

    def close(self) -> None:
        """Stop the server and release the port."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_PATIENCE)
            if self._thread.is_alive():
                _log.warning("The server did not stop within %d s; its thread is left running.", _PATIENCE)
        if self._socket is not None:
            self._socket.close()
