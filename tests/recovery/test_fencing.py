"""Several driver processes and one job: exactly one of them makes effects, the others end with StaleGenerationError, soon."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.recovery.processes import Job, running
from tests.recovery.verifier import assert_golden, table_rows

pytestmark = pytest.mark.kill

_HA = "-Dhigh-availability.cluster-id=fencing"
#: The loser is out within ten seconds on a machine that does nothing else; other tests run at the same time.
_OUT_WITHIN = 40.0


def generation(output: Path) -> int:
    """Return how often the job was taken over, 0 if it has no checkpoints (any more)."""
    for root in (output / "checkpoints").glob("*/state"):
        with suppress(Exception):  # it is just being made, or deleted
            return (DeltaTable(root).transaction_version(root.parent.name) or 0) // 10**9
    return 0


def assert_superseded(job: Job, timeout: float = _OUT_WITHIN) -> None:
    assert job.finish(timeout) == 1, job.output()
    assert "StaleGenerationError" in job.output()
    job.assert_nothing_left()


def test_of_two_drivers_that_start_at_once_one_makes_all_the_effects(tmp_path: Path) -> None:
    command = ["--engine=local", f"--output={tmp_path}", _HA, "--pause=0.003"]
    with running(*command, log=tmp_path / "a") as a, running(*command, log=tmp_path / "b") as b:
        codes = [a.finish(), b.finish()]
        assert sorted(codes) == [0, 1], a.output() + b.output()
        loser = a if codes[0] == 1 else b
        assert_superseded(loser)
    assert_golden(tmp_path)


def test_a_driver_that_is_taken_over_ends_within_seconds_also_between_two_checkpoints(tmp_path: Path) -> None:
    command = ["--engine=local", f"--output={tmp_path}", _HA]
    # The first one idles, or works, for ever: its next checkpoint is an hour away.
    slow = ["--records=1000000000", "-Dexecution.checkpointing.interval=1 h"]
    marker = tmp_path / "running"
    with running(*command, *slow, log=tmp_path / "a", fault=f"P3:sleep=1:nth=5:once={marker}") as a:
        a.wait_until("the first runs", marker.exists)
        assert generation(tmp_path) == 1
        with running(*command, log=tmp_path / "b") as b:
            b.wait_until("the second has taken the job over", lambda: generation(tmp_path) != 1)
            assert_superseded(a)
            b.assert_finished()
    assert_golden(tmp_path)


@pytest.mark.parametrize(
    ("on", "faults", "finished"),
    [
        ("local", ["P3:stop:nth=17", "P9:stop:nth=3", "P10:stop:nth=3"], False),
        ("local", ["P9:stop:nth=3", "P10:stop:nth=3", "P14:stop:nth=4"], True),
        # The driver is the same on both engines.
        pytest.param("spark", ["P9:stop:nth=2"], False, marks=[pytest.mark.spark, pytest.mark.soak]),
    ],
)
def test_drivers_that_stood_still_while_others_went_on_change_nothing_when_they_wake(
    on: str, faults: list[str], finished: bool, tmp_path: Path
) -> None:
    """Each stands in the middle of a checkpoint; the last one has completed some of its own then, or the whole job."""
    command = [f"--engine={on}", f"--output={tmp_path}", _HA]
    with ExitStack() as stack:
        zombies = []
        for number, fault in enumerate(faults):
            marker = tmp_path / f"stopped {number}"
            zombie = stack.enter_context(running(*command, log=tmp_path / f"log {number}", fault=f"{fault}:once={marker}"))
            # The marker is made a moment before: a process that is woken in between stops itself after that.
            zombie.wait_until("it stands still", zombie.stands_still)
            zombie.signal_all(signal.SIGSTOP)
            zombies.append(zombie)
        pause = "0.001" if finished else "0.003"
        other = stack.enter_context(running(*command, f"--pause={pause}", log=tmp_path / "log of the last"))
        if finished:
            other.assert_finished()
        else:
            before = len(table_rows(tmp_path / "table"))
            other.wait_until("the last one commits", lambda: len(table_rows(tmp_path / "table")) > before)
        woken = time.monotonic()
        for zombie in zombies:
            zombie.signal_all(signal.SIGCONT)
        for zombie in zombies:
            assert_superseded(zombie)
        assert time.monotonic() - woken < _OUT_WITHIN + 5
        if not finished:
            other.assert_finished()
    assert_golden(tmp_path)
    # What the finished job has deleted is not made again.
    assert [path.name for path in (tmp_path / "checkpoints").glob("*/state")] == []
