"""One server of a process: a further job with other settings of it is told that they have no effect."""

from __future__ import annotations

import logging

import pytest

from flinkish.common import Configuration
from flinkish.server import executor
from flinkish.server.server_settings import server_settings
from tests.unit.server.asgi import make_state

FIRST = {"rest.port": "0", "web.refresh-interval": "5 s"}


@pytest.mark.parametrize(
    ("further", "warned"),
    [
        (FIRST, False),
        # Settings that are not the server's are shown as they were when it started, and need no warning.
        ({**FIRST, "parallelism.default": "3"}, False),
        ({}, False),
        ({**FIRST, "web.refresh-interval": "1 s"}, True),
        ({**FIRST, "rest.port": "8081"}, True),
        ({**FIRST, "jobstore.max-capacity": "2"}, True),
        ({**FIRST, "security.rest.token": "another-token-of-some-length"}, True),
        ({**FIRST, "security.ssl.rest.enabled": "true", "security.ssl.rest.keystore": "x.pem"}, True),
    ],
)
def test_a_further_job_with_other_settings_of_the_server_is_warned(
    further: dict[str, str], warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor, "_state", make_state(**FIRST))

    with caplog.at_level(logging.WARNING, logger="flinkish.server"):
        executor.ensure_server(server_settings(Configuration.from_dict(further)))

    assert ("which have no effect" in caplog.text) is warned
    assert "another-token" not in caplog.text
