"""Dispatchers and drivers send their tokens only to one that has proved who it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.responses import Response

from flinkish.common import Configuration
from flinkish.server.endpoint import Endpoint
from flinkish.server.proof import ask, proof
from flinkish.server.rest.trust import Gate
from flinkish.server.server_settings import ServerSettings
from flinkish.server.session.driver_protocol import Report
from flinkish.server.session.drivers import forward
from flinkish.server.session.reporter import driver_settings
from tests.kit import http
from tests.kit.http import replying

TOKEN, SECRET = "of-the-driver-1234", "of-the-session"


@contextmanager
def listening(answer: Callable[[int, str], str]) -> Iterator[tuple[int, list[str]]]:
    """Listen on a port, and answer requests for a proof from port and nonce; yield the port and all that was received."""
    seen: list[str] = []

    def reply(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, str, bytes]:
        seen.append(f"{request.command} {request.path} {request.headers} {body.decode()}")
        nonce = parse_qs(urlsplit(request.path).query).get("nonce", [""])[0]
        return 200, "text/plain", answer(request.server.server_address[1], nonce).encode()

    with replying(reply) as port:
        yield port, seen


@pytest.mark.parametrize(
    "answer",
    [
        lambda port, nonce: "",
        lambda port, nonce: proof("another", port, nonce),
        # The proof of a Dispatcher on another port, passed on.
        lambda port, nonce: proof(SECRET, port + 1, nonce),
        lambda port, nonce: proof(SECRET, port, "earlier"),
    ],
)
def test_who_holds_the_port_of_a_dispatcher_that_has_died_gets_neither_token_nor_report(
    answer: Callable[[int, str], str],
) -> None:
    with listening(answer) as (port, seen):
        with pytest.raises(OSError, match="not of this session"):
            ask(f"127.0.0.1:{port}", "POST", "/report", token=TOKEN, secret=SECRET, body=b"the report")
        assert len(seen) == 1
        assert TOKEN not in seen[0]
        assert "the report" not in seen[0]


def test_the_token_follows_the_proof() -> None:
    with listening(lambda port, nonce: proof(SECRET, port, nonce)) as (port, seen):
        assert ask(f"127.0.0.1:{port}", "POST", "/report", token=TOKEN, secret=SECRET, body=b"it").status == 200
    assert TOKEN not in seen[0]
    assert TOKEN in seen[1]


def _report(port: int, token: str) -> Report:
    return Report(job_id="j", driver_id="d", pid=1, created=1.0, host="127.0.0.1", port=port, token=token)


def test_who_holds_the_port_of_a_driver_that_has_died_does_not_get_its_token() -> None:
    with listening(lambda port, nonce: "") as (port, seen):
        with pytest.raises(OSError, match="not of this session"):
            forward(_report(port, TOKEN), "PATCH", "/jobs/j", {}, b"{}")
        assert TOKEN not in "".join(seen)


@contextmanager
def serving(settings: ServerSettings) -> Iterator[int]:
    endpoint = Endpoint(settings)
    port = endpoint.listen()
    endpoint.serve(Gate(Response(b"it"), settings))
    try:
        yield port
    finally:
        endpoint.close()


def test_a_driver_proves_that_it_knows_its_token() -> None:
    settings = driver_settings(Configuration())
    with serving(settings) as port:
        assert forward(_report(port, settings.token or ""), "GET", "/jobs", {}, b"").body == b"it"
        with pytest.raises(OSError, match="not of this session"):
            forward(_report(port, TOKEN), "GET", "/jobs", {}, b"")


def test_a_server_whose_token_a_person_has_chosen_gives_no_proofs_with_which_to_try_tokens() -> None:
    with serving(replace(driver_settings(Configuration()), proves=False)) as port:
        assert http.ask(port, "GET", "/proof?nonce=a")[0] == 401
