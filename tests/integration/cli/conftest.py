"""Fixtures of the tests of commands."""

from __future__ import annotations

import pytest


@pytest.fixture
def same_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the log's handlers, which commands replace."""
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    monkeypatch.setattr("flinkish.common.redaction.protect_log", lambda: None)
