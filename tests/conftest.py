"""Fixtures shared by all tests: each behaviour runs on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from flinkish.common import Configuration
from flinkish.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeEnvironment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """The one Spark session of a test run; made as a job makes it, and held until the end."""
    from flinkish.engine.spark.session import hold_session, release_session
    from flinkish.engine.spark.settings import SparkSettings

    held = hold_session(SparkSettings.of(None))
    yield held.session
    release_session(held)


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> str:
    """The name of the engine: the test runs once on each."""
    if request.param == "spark":
        request.getfixturevalue("spark_session")
    return str(request.param)


@pytest.fixture
def make_env(engine: str) -> MakeEnvironment:
    """Return a function that makes an environment on the engine; keyword arguments set parallelism and configuration keys."""

    def make(parallelism: int = 2, settings: dict[str, Any] | None = None) -> StreamExecutionEnvironment:
        configuration = Configuration()
        configuration.set_string("execution.engine", engine)
        for key, value in (settings or {}).items():
            configuration.set_string(key, str(value))
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(parallelism)
        return env

    return make


@pytest.fixture
def env(make_env: MakeEnvironment) -> StreamExecutionEnvironment:
    """Return an environment of parallelism 2 without checkpoints."""
    return make_env()
