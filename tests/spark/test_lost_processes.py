"""Processes killed during an epoch: Spark's Python workers, slot hosts. Results stay exact."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import psutil
import pytest

from flinkish.engine.slots.hosts import HostConfig
from flinkish.engine.spark.engine import SparkEngine
from flinkish.runtime.protocol import EpochCommand
from tests.spark.toy import KillOnce, ToyLoop, ToySettings, expected_counts, toy_program

pytestmark = [pytest.mark.spark, pytest.mark.kill]


def _python_workers_of(driver: int) -> list[psutil.Process]:
    """Return Spark's Python workers, without the daemon that forks them."""
    children = [process for jvm in psutil.Process(driver).children() if jvm.name() == "java" for process in jvm.children()]
    return [worker for daemon in children if _is_daemon(daemon) for worker in daemon.children()]


def _is_daemon(process: psutil.Process) -> bool:
    try:
        return "pyspark.daemon" in process.cmdline()
    except psutil.Error:  # one of the JVM's many short-lived children
        return False


# Large frames wait in files, from which a repeated task reads them again.
@pytest.mark.parametrize(("level", "padding"), [(0, 0), (1, 0), (2, 0), (1, 200_000), (2, 200_000)])
def test_a_slot_host_killed_in_mid_epoch_leaves_results_exact(
    engine: SparkEngine, tmp_path: Path, level: int, padding: int
) -> None:
    kill = KillOnce(tmp_path / "marker", slot=1, level=level, epoch=2)
    loop = ToyLoop(5)
    engine.run_attempt(toy_program(engine.scratch_root(), levels=3, settings=ToySettings(hook=kill, padding=padding)), loop)
    assert kill.marker.exists()
    assert loop.counts(1) == loop.counts(2) == expected_counts(5)
    assert {slot: len(pids) for slot, pids in loop.pids().items()} == {0: 1, 1: 2}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_python_workers_killed_in_mid_epoch_leave_results_exact(engine: SparkEngine, tmp_path: Path, level: int) -> None:
    marker = tmp_path / "marker"
    driver = os.getpid()

    def kill_workers(slot: int, running: int, command: EpochCommand) -> None:
        if (slot, running, command.epoch) == (1, level, 2) and not marker.exists():
            marker.touch()
            for worker in _python_workers_of(driver):
                os.kill(worker.pid, signal.SIGKILL)

    loop = ToyLoop(5)
    engine.run_attempt(
        toy_program(engine.scratch_root(), levels=3, settings=ToySettings(hook=kill_workers, padding=200_000)), loop
    )
    assert marker.exists()
    assert loop.counts(1) == loop.counts(2) == expected_counts(5)


def test_a_long_epoch_keeps_the_hosts_that_have_nothing_to_do(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkish.engine.spark.engine._SIGN_OF_LIFE_S", 0.5)
    monkeypatch.setattr(
        HostConfig.__init__, "__kwdefaults__", {**(HostConfig.__init__.__kwdefaults__ or {}), "silence_ms": 4_000}
    )

    def linger(slot: int, level: int, command: EpochCommand) -> None:
        if (slot, level, command.epoch) == (0, 1, 1):
            threading.Event().wait(6)

    loop = ToyLoop(3)
    engine.run_attempt(toy_program(engine.scratch_root(), levels=2, settings=ToySettings(hook=linger)), loop)
    assert loop.counts() == expected_counts(3)
    assert [len(pids) for pids in loop.pids().values()] == [1, 1]


def test_a_slot_host_killed_between_epochs_leaves_results_exact(engine: SparkEngine) -> None:
    loop = ToyLoop(5)

    def kill(epoch: int) -> None:
        if epoch == 3:
            for report in loop.reports[-1]:
                if report.level == 0:
                    os.kill(report.process["pid"], signal.SIGKILL)

    loop.before = kill
    engine.run_attempt(toy_program(engine.scratch_root(), levels=2), loop)
    assert loop.counts() == expected_counts(5)
    assert [len(pids) for pids in loop.pids().values()] == [2, 2]
