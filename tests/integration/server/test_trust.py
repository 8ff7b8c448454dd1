"""A server warns of an address that others reach by plain HTTP."""

from __future__ import annotations

import logging

import pytest

from flinkish.server.endpoint import Endpoint
from tests.unit.server.asgi import make_state
from tests.unit.server.test_trust import TOKEN


def test_an_address_that_others_reach_by_plain_http_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def warned(**given: str) -> bool:
        caplog.clear()
        endpoint = Endpoint(make_state(**given).settings)
        with caplog.at_level(logging.WARNING, logger="flinkish.server"):
            endpoint.listen()
        endpoint.close()
        return "plain HTTP" in caplog.text

    assert warned(**{"rest.bind-address": "0.0.0.0", "security.rest.token": TOKEN})
    assert not warned(**{"rest.bind-address": "127.0.0.1", "security.rest.token": TOKEN})
    assert TOKEN not in caplog.text
