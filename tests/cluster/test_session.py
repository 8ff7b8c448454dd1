"""A session of two Dispatchers whose jobs run on a standalone cluster of Spark: whatever is killed, results are exact."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flinkish.cli.remote import packed
from tests.cluster import levels_job
from tests.cluster.levels import PROGRAM, Levels
from tests.cluster.standalone import SMALL_JVM, Cluster, running
from tests.kit.s3_server import S3Server
from tests.kit.seeds import chosen_seed
from tests.kit.waiting import wait_until
from tests.server.session_cluster import Session

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.cluster, pytest.mark.timeout(3_000)]

_RECORDS = 20_000
_TIMEOUT = 400.0


def _settings(cluster: Cluster, s3: S3Server, root: str, launcher: str) -> dict[str, str]:
    spark = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.executor.extraJavaOptions": SMALL_JVM,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        # All cores that there are: the next driver waits until those of the last one are free.
        "spark.cores.max": "2",
    }
    if launcher == "process":
        started = {"spark.master": cluster.url, **spark}
    else:
        confs = [part for key, value in spark.items() for part in ("--conf", f"{key}={value}")]
        options = ["--master", cluster.url, *confs]
        started = {"session.driver.launcher": launcher, "session.driver.spark-submit-options": ";".join(options)}
    return {
        # Nothing that is shared with the executors.
        "io.tmp.dirs": "",
        "high-availability.storageDir": f"{root}/session",
        "execution.checkpointing.dir": f"{root}/checkpoints",
        "execution.checkpointing.interval": "1 s",
        "execution.epoch.target-duration": "300 ms",
        "parallelism.default": "2",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "100 ms",
        "session.driver.max-restarts": "100",
        "session.driver.start-timeout": "5 min",
        **s3.settings,
        **started,
    }


class _Run:
    """One job of a session, and what can happen to its parts."""

    def __init__(self, session: Session, cluster: Cluster, levels: Levels, rng: random.Random) -> None:
        self.session = session
        self.cluster = cluster
        self.levels = levels
        self.rng = rng
        program = session.folder / "job.py"
        program.write_text(PROGRAM)
        with packed(program, [levels_job.__file__]) as sent:
            arguments = (levels.table, str(_RECORDS), str(levels.markers))
            self.job = session.run(session.upload(sent.file), *arguments, module=sent.module)

    def driver(self) -> None:
        """Kill the Python process of the driver, and see how long it takes until another one has gone on."""
        self._await_another(self.session.pid(self.job))

    def jvm(self) -> None:
        """Kill the driver's JVM: with spark-submit, the driver ends, too; otherwise, it starts another one."""
        self._jvm().kill()

    def executor(self) -> None:
        """Kill an executor."""
        for executor in self.cluster.executors():
            executor.kill()

    def dispatcher(self) -> None:
        """Kill the Dispatcher while another one waits, which finds the driver."""
        before = self.session.drivers(self.job)
        self.session.take_over()
        assert self.session.drivers(self.job) == before
        self.session.stand_by()

    def dispatchers(self) -> None:
        """Kill both Dispatchers; the job goes on, and the next one finds it."""
        self.session.kill_all()
        time.sleep(self.rng.uniform(0, 3))
        self.session.start()
        self.session.stand_by()

    def driver_and_dispatcher(self) -> None:
        """Kill the driver and the Dispatcher that could start it again, while another one waits."""
        lost = self.session.pid(self.job)
        os.kill(lost, signal.SIGKILL)
        self.session.take_over()
        self._await_another(lost)
        self.session.stand_by()

    def all(self) -> None:
        """Kill the driver and both Dispatchers."""
        lost = self.session.pid(self.job)
        self.session.kill_all()
        os.kill(lost, signal.SIGKILL)
        self.session.start()
        self._await_another(lost)
        self.session.stand_by()

    def await_progress(self) -> None:
        """Wait until the table has rows of after now, and the driver two checkpoints."""
        before = len(self.levels.rows())
        self.session.await_checkpoints(self.job, _TIMEOUT)
        wait_until("more rows", lambda: len(self.levels.rows()) > before, _TIMEOUT, report=self.report)

    def report(self) -> str:
        return self.session.logs() + self.cluster.report()

    def _jvm(self) -> psutil.Process:
        driver = psutil.Process(self.session.pid(self.job))
        return next(each for each in [*driver.parents(), *driver.children()] if each.name() == "java")

    def _await_another(self, lost: int) -> None:
        """Kill a driver unless it is dead, and wait until another one has completed a checkpoint."""
        began = time.monotonic()
        if lost in self.session.drivers(self.job):
            os.kill(lost, signal.SIGKILL)
        wait_until("its end is seen", lambda: self._restored(lost), _TIMEOUT, report=self.report)
        restored = time.monotonic() - began
        wait_until("a checkpoint", lambda: self.session.completed(self.job) >= 1, _TIMEOUT, report=self.report)
        took = time.monotonic() - began
        print(f"  restored after {restored:.1f} s, a checkpoint after {took:.1f} s; load {os.getloadavg()[0]:.1f}", flush=True)

    def _restored(self, lost: int) -> bool:
        status, answer = self.session.ask("GET", f"/jobs/{self.job}/checkpoints")
        return lost not in self.session.drivers(self.job) and status == 200 and answer["counts"]["restored"] >= 1


@pytest.fixture(params=["process", "spark-submit"])
def run(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> Iterator[_Run]:
    seed = chosen_seed()
    print(f"FLINKISH_SEED={seed}", flush=True)
    with running(tmp_path, workers=1) as cluster:
        levels = Levels(cluster, s3, tmp_path, records=_RECORDS)
        session = Session(tmp_path, _settings(cluster, s3, levels.root, request.param))
        try:
            session.start()
            session.stand_by()
            yield _Run(session, cluster, levels, random.Random(seed))
        finally:
            session.close()


def test_whatever_is_killed_of_a_session_results_are_exact(run: _Run) -> None:
    run.await_progress()
    events = [run.driver, run.jvm, run.executor, run.dispatcher, run.dispatchers, run.driver_and_dispatcher, run.all]
    run.rng.shuffle(events)
    for event in events:
        print(event.__name__, flush=True)
        event()
        run.await_progress()
    status = f"/jobs/{run.job}/status"
    wait_until("the end", lambda: run.session.get(status)["status"] == "FINISHED", 900, report=run.report)
    run.levels.assert_exact()
    wait_until("no executor is left", lambda: not run.cluster.executors(), 120, report=run.report)
