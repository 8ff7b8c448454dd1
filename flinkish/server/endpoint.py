"""The listening server: uvicorn in a thread of its own."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time

import uvicorn
from starlette.types import ASGIApp

from flinkish.common.errors import ConfigurationError, EngineError
from flinkish.server.protocol import Limits, protocol_class
from flinkish.server.server_settings import ServerSettings, is_loopback

_log = logging.getLogger("flinkish.server")

#: How long starting and stopping may take, in seconds.
_PATIENCE = 10


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
        """Start to answer requests in a thread; raises EngineError if the server does not start within 10 s."""
        assert self._socket is not None, "serve before listen"
        config = uvicorn.Config(
            app,
            http=protocol_class(self._limits),
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
        deadline = time.monotonic() + _PATIENCE
        while not server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise EngineError(f"the server did not start within {_PATIENCE} s")
            time.sleep(0.005)

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
