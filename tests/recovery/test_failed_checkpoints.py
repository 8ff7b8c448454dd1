"""Checkpoints that fail while the job goes on: a full disk, a place that cannot be made. Counted, and made good by later ones."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.checkpoint.statistics import CheckpointCounts
from flinkish.common.errors import CheckpointError, JobExecutionError
from flinkish.common.job_status import JobStatus
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.engine.job_client import EmbeddedJobClient
from tests.conftest import locally
from tests.kit.restarts import restarting
from tests.kit.waiting import wait_for_checkpoints, wait_until
from tests.recovery import keyed_timers_job
from tests.recovery.conftest import Start
from tests.recovery.verifier import assert_golden

_KIB = 1024


def slow(env: StreamExecutionEnvironment, output: Path) -> None:
    """The job, long enough for some checkpoints to fail in the middle."""
    keyed_timers_job.build(env, output, pause=0.003)


def finish(client: EmbeddedJobClient) -> None:
    client.get_job_execution_result().result(120)


def counts(client: EmbeddedJobClient) -> CheckpointCounts:
    return client.job_master.checkpoints.figures().counts


def failures(client: EmbeddedJobClient) -> list[str]:
    """Return why checkpoints failed."""
    history = client.job_master.checkpoints.figures().history
    return [record.failure for record in history if record.failure is not None]


def wait_for_failed(client: EmbeddedJobClient, count: int) -> None:
    wait_until(f"{count} failed checkpoints", lambda: counts(client).failed >= count, 120)
    assert client.get_job_status().result() is JobStatus.RUNNING


class Disk:
    """A small file system that can be filled up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no room: not a byte can be written any more."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4 * _KIB))
            except OSError:
                return

    def free(self) -> None:
        self._filler.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    """A file system of 2 MiB in memory; only root can make one."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "flinkish-test", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a file system")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_while_the_disk_is_full_checkpoints_fail_and_the_job_goes_on(start: Start, small_disk: Disk, tmp_path: Path) -> None:
    settings = {
        "execution.checkpointing.dir": small_disk.folder,
        "execution.checkpointing.tolerable-failed-checkpoints": 1_000,
    }
    client = start(settings, build=slow)
    wait_for_checkpoints(client, 2)
    small_disk.fill()
    failed = counts(client).failed
    wait_for_failed(client, failed + 2)
    why = failures(client)
    small_disk.free()
    completed = counts(client).completed
    finish(client)
    assert any("No space left on device" in reason for reason in why), why
    assert counts(client).completed > completed
    assert client.figures().restarts == 0
    assert_golden(tmp_path)


@locally
def test_the_last_good_checkpoint_survives_a_full_disk(start: Start, small_disk: Disk, tmp_path: Path) -> None:
    settings = {"execution.checkpointing.dir": small_disk.folder, "high-availability.cluster-id": "full"}
    client = start(settings, build=slow)
    wait_for_checkpoints(client, 2)
    small_disk.fill()
    # Not one failed checkpoint is tolerated, and the job has no restart strategy.
    with pytest.raises(JobExecutionError, match=r"tolerable-failed-checkpoints is 0(?s:.*)No space left on device") as error:
        finish(client)
    assert isinstance(error.value.__cause__, CheckpointError)
    # What the failed checkpoint had written was removed.
    small_disk.fill()
    with pytest.raises(CheckpointError, match="No space left on device"):
        start(settings)
    small_disk.free()
    again = start(settings, parallelism=3)
    finish(again)
    assert again.get_job_id() == client.get_job_id()
    assert_golden(tmp_path)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])], indirect=True)
def test_a_full_disk_under_the_state_costs_restarts_until_there_is_room(
    start: Start, small_disk: Disk, engine: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        "state.backend.type": "rocksdb",
        "io.tmp.dirs": small_disk.folder,
        **restarting(1_000, "100 ms"),
    }
    client = start(settings, build=slow)
    wait_for_checkpoints(client, 2)
    assert list(small_disk.folder.rglob("rocksdb-*"))
    small_disk.fill()
    wait_until("two restarts", lambda: client.figures().restarts >= 2)
    small_disk.free()
    finish(client)
    # On Spark, a query's own log is in the same folder.
    full = "the state on disk in .*rocksdb-.* cannot be written: .*" if engine == "local" else ""
    assert re.search(f"failed in .*{full}No space left on device", caplog.text)
    assert_golden(tmp_path)
    # What ended attempts had there has gone with them.
    assert not list(small_disk.folder.rglob("rocksdb-*"))


@locally
def test_a_place_that_cannot_be_made_fails_its_checkpoint_only(start: Start, tmp_path: Path) -> None:
    client = start({"execution.checkpointing.tolerable-failed-checkpoints": 1}, build=slow)
    wait_for_checkpoints(client, 2)
    root = tmp_path / "checkpoints" / str(client.get_job_id()) / "state"
    blocked = counts(client).triggered + 5
    (root / f"chk-{blocked}-g1").touch()
    finish(client)
    total = counts(client)
    assert (total.failed, total.triggered) == (0, total.completed)
    assert total.completed > blocked
    assert not (root / f"chk-{blocked}-g1").exists()
    assert_golden(tmp_path)


@locally
def test_a_checkpoint_folder_that_is_a_file_is_refused_before_the_job_runs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"execution\.checkpointing\.dir: .*checkpoints.* cannot be used"):
        start()
    assert not (tmp_path / "table").exists()
