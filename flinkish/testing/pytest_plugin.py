"""Fixtures for tests of programs; pytest loads them automatically if flinkish is installed.

| fixture | what it is |
|---|---|
| `flinkish_engine` | name of an engine, "local" or "spark": a test that uses it, or one of the next three, runs once on each |
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
    from _pytest.mark import ParameterSet
    from pyspark.sql import SparkSession

    from flinkish.datastream import StreamExecutionEnvironment
    from flinkish.testing import JobHarness, OneInputHarness, TwoInputHarness

MakeEnvironment = Callable[..., "StreamExecutionEnvironment"]
Share = Callable[[str], None]


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
        metafunc.parametrize("_flinkish_each_engine", _engine_parameters())


def _engine_parameters() -> list[ParameterSet]:
    """Return the names of all engines; those that need a JVM carry the mark `spark`."""
    from flinkish.common.engines import ENGINES

    return [pytest.param(name, marks=[pytest.mark.spark] if engine.jvm else []) for name, engine in ENGINES.items()]


@pytest.fixture
def flinkish_engine(_flinkish_each_engine: str) -> str:
    """The name of the engine: the test runs once on each."""
    return _flinkish_each_engine


@pytest.fixture(scope="session")
def _flinkish_share() -> Iterator[Callable[[str], None]]:
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
    return _maker(flinkish_engine, _flinkish_share)


@pytest.fixture
def flinkish_env(flinkish_make_env: MakeEnvironment) -> StreamExecutionEnvironment:
    """Return an environment on the engine, of parallelism 2."""
    return flinkish_make_env()


@pytest.fixture
def flinkish_local_env(_flinkish_share: Share) -> StreamExecutionEnvironment:
    """Return an environment on the local engine, of parallelism 2."""
    return _maker("local", _flinkish_share)()


@pytest.fixture
def flinkish_spark_env(_flinkish_share: Share) -> StreamExecutionEnvironment:
    """Return an environment on Spark, of parallelism 2."""
    return _maker("spark", _flinkish_share)()


@pytest.fixture
def flinkish_job(flinkish_engine: str, _flinkish_share: Share) -> Iterator[Callable[..., JobHarness]]:
    """Return a function that makes a JobHarness on the engine."""
    from flinkish.testing import JobHarness

    _flinkish_share(flinkish_engine)
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


def _maker(engine: str, share: Share) -> MakeEnvironment:
    from flinkish.common import Configuration
    from flinkish.datastream import StreamExecutionEnvironment

    share(engine)

    def make(parallelism: int = 2, settings: dict[str, Any] | None = None) -> StreamExecutionEnvironment:
        configuration = Configuration()
        configuration.set_string("execution.engine", engine)
        for key, value in (settings or {}).items():
            configuration.set_string(key, str(value))
        return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)

    return make
