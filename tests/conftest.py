"""Fixtures shared by all tests: those of flinkish's own plugin for pytest, by shorter names."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from flinkish.common import redaction
from flinkish.common.configuration import Configuration
from flinkish.common.engines import ENGINES
from flinkish.common.files import store_settings
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.engine.spark.spark_settings import QUICK_COMPILER
from flinkish.program import executor_loader
from tests.kit import fake_clouds, s3_server
from tests.kit.jars import MissingJarsError
from tests.kit.kafka_broker import Broker, shared_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeEnvironment = Callable[..., StreamExecutionEnvironment]

# spark-submit looks for Spark, and Spark starts its workers, with the Python of the tests, whatever is on the PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Tests start a hundred JVMs. They read the archive of Spark's classes that `make test` makes, and none writes one of its own: a
# JVM that does is slower, and takes up to 45 s to end on a busy machine. Tables are small: to read the log of a Delta table in 50
# tasks, as is the default, takes most of the time of a MERGE.
_CLASSES = Path(sys.prefix) / "classes.jsa"
_JVM_OPTIONS = [
    QUICK_COMPILER,
    f'-XX:SharedArchiveFile="{_CLASSES}"',
    "-Xlog:disable",
    "-Dspark.databricks.delta.snapshotPartitions=1",
    "-Dspark.sql.shuffle.partitions=2",
]
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(_JVM_OPTIONS))

# On a busy machine, generating data can be slow; that says nothing about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
# `make quick` tries a fifth of the examples that `make test` does.
settings.register_profile("quick", settings.get_profile("patient"), max_examples=20)

# A shell starts what runs in the background with Ctrl-C ignored, and processes inherit that: those of the tests are to take it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where flinkish is installed with its entry points, pytest has loaded it already.
pytest_plugins = ["flinkish.testing.pytest_plugin"]


#: Folders whose tests start processes of their own, and take tens of seconds.
_SLOW = ("tests/cluster/", "tests/recovery/", "tests/spark/", "tests/jobs/", "tests/models/")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect no garbage while tests are imported, and look through none of this later: it stays to the end.

    That saves two fifths of the time of the imports, and a tenth of that of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first: several test processes are busy to the end then. Tests that share what is dear run in one of them."""
    items.sort(key=lambda item: not item.nodeid.startswith(_SLOW))
    for item in items:
        if isinstance(item, pytest.Function) and (group := _group_of(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))


#: Fixtures of a test process that take seconds to make. Code on a JVM is the faster the more of it has run there.
_DEAR = {"spark_session": "spark", "flinkish_spark": "spark", "shared_session": "spark", "postgresql": "postgresql"}


def _group_of(item: pytest.Function) -> str | None:
    """Return what a test shares with others: a session of Spark, a database, or what is made once for its file."""
    if hasattr(item, "callspec") and item.callspec.params.get("engine") == "spark":
        return "spark"
    fixtures = item._fixtureinfo.name2fixturedefs
    for name, group in _DEAR.items():  # in this order in each test process
        if name in fixtures:
            return group
    of_file = any(found[-1].scope == "module" for found in fixtures.values())
    return f"{item.path.parent.name}-{item.path.stem}" if of_file else None


def pytest_sessionfinish() -> None:
    """Remove folders such as that of Spark's sockets now: xdist kills a test process that takes more than 10 s to end."""
    scratch = sys.modules.get("flinkish.engine.scratch")
    if scratch is not None:
        scratch.remove_made()


@pytest.fixture(autouse=True)
def same_process() -> Iterator[None]:
    """A test that leaves its process with another working folder, executor or driver is red, not those after it.

    Commands that run in the process of the tests hide secrets in the log, and pytest's handlers outlive the test: formats and
    known secrets are those of before again. One fixture does all this, as each costs a fifteenth of a millisecond a test.
    """

    def state() -> tuple[object, ...]:
        executor = sys.modules.get("flinkish.server.executor")
        return os.getcwd(), executor_loader._replacement, executor and executor.session

    before = state()
    handlers = {handler: handler.formatter for handler in logging.getLogger().handlers}
    known = redaction._known
    yield
    for handler, formatter in handlers.items():
        handler.setFormatter(formatter)
    redaction._known = known
    assert state() == before


@pytest.fixture(scope="session")
def spark_session(flinkish_spark: SparkSession) -> SparkSession:
    """The one Spark session of a test run."""
    return flinkish_spark


@pytest.fixture(params=[False, True], ids=["records", "columns"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test of a source or sink twice: with records, and with columns where it makes or takes them."""
    from tests.unit.datastream.connectors.fakes import Columns

    monkeypatch.setattr(Columns, "by_default", request.param)


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.spark] if engine.jvm else []) for name, engine in ENGINES.items()])
def engine(request: pytest.FixtureRequest, _flinkish_share: Callable[[str], None]) -> str:
    """The name of the engine: the test runs once on each."""
    _flinkish_share(request.param)
    return str(request.param)


#: Runs a test on the local engine only: nothing that it looks at depends on the engine, and a job takes seconds on Spark.
locally = pytest.mark.parametrize("engine", ["local"], indirect=True)


def also_on_spark(names: str, values: Sequence[Any], on_spark: Any) -> pytest.MarkDecorator:
    """Parametrize a test by values on the local engine, and by one of them on Spark, where a job takes seconds."""
    local = [("local", *(value if isinstance(value, tuple) else (value,))) for value in values]
    spark = pytest.param("spark", *(on_spark if isinstance(on_spark, tuple) else (on_spark,)), marks=pytest.mark.spark)
    return pytest.mark.parametrize(f"engine, {names}", [*local, spark], indirect=["engine"])


@pytest.fixture(scope="session")
def running_s3() -> Iterator[s3_server.S3Server]:
    """The one S3 server of a test process."""
    with s3_server.running() as server:
        yield server


@pytest.fixture
def s3(running_s3: s3_server.S3Server) -> Iterator[s3_server.S3Server]:
    """An S3 server, whose settings this process has during the test."""
    store_settings.use(running_s3.configuration)
    yield running_s3
    store_settings.use(Configuration())


@pytest.fixture(scope="session")
def running_clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[fake_clouds.Cloud]:
    """The one stand-in for Google's and Azure's stores of a test process."""
    with fake_clouds.running(tmp_path_factory.mktemp("clouds")) as cloud:
        yield cloud


@pytest.fixture
def clouds(running_clouds: fake_clouds.Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_clouds.Cloud]:
    """A stand-in for Google's and Azure's stores, whose settings this process has during the test."""
    for name, value in fake_clouds.environment(running_clouds).items():
        monkeypatch.setenv(name, value)
    store_settings.use(running_clouds.configuration)
    yield running_clouds
    store_settings.use(Configuration())


@pytest.fixture
def no_store_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable has to do with stores during the test, and the settings that it makes are gone after it."""
    for name in ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield
    store_settings.use(Configuration())


@pytest.fixture
def flinkish_engine(engine: str) -> str:
    """What the plugin's fixtures run on: the engine, which a test may fix by `parametrize("engine", ...)`."""
    return engine


@pytest.fixture
def make_env(flinkish_make_env: MakeEnvironment) -> MakeEnvironment:
    """Return a function that makes an environment on the engine; keyword arguments set parallelism and configuration keys."""
    return flinkish_make_env


@pytest.fixture
def env(flinkish_env: StreamExecutionEnvironment) -> StreamExecutionEnvironment:
    """Return an environment of parallelism 2 without checkpoints."""
    return flinkish_env


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """The Kafka broker of this test run, which all test processes share: topics need names of their own."""
    in_parts = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    try:
        return shared_broker((base.parent if in_parts else base) / "kafka", os.getppid() if in_parts else os.getpid())
    except MissingJarsError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Kafka broker: its jars are not here and could not be fetched: {error}")
