"""Fixtures for tests of programs; pytest loads them automatically if flinkish is installed, and `pytest --fixtures` lists them.

Tests on Spark carry the mark `spark`: `pytest -m "not spark"` leaves them out. A fixture of a test suite replaces the one
of the same name here: one named `flinkish_engine` that returns "local" has everything run there.

Importing this module imports nothing else of flinkish, nor pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flinkish.datastream import StreamExecutionEnvironment
    from flinkish.testing import JobHarness, OneInputHarness, TwoInputHarness

MakeEnvironment = Callable[..., "StreamExecutionEnvironment"]
Share = Callable[[str], None]
HarnessT = TypeVar("HarnessT", bound=AbstractContextManager[Any])


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "spark: needs Java and a Spark session")


@pytest.fixture(scope="session")
def flinkish_spark() -> Iterator[SparkSession]:
    """The Spark session of a test run; it is created as for a job, and held until the end."""
    from flinkish.engine.spark.session import hold_session, release_session
    from flinkish.engine.spark.spark_settings import SparkSettings

    held = hold_session(SparkSettings.of(None))
    yield held.session
    release_session(held)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once on each engine if it uses `flinkish_engine` and the test suite does not define that fixture itself."""
    if "_flinkish_each_engine" in metafunc.fixturenames:
        from flinkish.common.engines import ENGINES

        engines = [pytest.param(name, marks=[pytest.mark.spark] * engine.jvm) for name, engine in ENGINES.items()]
        metafunc.parametrize("_flinkish_each_engine", engines)


@pytest.fixture
def flinkish_engine(_flinkish_each_engine: str) -> str:
    """The name of the engine: the test runs once on each."""
    return _flinkish_each_engine


@pytest.fixture(scope="session")
def _flinkish_share() -> Iterator[Share]:
    """Return a function that keeps the shared resources of an engine's jobs until the end of the test run."""
    from flinkish.common import Configuration
    from flinkish.engine.executor import hold_shared

    held = set()
    with ExitStack() as stack:

        def share(engine: str) -> None:
            if engine not in held:
                held.add(engine)
                stack.callback(hold_shared(Configuration.from_dict({"execution.engine": engine})))

        yield share


@pytest.fixture
def flinkish_make_env(flinkish_engine: str, _flinkish_share: Share) -> MakeEnvironment:
    """Return a function that makes an environment on the engine, of a parallelism, with settings by their keys."""
    return partial(_environment, _flinkish_share, flinkish_engine)


@pytest.fixture
def flinkish_env(flinkish_make_env: MakeEnvironment) -> StreamExecutionEnvironment:
    """Return an environment on the engine, of parallelism 2."""
    return flinkish_make_env()


@pytest.fixture
def flinkish_local_env(_flinkish_share: Share) -> StreamExecutionEnvironment:
    """Return an environment on the local engine, of parallelism 2."""
    return _environment(_flinkish_share, "local")


@pytest.fixture
def flinkish_spark_env(_flinkish_share: Share) -> StreamExecutionEnvironment:
    """Return an environment on Spark, of parallelism 2."""
    return _environment(_flinkish_share, "spark")


@pytest.fixture
def flinkish_job(flinkish_engine: str, _flinkish_share: Share) -> Iterator[Callable[..., JobHarness]]:
    """Return a function that makes a JobHarness on the engine, with its arguments; the harness is closed after the test."""
    from flinkish.testing import JobHarness

    _flinkish_share(flinkish_engine)
    yield from _making(lambda program, **options: JobHarness(program, engine=flinkish_engine, **options))


@pytest.fixture
def flinkish_one_input() -> Iterator[Callable[..., OneInputHarness]]:
    """Return a function that makes a OneInputHarness, with its arguments; the harness is closed after the test."""
    from flinkish.testing import OneInputHarness

    yield from _making(OneInputHarness)


@pytest.fixture
def flinkish_two_inputs() -> Iterator[Callable[..., TwoInputHarness]]:
    """Return a function that makes a TwoInputHarness, with its arguments; the harness is closed after the test."""
    from flinkish.testing import TwoInputHarness

    yield from _making(TwoInputHarness)


@pytest.fixture
def flinkish_checkpoints(tmp_path: Path) -> Path:
    """Return an empty folder for checkpoints."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


def _environment(
    share: Share, engine: str, parallelism: int = 2, settings: dict[str, Any] | None = None
) -> StreamExecutionEnvironment:
    from flinkish.common import Configuration
    from flinkish.datastream import StreamExecutionEnvironment

    share(engine)
    texts = {"execution.engine": engine, **{key: str(value) for key, value in (settings or {}).items()}}
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(texts))
    return environment.set_parallelism(parallelism)


def _making(kind: Callable[..., HarnessT]) -> Iterator[Callable[..., HarnessT]]:
    with ExitStack() as stack:
        yield lambda *arguments, **named: stack.enter_context(kind(*arguments, **named))
