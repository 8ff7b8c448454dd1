"""Jobs of three levels on a standalone cluster of Spark whose machines share only an object store; parts of it are killed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.cluster import levels_job
from tests.cluster.levels import PROGRAM, Levels
from tests.cluster.standalone import Cluster, running
from tests.kit.child import FLINKISH, python
from tests.kit.s3_server import S3Server
from tests.kit.seeds import chosen_seed
from tests.kit.waiting import wait_until

# Six JVMs on few cores: a minute alone, many beside other work.
pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(3_000)]

_ROOT = Path(__file__).resolve().parents[2]


def test_executors_killed_between_two_epochs_and_in_the_last_level_of_one_leave_results_exact(
    s3: S3Server, tmp_path: Path
) -> None:
    program, checkpoint = tmp_path / "job.py", tmp_path / "checkpoint"
    program.write_text(PROGRAM)
    with running(tmp_path) as cluster:
        levels = Levels(
            cluster,
            s3,
            tmp_path,
            records=800,
            script=program,
            options=["--py-files", levels_job.__file__],
            settings={"execution.checkpointing.interval": "100 ms"},
            FLINKISH_FAULT=f"P2:stop:once={checkpoint}",
            # The script imports the file before it is sent.
            PYTHONPATH=os.pathsep.join([str(_ROOT), str(Path(levels_job.__file__).parent)]),
        )
        levels.job.start("run", "-p", "2", **{"spark.cores.max": "2"})
        # The driver stops itself before an epoch.
        levels.job.wait_until("a checkpoint begins", checkpoint.exists)
        _of_two(cluster)[0].kill()
        with levels.asked_for("second-record"):
            os.kill(int(checkpoint.read_text().split()[-1]), signal.SIGCONT)
            worker = levels.wait_for("second-record")
            # A task of level 2 runs, and has to run again: a part of what level 1 sent to it is gone with the executor.
            both = _of_two(cluster)
            (lost,) = worker.executors()
            (other,) = (executor for executor in both if executor != lost)
            lost.kill()
        levels.job.assert_finished()
        levels.assert_exact()
        assert "It starts again in" in levels.job.output()
        assert re.search("indeterminate output|executor was lost", levels.job.output(), re.IGNORECASE)
        # The folders in the working folders of driver and living executor are gone.
        assert not other.is_running()
        assert [*cluster.folder.glob("*/cwd/.flinkish*")] == []


def _of_two(cluster: Cluster) -> list[psutil.Process]:
    """Wait until two executors run, and return their JVMs."""
    wait_until("two executors run", lambda: len(cluster.executors()) == 2, report=cluster.report)
    return cluster.executors()


@pytest.mark.cluster
def test_whatever_is_killed_results_are_exact(s3: S3Server, tmp_path: Path, packed_environment: Path) -> None:
    """Executors, worker and driver: in mid epoch, in a checkpoint, in a restore, on four slots with a packed environment."""
    seed = chosen_seed()
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
                # One that runs a task: an executor that has just started may have none yet, and nothing is restored then.
                with levels.lingering("first-record") as worker:
                    rng.choice(worker.executors()).kill()
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
        levels.survive(events)
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

        def cli(*arguments: str) -> str:
            done = python(*FLINKISH, *arguments, status=None)
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
