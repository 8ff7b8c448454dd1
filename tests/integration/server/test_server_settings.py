"""Ports and addresses of the server that are taken, or of another machine."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from flinkish.common.errors import ConfigurationError
from flinkish.server import endpoint
from flinkish.server.endpoint import Endpoint
from flinkish.server.rest.app import make_app
from flinkish.server.server_settings import TOKEN_VARIABLE
from tests.unit.server.asgi import make_state
from tests.unit.server.test_server_settings import read


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def test_ports_are_tried_in_their_order() -> None:
    assert read({"rest.port": "8081"}).ports == (8081,)
    assert read({"rest.port": "8081", "rest.bind-port": "50100-50102, 8090"}).ports == (50100, 50101, 50102, 8090)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = Endpoint(read({"rest.bind-port": f"{port},0"}))
        assert other.listen() != port
        other.close()
        with pytest.raises(ConfigurationError, match=rf"taken by other processes: {port}"):
            Endpoint(read({"rest.port": str(port)})).listen()


def test_an_address_that_is_not_of_this_machine_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot listen on 127\.0\.0\.1:1|cannot listen on 192\.0\.2\.1:0"):
        Endpoint(read({"rest.port": "0", "rest.bind-address": "192.0.2.1", "security.rest.token": "0123456789abcdef"})).listen()


def test_a_server_whose_start_is_interrupted_releases_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> float:
        raise KeyboardInterrupt

    first = Endpoint(read({"rest.port": "0"}))
    port = first.listen()
    monkeypatch.setattr(endpoint, "time", SimpleNamespace(monotonic=interrupt))
    with pytest.raises(KeyboardInterrupt):
        first.serve(make_app(make_state()))

    assert first._thread is not None
    assert not first._thread.is_alive()
    second = Endpoint(read({"rest.port": str(port)}))
    try:
        assert second.listen() == port
    finally:
        second.close()
        first.close()
