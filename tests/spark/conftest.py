"""One Spark session for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flinkish.common.configuration import Configuration
from flinkish.engine.spark.engine import SparkEngine
from tests.spark.toy import TOY


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
