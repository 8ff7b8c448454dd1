"""The settings of the server: ports, addresses, the token; and wrong ones."""

from __future__ import annotations

import pytest

from flinkish.common import Configuration
from flinkish.common.errors import ConfigurationError
from flinkish.server.server_settings import TOKEN_VARIABLE, ServerSettings, server_settings


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def read(values: dict[str, str]) -> ServerSettings:
    found = server_settings(Configuration.from_dict(values))
    assert found is not None
    return found


def test_without_a_port_there_is_no_server() -> None:
    assert server_settings(Configuration()) is None
    assert server_settings(Configuration.from_dict({"rest.address": "here"})) is None


@pytest.mark.parametrize("ports", ["", "x", "2-1", "70000", "1-99999", "-1", "1;2"])
def test_wrong_ports_are_refused(ports: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rest\.bind-port"):
        read({"rest.bind-port": ports})


def test_an_address_that_others_reach_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"0\.0\.0\.0 can be reached from other machines"):
        read({"rest.port": "0", "rest.bind-address": "0.0.0.0"})
    monkeypatch.setenv(TOKEN_VARIABLE, "0123456789abcdef")
    found = read({"rest.port": "0", "rest.bind-address": "0.0.0.0"})
    assert found.token == "0123456789abcdef"
    assert "0123456789abcdef" not in repr(found)
    for local in ("127.0.0.1", "127.0.0.5", "localhost", "::1"):
        assert read({"rest.port": "0", "rest.bind-address": local}).bind_address == local


def test_a_short_token_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="shorter than 16") as caught:
        read({"rest.port": "0", "security.rest.token": "hush-hush"})
    assert "hush-hush" not in str(caught.value)


def test_secrets_are_hidden_where_all_settings_are_shown() -> None:
    found = read({"rest.port": "0", "security.rest.token": "0123456789abcdef", "s3.secret-key": "hush", "s3.access-key": "a"})

    assert "hush" not in str(found.shown)
    assert "0123456789abcdef" not in str(found.shown)
    assert ("rest.port", "0") in found.shown
