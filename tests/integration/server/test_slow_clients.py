"""Clients that are slow on purpose, or too many; requests that are not HTTP."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from flinkish.server.endpoint import Limits
from flinkish.server.rest import trust
from tests.unit.server.support import UNKNOWN, Server, served

HEAD = b"GET /overview HTTP/1.1\r\nHost: localhost\r\n"
# Seconds: a head has time to come even if this process waits for a core for a second.
LIMITS = Limits(connections=20, head=2.0, idle=5, unread=0.6)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(limits=LIMITS) as each:
        yield each


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def read(connection: socket.socket) -> bytes:
    """Return all until the server ends the connection."""
    found = bytearray()
    try:
        while part := connection.recv(65_536):
            found += part
    except ConnectionError:
        pass
    return bytes(found)


def read_one(connection: socket.socket) -> bytes:
    """Return one answer of a connection that stays open."""
    found = b""
    while not found.endswith(b"}"):
        found += connection.recv(65_536)
    return found


def drip(connection: socket.socket, parts: Iterator[bytes]) -> bytes:
    """Send a part each 50 ms until the server answers or ends the connection; return what came."""
    connection.settimeout(0.05)
    deadline = time.monotonic() + 40
    for part in parts:
        assert time.monotonic() < deadline, "the server waits for ever"
        try:
            connection.sendall(part)
            found = connection.recv(65_536)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
        connection.settimeout(60)
        return found + (read(connection) if found else b"")
    raise AssertionError("nothing is left to send")


def test_a_head_that_comes_slowly_is_not_awaited_for_ever(server: Server) -> None:
    with connect(server) as connection:
        answer = drip(connection, (bytes([byte]) for byte in HEAD + b"X-Long: " + b"x" * 1_000))

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b'{"errors":["The request did not come in time."]}')


def test_a_connection_that_says_nothing_ends(server: Server) -> None:
    with connect(server) as connection:
        assert read(connection).startswith(b"HTTP/1.1 408 ")


def test_a_second_head_on_a_connection_has_its_own_deadline(server: Server) -> None:
    with connect(server) as connection:
        for _ in range(5):
            time.sleep(0.5)
            connection.sendall(HEAD + b"\r\n")
            assert read_one(connection).startswith(b"HTTP/1.1 200 ")
        assert read(connection).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_comes_slowly_is_not_awaited_for_ever(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_BODY_SECONDS", 0.5)
    head = f"POST /jobs/{UNKNOWN}/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n".encode()
    with connect(server) as connection:
        connection.sendall(head)
        answer = drip(connection, (b" " for _ in range(900)))

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'{"errors":["The body of the request did not come in time."]}' in answer


def test_the_rest_of_a_body_that_nobody_reads_is_not_awaited_for_ever(server: Server) -> None:
    with connect(server) as connection:
        # A path without a route is answered before its body.
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        assert read_one(connection).startswith(b"HTTP/1.1 404 ")
        assert drip(connection, (b" " for _ in range(900))) == b""


def test_a_client_that_does_not_read_its_answers_is_left(server: Server) -> None:
    with connect(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        deadline = time.monotonic() + 60
        request = f"GET /{'x' * 2_000} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        while time.monotonic() < deadline:
            try:
                connection.sendall(request * 50)
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise AssertionError("the server keeps what nobody reads")


def test_too_many_connections_are_refused_and_come_back_when_others_end(server: Server) -> None:
    held = [connect(server) for _ in range(LIMITS.connections)]
    try:
        with connect(server) as one_more:
            answer = read(one_more)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'{"errors":["The server has too many connections; try again."]}' in answer
    finally:
        for connection in held:
            connection.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with connect(server) as connection:
            connection.sendall(HEAD + b"Connection: close\r\n\r\n")
            if read(connection).startswith(b"HTTP/1.1 200 "):
                return
    raise AssertionError("the server does not recover")


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
        b"GET /overview HTTP/1.1\r\n\r\n",
        b"GET /overview HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /over view HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        HEAD + b"".join(b"X-%d: x\r\n" % number for number in range(10_000)) + b"\r\n",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length: -2\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        HEAD + b"Folded: a\r\n b\r\nAuthorization : x\r\n\r\n",
    ],
)
def test_what_is_not_a_request_is_refused_in_the_form_of_errors(server: Server, request_: bytes) -> None:
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request_)
        answer = read(connection)

    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 ", b"HTTP/1.1 501 ")), answer[:100]
    assert b'{"errors":[' in answer


def test_answers_on_a_connection_that_stays_open_are_not_held_back(server: Server) -> None:
    with connect(server) as connection:

        def took() -> float:
            begun = time.perf_counter()
            connection.sendall(HEAD + b"\r\n")
            read_one(connection)
            return time.perf_counter() - begun

        took()
        # Without TCP_NODELAY, all but the first take the 40 ms of a delayed acknowledgement.
        assert any(took() < 0.03 for _ in range(200))


def test_an_upgrade_is_not_offered(server: Server) -> None:
    with connect(server) as connection:
        upgrade = b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
        connection.sendall(HEAD + b"Connection: Upgrade\r\n" + upgrade + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
