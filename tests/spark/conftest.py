"""One Spark session for all tests here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.engine.spark.engine import SparkEngine
from tests.spark.toy import TOY

WaitFor = Callable[[str, Callable[[], bool]], None]


@pytest.fixture(scope="session")
def shared_session() -> Iterator[SparkEngine]:
    """An engine that holds the session, so that those of the tests share it."""
    configuration = Configuration()
    configuration.set_string("spark.master", "local[2,4]")
    engine = SparkEngine(configuration, task=TOY)
    engine._session()
    yield engine
    engine.close()


@pytest.fixture
def engine(shared_session: SparkEngine) -> Iterator[SparkEngine]:
    """A Spark engine whose slots run the toy task."""
    engine = SparkEngine(task=TOY)
    yield engine
    engine.close()


@pytest.fixture
def wait_for() -> WaitFor:
    """Wait for a condition, and fail if it does not come true within 60 s."""
    clock = SystemClock()

    def wait(what: str, condition: Callable[[], bool]) -> None:
        deadline = clock.monotonic() + 60_000
        while not condition():
            if clock.monotonic() > deadline:
                pytest.fail(f"{what} did not happen within 60 s")
            threading.Event().wait(0.01)

    return wait
