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


def test_slot_hosts_killed_in_mid_epoch_and_between_two_leave_results_exact(engine: SparkEngine, tmp_path: Path) -> None:
    kills = [KillOnce(tmp_path / f"level {level}", slot=1, level=level, epoch=1 + level) for level in range(3)]

    def kill(slot: int, level: int, command: EpochCommand) -> None:
        kills[level](slot, level, command)

    loop = ToyLoop(6)

    def kill_all(epoch: int) -> None:
        if epoch == 5:
            for pid in {report.process["pid"] for report in loop.reports[-1]}:
                os.kill(pid, signal.SIGKILL)

    loop.before = kill_all
    engine.run_attempt(toy_program(engine.scratch_root(), levels=3, settings=ToySettings(hook=kill)), loop)
    assert all(kill.marker.exists() for kill in kills)
    assert loop.counts(1) == loop.counts(2) == expected_counts(6)
    assert {slot: len(pids) for slot, pids in loop.pids().items()} == {0: 2, 1: 5}


def test_processes_killed_while_large_frames_wait_in_files_leave_results_exact(engine: SparkEngine, tmp_path: Path) -> None:
    """A repeated task reads the frames again."""
    driver = os.getpid()
    workers = [tmp_path / f"workers, level {level}" for level in range(3)]
    hosts = [KillOnce(tmp_path / f"host, level {level}", slot=1, level=level, epoch=3 + level) for level in (1, 2)]

    def kill(slot: int, level: int, command: EpochCommand) -> None:
        if (slot, command.epoch) == (1, 1 + level) and not workers[level].exists():
            workers[level].touch()
            for worker in _python_workers_of(driver):
                os.kill(worker.pid, signal.SIGKILL)
        for host in hosts:
            host(slot, level, command)

    loop = ToyLoop(7)
    settings = ToySettings(hook=kill, padding=200_000)
    engine.run_attempt(toy_program(engine.scratch_root(), levels=3, settings=settings), loop)
    assert all(marker.exists() for marker in [*workers, *(host.marker for host in hosts)])
    assert loop.counts(1) == loop.counts(2) == expected_counts(7)


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
