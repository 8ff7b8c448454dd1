"""Fixtures of the API tests."""

from __future__ import annotations

import pytest

from flinkish.datastream import StreamExecutionEnvironment, stream_execution_environment
from tests.unit.datastream.helpers import FakeExecutor, make_env


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return make_env(parallelism__default="4")


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> FakeExecutor:
    """Put a fake in the place of whatever runs programs."""
    fake = FakeExecutor()
    monkeypatch.setattr(stream_execution_environment, "load_executor", lambda: fake)
    return fake
