"""Fixtures of the API tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flinkish.datastream import StreamExecutionEnvironment
from flinkish.program.executor_loader import replace_executor
from tests.unit.datastream.helpers import FakeExecutor, make_env


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return make_env(parallelism__default="4")


@pytest.fixture
def executor() -> Iterator[FakeExecutor]:
    """Put a fake in the place of whatever runs programs."""
    fake = FakeExecutor()
    before = replace_executor(fake)
    yield fake
    replace_executor(before)
