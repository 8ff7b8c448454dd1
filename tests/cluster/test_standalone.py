"""Jobs of three levels on a standalone cluster of Spark whose machines share only an object store; parts of it are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from deltalake import DeltaTable

from flinkish.common.files import store_settings
from tests.cluster import levels_job
from tests.cluster.standalone import Cluster, Job, Worker, running
from tests.kit.s3_server import BUCKET, S3Server
from tests.kit.waiting import wait_until

# Six JVMs on few cores: a minute alone, many beside other work.
pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(3_000)]

_JOB = Path(levels_job.__file__)


class Levels:
    """A run of the job of three levels."""

    def __init__(
        self,
        cluster: Cluster,
        s3: S3Server,
        tmp_path: Path,
        *,
        records: int,
        options: Sequence[str] = (),
        python: str | None = None,
        settings: Mapping[str, str | None] = MappingProxyType({}),
        **environment: str,
    ) -> None:
        """Start nothing yet; a setting of None is left out."""
        self.cluster = cluster
        self.records = records
        self.root = f"s3://{BUCKET}/{tmp_path.name}-{os.getpid()}"
        self.table = f"{self.root}/table"
        self.markers = tmp_path / "markers"
        self.markers.mkdir()
        all_settings = {
            "execution.epoch.target-duration": "300 ms",
            "execution.checkpointing.interval": "1500 ms",
            "execution.checkpointing.dir": f"{self.root}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"{self.root}/savepoints",
            "high-availability.storageDir": f"{self.root}/records",
            "high-availability.cluster-id": "levels",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "20",
            "restart-strategy.fixed-delay.delay": "100 ms",
            "security.checkpoint.hmac-key-file": str(tmp_path / "keys" / "key"),
            **s3.settings,
            **settings,
        }
        arguments = (self.table, str(records), str(self.markers))
        given = {key: value for key, value in all_settings.items() if value is not None}
        self.job = Job(cluster, _JOB, *arguments, settings=given, options=options, python=python, **environment)

    def rows(self) -> list[tuple[int, int, int]]:
        """Return the rows of the table; none if there is no table yet."""
        storage = store_settings.storage_options(self.root)
        if not DeltaTable.is_deltatable(self.table, storage_options=storage):
            return []
        table = DeltaTable(self.table, storage_options=storage).to_pyarrow_table()
        return list(zip(*(table[name].to_pylist() for name in ("v", "n", "m")), strict=True))

    def wait_for_rows(self, number: int) -> None:
        """Wait until the table has at least this number of rows."""
        self.job.wait_until(f"{number} rows", lambda: len(self.rows()) >= number)

    @contextlib.contextmanager
    def lingering(self, moment: str) -> Iterator[Worker]:
        """Have a task linger at a moment of the job until the end of the block, and wait until it does; yield its worker."""
        with self.asked_for(moment):
            yield self.wait_for(moment)

    @contextlib.contextmanager
    def asked_for(self, moment: str) -> Iterator[None]:
        """Have a task linger at a moment of the job until the end of the block, if the moment comes."""
        (self.markers / moment).unlink(missing_ok=True)
        wanted = self.markers / f"{moment}.wanted"
        wanted.touch()
        try:
            yield
        finally:
            wanted.unlink()

    def wait_for(self, moment: str) -> Worker:
        """Wait until a task lingers at a moment, and return its worker."""
        self.job.wait_until(moment, (self.markers / moment).exists)
        name = (self.markers / moment).read_text()
        return next(worker for worker in self.cluster.workers if worker.machine.name == name)

    def wait_for_progress(self) -> None:
        """Wait until the table has more rows than now."""
        self.wait_for_rows(len(self.rows()) + 1)

    def restart_when_killed(self, verb: str) -> None:
        """Wait until the driver is gone, and start the same job again."""
        wait_until("the driver is gone", lambda: self.job.process.poll() is not None, 600, report=self.job.report)
        self.job.start(verb)

    def assert_exact(self) -> None:
        """Each number was counted once for its key and for its other key, and is in the table once."""
        rows = self.rows()
        assert sorted(v for v, _, _ in rows) == list(range(self.records))
        for place, keys in ((1, levels_job.KEYS), (2, levels_job.OTHER_KEYS)):
            for key in range(keys):
                counts = sorted(row[place] for row in rows if row[0] % keys == key)
                assert counts == list(range(1, len(counts) + 1)), (place, key)


def test_an_executor_killed_in_the_last_level_of_an_epoch_leaves_results_exact(s3: S3Server, tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        levels = Levels(cluster, s3, tmp_path, records=500)
        levels.job.start("run", "-p", "2", **{"spark.cores.max": "2"})
        # A task of level 2 runs, and has to run again: a part of what level 1 sent to it is gone with the executor.
        with levels.lingering("second-record") as worker:
            (lost,) = worker.executors()
            (other,) = (executor for executor in cluster.executors() if executor != lost)
            lost.kill()
        levels.job.assert_finished()
        levels.assert_exact()
        assert "It starts again in" in levels.job.output()
        assert re.search("indeterminate output|executor was lost", levels.job.output(), re.IGNORECASE)
        # The folders in the working folders of driver and living executor are gone.
        assert not other.is_running()
        assert [*cluster.folder.glob("*/cwd/.flinkish*")] == []


@pytest.mark.cluster
def test_whatever_is_killed_results_are_exact(s3: S3Server, tmp_path: Path, packed_environment: Path) -> None:
    """Executors, worker and driver: in mid epoch, in a checkpoint, in a restore, on four slots with a packed environment."""
    seed = int(os.environ.get("FLINKISH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"FLINKISH_SEED={seed}")
    rng = random.Random(seed)
    markers = tmp_path / "markers"
    faults = f"P9:kill9:nth={rng.randint(2, 4)}:once={markers}/driver-P9;P15:kill9:once={markers}/driver-P15"
    with running(tmp_path, packed_environment.parent) as cluster:
        levels = Levels(
            cluster,
            s3,
            tmp_path,
            records=20_000,
            options=["--archives", f"{packed_environment}#environment"],
            settings={
                "parallelism.default": "4",
                "spark.cores.max": "4",
                "spark.executorEnv.FLINKISH_FAULT": f"P8:sleep=20000:once={markers}/executor-P8",
            },
            python="./environment/bin/python",
            PYSPARK_DRIVER_PYTHON=sys.executable,
            FLINKISH_FAULT=faults,
        )
        levels.job.start("submit")

        def kill_an_executor() -> None:
            rng.choice(cluster.executors()).kill()

        # An executor in its first checkpoint.
        levels.job.wait_until("a checkpoint", (markers / "executor-P8").exists)
        kill_an_executor()
        # The driver in a checkpoint, and in the restore that follows.
        levels.restart_when_killed("run")
        assert (markers / "driver-P9").exists()
        levels.restart_when_killed("submit")
        assert (markers / "driver-P15").exists()
        levels.wait_for_progress()

        def executor_in_mid_epoch() -> None:
            with levels.lingering(f"{rng.choice(['first', 'second'])}-record"):
                kill_an_executor()

        def executor_in_a_restore() -> None:
            moment = f"{rng.choice(['first', 'second'])}-restore"
            with levels.asked_for(moment):
                kill_an_executor()
                levels.wait_for(moment)
                kill_an_executor()

        def driver_in_mid_epoch() -> None:
            with levels.lingering(f"{rng.choice(['first', 'second'])}-record"):
                levels.job.kill()
            levels.restart_when_killed("run")

        def worker_whose_slots_move() -> None:
            # Its executors end with it, and the slots move to the new worker.
            lost = cluster.workers.pop(rng.randrange(len(cluster.workers)))
            cluster.add_worker()
            lost.kill()
            wait_until("its executors end", lambda: not lost.executors(), 120, report=cluster.report)

        events = [executor_in_mid_epoch, executor_in_a_restore, driver_in_mid_epoch, worker_whose_slots_move]
        rng.shuffle(events)
        for event in events:
            print(event.__name__, flush=True)
            event()
            levels.wait_for_progress()
        levels.job.assert_finished(900)
        levels.assert_exact()
        assert len(cluster.executors()) == 0


@pytest.mark.cluster
def test_a_job_is_rescaled_by_one_command_when_there_is_one_more_worker(
    s3: S3Server, tmp_path: Path, packed_environment: Path
) -> None:
    with running(tmp_path, packed_environment.parent, workers=1) as cluster, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        levels = Levels(
            cluster,
            s3,
            tmp_path,
            records=6_000,
            settings={"rest.port": server.partition(":")[2]},
            options=["--archives", f"{packed_environment}#environment"],
            python="./environment/bin/python",
        )
        flinkish = [sys.executable, "-c", "from flinkish.cli.main import main; main()"]

        def cli(*arguments: str) -> str:
            done = subprocess.run([*flinkish, *arguments], capture_output=True, text=True, timeout=600, check=False)
            assert done.returncode == 0, done.stdout + done.stderr + levels.job.report()
            return done.stdout

        def started(*options: str, slots: int) -> str:
            levels.job.start("run", "-p", str(slots), *options, **{"spark.cores.max": str(slots)})
            levels.wait_for_progress()
            (job_id,) = re.findall(r"[0-9a-f]{32}", cli("list", "-m", server))
            with urllib.request.urlopen(f"http://{server}/jobs/{job_id}", timeout=60) as answer:
                assert {vertex["parallelism"] for vertex in json.load(answer)["vertices"]} == {slots}
            return job_id

        job_id = started(slots=2)
        assert len(cluster.executors()) == 1
        cluster.add_worker()
        (savepoint,) = re.findall(r"Savepoint completed. Path: (\S+)", cli("stop", "-m", server, job_id))
        levels.job.assert_finished()
        assert 0 < len(levels.rows()) < 6_000
        started("-s", savepoint, slots=4)
        assert len(cluster.executors()) == 2
        levels.job.assert_finished(900)
        levels.assert_exact()
