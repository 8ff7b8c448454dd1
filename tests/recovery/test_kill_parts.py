"""kill -9 of a part of a job on Spark: of the Python driver alone, of the JVM alone, of a slot host that writes a snapshot.

Workers, slot hosts and executors are killed in tests/spark.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.kit.waiting import wait_until
from tests.recovery.processes import running
from tests.recovery.verifier import assert_golden, table_rows

pytestmark = [pytest.mark.kill, pytest.mark.spark]

_HA = "-Dhigh-availability.cluster-id=parts"


def test_a_job_started_anew_right_after_its_driver_was_killed_is_not_disturbed_by_what_is_left_of_it(tmp_path: Path) -> None:
    command = ["--engine=spark", f"--output={tmp_path}", _HA]
    with running(*command, log=tmp_path / "a") as killed:
        killed.wait_until("rows were committed", lambda: len(table_rows(tmp_path / "table")) > 0)
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait(60)
        with running(*command, "--parallelism=3", log=tmp_path / "b") as job:
            job.assert_finished()
        wait_until("JVM, workers and slot hosts of the killed driver have ended", lambda: not killed.members(), 120)
        # Memory-backed folders of a killed process are removed by the next one.
        assert [folder for folder in killed.folders_left() if folder.startswith("/dev/shm")] == []
    assert_golden(tmp_path)


def test_a_job_whose_jvm_was_killed_starts_again_in_a_new_one(tmp_path: Path) -> None:
    command = ["--engine=spark", f"--output={tmp_path}", "-Drestart-strategy.type=fixed-delay"]
    with running(*command, log=tmp_path / "log") as job:
        job.wait_until("rows were committed", lambda: len(table_rows(tmp_path / "table")) > 0)
        before = job.jvm()
        before.send_signal(signal.SIGKILL)
        psutil.wait_procs([before], timeout=60)
        assert job.finish() == 0, job.output()
        assert f": the JVM of Spark, process {before.pid}, was ended by signal 9." in job.output()
        # Spark's own folders, and the native libraries it unpacks, are removed by the JVM, which could not.
        job.assert_nothing_left(but=r"/(artifacts|blockmgr|spark|lib\w+|snappy|zstd)-")
    assert_golden(tmp_path)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_slot_host_killed_while_it_writes_a_snapshot_costs_this_checkpoint_only(backend: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    command = ["--engine=spark", f"--output={tmp_path}", f"-Dstate.backend.type={backend}"]
    with running(*command, log=tmp_path / "log", fault=f"P8:sleep=120000:nth=6:once={marker}") as job:
        job.wait_until("a snapshot is written in a slot host", lambda: marker.exists() and bool(marker.read_text()))
        host = psutil.Process(int(marker.read_text().split()[-1]))
        assert "flinkish.engine.slots" in " ".join(host.cmdline())
        # Epochs go on meanwhile.
        used = host.cpu_times().user
        wait_until("the host processes records", lambda: host.cpu_times().user > used, 60)
        os.kill(host.pid, signal.SIGKILL)
        assert job.finish() == 0, job.output()
        assert "Restarting" not in job.output()
    assert_golden(tmp_path)
