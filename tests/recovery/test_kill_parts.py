"""kill -9 of parts of a job on Spark, one after the other: a slot host that writes a snapshot, the JVM alone, the driver alone.

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

_RECORDS = 2_000
_SETTINGS = [
    *("-Dstate.backend.type=rocksdb", "-Dexecution.checkpointing.incremental=true", "-Drestart-strategy.type=fixed-delay"),
    "-Dhigh-availability.cluster-id=parts",
]


def kill_host_in_snapshot(job: Job, marker: Path, table: Path) -> None:
    """Kill the slot host that writes a snapshot: that costs this checkpoint only."""
    job.wait_until("a snapshot is written in a slot host", lambda: marker.exists() and bool(marker.read_text()))
    host = psutil.Process(int(marker.read_text().split()[-1]))
    assert "flinkish.engine.slots" in " ".join(host.cmdline())
    # Epochs go on meanwhile.
    used = host.cpu_times().user
    wait_until("the host processes records", lambda: host.cpu_times().user > used, 60)
    os.kill(host.pid, signal.SIGKILL)
    await_more_rows(job, table)
    assert "Restarting" not in job.output()


def kill_jvm(job: Job, table: Path) -> None:
    """Kill the JVM: the job starts again in a new one."""
    jvm = job.jvm()
    jvm.send_signal(signal.SIGKILL)
    job.wait_until("it starts again", lambda: f": the JVM of Spark, process {jvm.pid}, was ended by signal 9." in job.output())
    await_more_rows(job, table)


def await_more_rows(job: Job, table: Path) -> None:
    before = len(table_rows(table))
    job.wait_until("more rows are committed", lambda: len(table_rows(table)) > before)


@pytest.mark.kill
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_parts_that_are_killed_do_not_disturb_what_is_started_anew(engine: str, tmp_path: Path) -> None:
    marker, table = tmp_path / "marker", tmp_path / "table"
    command = [f"--engine={engine}", f"--output={tmp_path}", f"--records={_RECORDS}", *_SETTINGS]
    fault = f"P8:sleep=120000:nth=6:once={marker}"
    # Slowly, so that it does not end before it is killed.
    with running(*command, "--pause=0.01", log=tmp_path / "log", fault=fault) as killed:
        kill_host_in_snapshot(killed, marker, table)
        kill_jvm(killed, table)
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait(60)
        # Right after, while its JVM, workers and slot hosts are still there.
        keyed_timers_job.main([*command, "--parallelism=3"])
        wait_until("JVM, workers and slot hosts of the killed driver have ended", lambda: not killed.members(), 120)
        # Memory-backed folders of a killed process are removed by the next one.
        assert [folder for folder in killed.folders_left() if folder.startswith("/dev/shm")] == []
    assert_golden(tmp_path, _RECORDS)
