"""Requests to a server of this machine that answers with JSON, and servers for tests."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def ask(port: int, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Send text or bytes as they are, other content as JSON; return the status, and the answer as decoded JSON or as text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        content = body if isinstance(body, (str, bytes)) else json.dumps({} if body is None else body)
        connection.request(method, path, content, {"Connection": "close", **(headers or {})})
        response = connection.getresponse()
        answer = response.read()
        is_text = (response.getheader("content-type") or "").startswith("text/plain")
        return response.status, answer.decode() if is_text else json.loads(answer or b"null")
    finally:
        connection.close()


class Asking:
    """Makes requests to the server at its port."""

    port: int

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Send a request as Flink's command line does; return the status and the decoded answer."""
        return ask(self.port, method, path, body, headers)

    def get(self, path: str) -> Any:
        """Return the answer to a GET that must succeed."""
        status, answer = self.ask("GET", path)
        assert status == 200, (path, status, answer)
        return answer


@contextmanager
def replying(reply: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, str, bytes]]) -> Iterator[int]:
    """Answer requests at a port of this machine, which is yielded; `reply` makes status, type and content of request and body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            status, kind, content = reply(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None: ...

    with handled_by(Handler) as port:
        yield port


@contextmanager
def handled_by(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Have a handler answer requests at a port of this machine, which is yielded."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
