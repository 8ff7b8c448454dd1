"""Snapshots that are written while later epochs run, slowly, in jobs that fail, lose processes, are stopped: results are exact.

The local engine writes them at once; here its slots have the threads that slot hosts have.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flinkish.engine.local import engine as local_engine
from flinkish.runtime.protocol import EpochCommand, Frame, LevelResult, StateFile
from flinkish.runtime.slot import SlotTask
from flinkish.runtime.state.heap.snapshot import HeapSnapshot
from flinkish.runtime.uploads import UploadThread
from tests.conftest import MakeEnvironment, locally
from tests.kit.restarts import restarting
from tests.kit.waiting import wait_for_checkpoints
from tests.recovery import failing_job, keyed_timers_job
from tests.recovery.conftest import Start
from tests.recovery.verifier import Findings, assert_golden, compare, table_rows

pytestmark = locally

_PAUSE = threading.Event()


class Background:
    """How slowly snapshots are written, and how often a slot loses its process, as far as state and uploads go."""

    def __init__(self) -> None:
        self.rng = random.Random(5)
        self.longest_s = 0.15
        #: The first snapshots take so long.
        self.slow = 0
        self.slow_s = 0.0
        self.losses = 0.0
        self.loses_at_end = False
        self.lost = 0
        #: Epochs that ran while a snapshot was written.
        self.overlapped: set[int] = set()
        self.writing = 0

    def upload(self, snapshot: HeapSnapshot, *arguments: Any) -> tuple[StateFile, ...]:
        self.writing += 1
        try:
            self.slow -= 1
            _PAUSE.wait(self.slow_s if self.slow >= 0 else self.rng.uniform(0, self.longest_s))
            return _upload(snapshot, *arguments)
        finally:
            self.writing -= 1


_upload = HeapSnapshot.upload


@pytest.fixture(autouse=True)
def background(monkeypatch: pytest.MonkeyPatch) -> Background:
    how = Background()

    class Slot(SlotTask):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options, uploads=UploadThread())

        def run_level(self, level: int, command: EpochCommand, state: bytes | None, frames: Sequence[Frame] = ()) -> LevelResult:
            if level > 0 and how.writing and command.barrier is None:
                how.overlapped.add(command.epoch)
            ends = how.loses_at_end and command.barrier is not None and command.barrier.waits
            if not command.farewell and (ends or how.rng.random() < how.losses):
                how.lost += 1
                for each in list(self._levels):
                    self._discard(each)
            return super().run_level(level, command, state, frames)

    monkeypatch.setattr(local_engine, "SlotTask", Slot)
    monkeypatch.setattr(HeapSnapshot, "upload", lambda snapshot, *rest: how.upload(snapshot, *rest))
    monkeypatch.setattr("flinkish.runtime.uploads._GRACE_MS", 5)
    return how


def test_epochs_go_on_while_snapshots_are_written(start: Start, background: Background, tmp_path: Path) -> None:
    client = start()
    client.get_job_execution_result().result(120)
    counts = client.job_master.checkpoints.figures().counts
    assert counts.completed > 2
    assert counts.failed == 0
    assert len(background.overlapped) > 5
    assert_golden(tmp_path)


@pytest.mark.parametrize("concurrent", [1, 3])
def test_processes_that_are_lost_at_random_cost_checkpoints_but_nothing_else(
    start: Start, background: Background, tmp_path: Path, concurrent: int
) -> None:
    background.losses = 0.05
    client = start({"execution.checkpointing.max-concurrent-checkpoints": concurrent})
    client.get_job_execution_result().result(120)
    figures = client.job_master.checkpoints.figures()
    assert background.lost > 2
    assert figures.counts.completed > 0
    assert figures.counts.failed > 0
    assert client.figures().restarts == 0
    assert_golden(tmp_path)


def test_what_sinks_prepared_at_the_end_of_their_input_is_not_lost_with_their_process(
    start: Start, background: Background, tmp_path: Path
) -> None:
    background.loses_at_end = True
    client = start({"execution.checkpointing.interval": "1 h"})
    client.get_job_execution_result().result(120)
    assert background.lost > 2
    assert_golden(tmp_path)


def test_a_job_that_fails_at_many_places_goes_on_from_the_last_complete_checkpoint(
    make_job_env: MakeEnvironment, background: Background, tmp_path: Path
) -> None:
    places = ["process_element", "on_timer", "reader", "flush of the writer", "committer, half-way", "committer, after it"]
    restarts = restarting(len(places), "1 ms")
    env = make_job_env(2, restarts)
    faults = failing_job.build(env, tmp_path, places)
    client: Any = env.execute_async("failing")
    client.get_job_execution_result().result(250)
    assert faults.happened() == set(places)
    assert_golden(tmp_path)


@pytest.mark.parametrize("drain", [False, True])
def test_nothing_is_processed_behind_the_barrier_of_a_stop(
    start: Start, background: Background, tmp_path: Path, drain: bool
) -> None:
    stopped = start(build=lambda env, output: keyed_timers_job.build(env, output, pause=0.003))
    wait_for_checkpoints(stopped)
    path = stopped.stop_with_savepoint(drain).result(120)
    stopped.get_job_execution_result().result(120)
    seen = compare(table_rows(tmp_path / "table"), keyed_timers_job.expected(), ordered=False)
    assert seen == Findings(lost=seen.lost)
    if drain:
        return
    again = start({"execution.state-recovery.path": path}, parallelism=3)
    again.get_job_execution_result().result(120)
    assert_golden(tmp_path)


def test_checkpoints_that_take_too_long_expire_and_the_job_ends_with_its_last_one(
    start: Start, background: Background, tmp_path: Path
) -> None:
    background.slow, background.slow_s, background.longest_s = 2, 4.0, 0.0
    settings = {"execution.checkpointing.timeout": "2 s", "execution.checkpointing.tolerable-failed-checkpoints": 1_000}
    client = start(settings, build=lambda env, output: keyed_timers_job.build(env, output, pause=0.01))
    client.get_job_execution_result().result(120)
    counts = client.job_master.checkpoints.figures().counts
    assert counts.failed > 0
    assert counts.completed > 1
    assert_golden(tmp_path)
