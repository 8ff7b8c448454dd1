"""Fixtures for tests of programs; pytest loads them by itself where flinkish is installed.

| fixture | what it is |
|---|---|
| `flinkish_engine` | "local" or "spark": a test that uses it, or one of the next three, runs once on each |
| `flinkish_env` | an environment on that engine, of parallelism 2 |
| `flinkish_make_env` | makes environments on that engine: `flinkish_make_env(parallelism, {"key": value})` |
| `flinkish_job` | makes a `JobHarness` on that engine, with its arguments, and closes it |
| `flinkish_local_env`, `flinkish_spark_env` | an environment on one engine, of parallelism 2 |
| `flinkish_spark` | the Spark session of the whole test run, as jobs use it |
| `flinkish_one_input`, `flinkish_two_inputs` | make harnesses of operators, with their arguments, and close them |
| `flinkish_checkpoints` | an empty folder for checkpoints, of this test only |

Tests on Spark carry the mark `spark`: `pytest -m "not spark"` leaves them out. A fixture of a test suite replaces the one
of the same name here: one named `flinkish_engine` that returns "local" has everything run there.

Importing this module imports nothing else of flinkish, nor pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flinkish.datastream import StreamExecutionEnvironment
    from flinkish.testing import JobHarness, OneInputHarness, TwoInputHarness

MakeEnvironment = Callable[..., "StreamExecutionEnvironment"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "spark: needs Java and a Spark session")


@pytest.fixture(scope="session")
def flinkish_spark() -> Iterator[SparkSession]:
    """The one Spark session of a test run; made as a job makes it, and held until the end."""
    from flinkish.engine.spark.session import hold_session, release_session
    from flinkish.engine.spark.settings import SparkSettings

    held = hold_session(SparkSettings.of(None))
    yield held.session
    release_session(held)


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def flinkish_engine(request: pytest.FixtureRequest) -> str:
    """The name of the engine: the test runs once on each."""
    return str(request.param)


@pytest.fixture
def flinkish_make_env(flinkish_engine: str, request: pytest.FixtureRequest) -> MakeEnvironment:
    """Return a function that makes an environment on the engine, of a parallelism, with settings by their keys."""
    return _maker(flinkish_engine, request)


@pytest.fixture
def flinkish_env(flinkish_make_env: MakeEnvironment) -> StreamExecutionEnvironment:
    """Return an environment on the engine, of parallelism 2."""
    return flinkish_make_env()


@pytest.fixture
def flinkish_local_env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    """Return an environment on the local engine, of parallelism 2."""
    return _maker("local", request)()


@pytest.fixture
def flinkish_spark_env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    """Return an environment on Spark, of parallelism 2."""
    return _maker("spark", request)()


@pytest.fixture
def flinkish_job(flinkish_engine: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., JobHarness]]:
    """Return a function that makes a JobHarness on the engine."""
    from flinkish.testing import JobHarness

    _hold_session(flinkish_engine, request)
    with ExitStack() as stack:
        yield lambda program, **arguments: stack.enter_context(JobHarness(program, engine=flinkish_engine, **arguments))


@pytest.fixture
def flinkish_one_input() -> Iterator[Callable[..., OneInputHarness]]:
    """Return a function that makes a OneInputHarness."""
    from flinkish.testing import OneInputHarness

    with ExitStack() as stack:
        yield lambda *arguments, **named: stack.enter_context(OneInputHarness(*arguments, **named))


@pytest.fixture
def flinkish_two_inputs() -> Iterator[Callable[..., TwoInputHarness]]:
    """Return a function that makes a TwoInputHarness."""
    from flinkish.testing import TwoInputHarness

    with ExitStack() as stack:
        yield lambda *arguments, **named: stack.enter_context(TwoInputHarness(*arguments, **named))


@pytest.fixture
def flinkish_checkpoints(tmp_path: Path) -> Path:
    """Return an empty folder for checkpoints."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


def _hold_session(engine: str, request: pytest.FixtureRequest) -> None:
    """Have the session outlive the test, so that the next one finds it."""
    if engine == "spark":
        request.getfixturevalue("flinkish_spark")


def _maker(engine: str, request: pytest.FixtureRequest) -> MakeEnvironment:
    from flinkish.common import Configuration
    from flinkish.datastream import StreamExecutionEnvironment

    _hold_session(engine, request)

    def make(parallelism: int = 2, settings: dict[str, Any] | None = None) -> StreamExecutionEnvironment:
        configuration = Configuration()
        configuration.set_string("execution.engine", engine)
        for key, value in (settings or {}).items():
            configuration.set_string(key, str(value))
        return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)

    return make
