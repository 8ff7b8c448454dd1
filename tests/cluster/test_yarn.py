"""Jobs of three levels on YARN; executors and drivers are killed."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.checkpoint.signing import SigningKey
from tests.cluster import yarn
from tests.cluster.levels import Levels
from tests.cluster.standalone import Job
from tests.kit.jars import MissingJarsError
from tests.kit.s3_server import S3Server
from tests.kit.seeds import chosen_seed
from tests.kit.waiting import wait_until

# Seven JVMs on few cores.
pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.cluster, pytest.mark.timeout(3_000)]

_PYTHON = "./environment/bin/python"
#: Fails for good at its first record.
_FAILING_JOB = """
import sys
from flinkish.common import Types
from flinkish.datastream import StreamExecutionEnvironment

def fail(value):
    raise ValueError("on purpose")

env = StreamExecutionEnvironment.get_execution_environment()
print("begins", flush=True)
env.from_collection([1], Types.LONG()).map(fail, Types.LONG()).print()
env.execute("failing")
"""


@pytest.fixture
def cluster(tmp_path: Path, packed_environment: Path) -> Iterator[yarn.Yarn]:
    """YARN with two nodes, which see the folders of the test and the packed environment."""
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(yarn.running(tmp_path, packed_environment.parent))
        except MissingJarsError as error:
            pytest.skip(f"the jars of YARN are missing and could not be fetched: {error}")
        yield running


def test_executors_and_a_driver_outside_the_cluster_are_killed_and_results_are_exact(
    cluster: yarn.Yarn, s3: S3Server, tmp_path: Path, packed_environment: Path
) -> None:
    seed = chosen_seed()
    print(f"FLINKISH_SEED={seed}")
    rng = random.Random(seed)
    levels = Levels(
        cluster,
        s3,
        tmp_path,
        records=8_000,
        options=["--archives", f"{packed_environment}#environment"],
        settings={
            **cluster.settings,
            "parallelism.default": "4",
            "spark.executor.instances": "2",
            "spark.executor.cores": "2",
        },
        python=_PYTHON,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        HADOOP_CONF_DIR=str(cluster.client),
    )
    levels.job.start("submit")

    def executor_in_mid_epoch() -> None:
        with levels.lingering(f"{rng.choice(['first', 'second'])}-record"):
            rng.choice(cluster.executors()).kill()

    def executor_in_a_restore() -> None:
        moment = f"{rng.choice(['first', 'second'])}-restore"
        with levels.asked_for(moment):
            rng.choice(cluster.executors()).kill()
            levels.wait_for(moment)
            rng.choice(cluster.executors()).kill()

    def driver_in_mid_epoch() -> None:
        with levels.lingering(f"{rng.choice(['first', 'second'])}-record"):
            levels.job.kill()
        levels.restart_when_killed("submit")

    events = [executor_in_mid_epoch, executor_in_a_restore, driver_in_mid_epoch]
    rng.shuffle(events)
    levels.wait_for_rows(1)
    levels.survive(events)
    wait_until("all executors end", lambda: not cluster.executors(), 120, report=cluster.report)


def test_a_driver_in_the_cluster_that_is_killed_is_started_again_by_yarn_and_results_are_exact(
    cluster: yarn.Yarn, s3: S3Server, tmp_path: Path, packed_environment: Path
) -> None:
    key = tmp_path / "checkpoint.key"
    SigningKey.load(str(key))
    conf = tmp_path / "conf"
    conf.mkdir()
    # Without this id, YARN does not start the driver again.
    (conf / "config.yaml").write_text("high-availability.cluster-id: from the file\n")
    (conf / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.console.ref = console\nappender.console.type = Console\n"
        "appender.console.name = console\nappender.console.target = SYSTEM_ERR\nappender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = own log %p %c{1}: %m%n\n"
    )
    levels = Levels(
        cluster,
        s3,
        tmp_path,
        records=3_000,
        options=["--archives", f"{packed_environment}#environment", "--deploy-mode", "cluster", "--files", str(key)],
        settings={
            **cluster.settings,
            "parallelism.default": "2",
            "high-availability.cluster-id": None,
            "security.checkpoint.hmac-key-file": "checkpoint.key",
        },
        python=_PYTHON,
        PYTHONPATH="",
        HADOOP_CONF_DIR=str(cluster.client),
        FLINKISH_CONF_DIR=str(conf),
    )
    levels.job.start("submit")
    with levels.lingering("second-record"):
        before = len(levels.rows())
        (driver,) = cluster.drivers()
        (python,) = (child for child in driver.children() if "python" in child.name())
        driver.kill()
    wait_until("the driver's Python ends", lambda: not python.is_running(), 120, report=cluster.report)
    levels.wait_for_rows(before + 1)
    (second,) = cluster.drivers()
    assert second.pid != driver.pid
    levels.job.assert_finished(900)
    levels.assert_exact()
    assert "own log" in cluster.driver_output()
    assert [*cluster.staging.rglob("checkpoint.key")] == []


def test_a_job_that_failed_in_the_cluster_is_not_run_again_by_yarn(
    cluster: yarn.Yarn, tmp_path: Path, packed_environment: Path
) -> None:
    script = tmp_path / "failing.py"
    script.write_text(_FAILING_JOB)
    key = tmp_path / "checkpoint.key"
    SigningKey.load(str(key))
    settings = {
        **cluster.settings,
        "parallelism.default": "1",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "high-availability.cluster-id": "fails",
        "restart-strategy.type": "none",
        "security.checkpoint.hmac-key-file": "checkpoint.key",
    }
    options = ["--archives", f"{packed_environment}#environment", "--deploy-mode", "cluster", "--files", str(key)]
    environment = {"PYTHONPATH": "", "HADOOP_CONF_DIR": str(cluster.client)}
    job = Job(cluster, script, settings=settings, options=options, python=_PYTHON, **environment)
    job.start("submit")
    assert job.process.wait(900) != 0
    output = cluster.driver_output()
    assert output.count("begins") == 2, job.report()
    assert output.count("on purpose") >= 1
    assert "'fails' has ended, and YARN started its driver again (attempt 2 of application_" in output, job.report()
