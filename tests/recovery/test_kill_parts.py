"""kill -9 of parts of a job on Spark: a slot host that writes a snapshot, and then the JVM alone, or the Python driver alone.

Workers, slot hosts and executors are killed in tests/spark.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.kit.waiting import wait_until
from tests.recovery import keyed_timers_job
from tests.recovery.processes import Job, running
from tests.recovery.verifier import assert_golden, table_rows

pytestmark = [pytest.mark.kill, pytest.mark.spark]

_RECORDS = 2_000


def fault(marker: Path) -> str:
    """Return a fault that stops a slot host in a snapshot."""
    return f"P8:sleep=120000:nth=6:once={marker}"


def kill_host_in_snapshot(job: Job, marker: Path, table: Path) -> None:
    """Kill the slot host that writes a snapshot: that costs this checkpoint only."""
    job.wait_until("a snapshot is written in a slot host", lambda: marker.exists() and bool(marker.read_text()))
    host = psutil.Process(int(marker.read_text().split()[-1]))
    assert "flinkish.engine.slots" in " ".join(host.cmdline())
    # Epochs go on meanwhile.
    used = host.cpu_times().user
    wait_until("the host processes records", lambda: host.cpu_times().user > used, 60)
    before = len(table_rows(table))
    os.kill(host.pid, signal.SIGKILL)
    job.wait_until("more rows are committed", lambda: len(table_rows(table)) > before)
    assert "Restarting" not in job.output()


def test_a_job_starts_again_in_a_new_jvm_if_its_own_was_killed(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    command = ["--engine=spark", f"--output={tmp_path}", f"--records={_RECORDS}", "-Drestart-strategy.type=fixed-delay"]
    with running(*command, log=tmp_path / "log", fault=fault(marker)) as job:
        kill_host_in_snapshot(job, marker, tmp_path / "table")
        before = job.jvm()
        before.send_signal(signal.SIGKILL)
        psutil.wait_procs([before], timeout=60)
        assert job.finish() == 0, job.output()
        assert f": the JVM of Spark, process {before.pid}, was ended by signal 9." in job.output()
        # Spark's own folders, and the native libraries it unpacks, are removed by the JVM, which could not.
        job.assert_nothing_left(but=r"/(artifacts|blockmgr|spark|lib\w+|snappy|zstd)-")
    assert_golden(tmp_path, _RECORDS)


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_what_is_left_of_a_killed_driver_does_not_disturb_the_job_that_is_started_anew_right_after(
    engine: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    command = [f"--engine={engine}", f"--output={tmp_path}", f"--records={_RECORDS}", "-Dhigh-availability.cluster-id=parts"]
    command += ["-Dstate.backend.type=rocksdb"]
    with running(*command, log=tmp_path / "log", fault=fault(marker)) as killed:
        kill_host_in_snapshot(killed, marker, tmp_path / "table")
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait(60)
        keyed_timers_job.main([*command, "--parallelism=3"])
        wait_until("JVM, workers and slot hosts of the killed driver have ended", lambda: not killed.members(), 120)
        # Memory-backed folders of a killed process are removed by the next one.
        assert [folder for folder in killed.folders_left() if folder.startswith("/dev/shm")] == []
    assert_golden(tmp_path, _RECORDS)
