"""A job that keeps dead letters, killed with -9 around their commit and at random: each of them is in the table once.

    pytest -m soak tests/recovery/test_dead_letters.py

FLINKISH_SEED chooses what happens in the soak test (printed; the same seed makes the same choices).
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from flinkish.checkpoint.history import jobs_with_history, read_history
from tests.kit.seeds import chosen_seed
from tests.kit.tables import rows_of
from tests.recovery import dead_letters_job
from tests.recovery.processes import fatal, running

pytestmark = pytest.mark.kill

_SEED = chosen_seed()
_CYCLES = 20


def kept(folder: Path) -> list[str]:
    """Return the lines in the table, in order."""
    rows = rows_of(folder / "dead", "kind", "raw", "json")
    return sorted(raw.decode() if kind == "undecodable" else json.loads(text)[0] for kind, raw, text in rows)


def assert_part(folder: Path, numbers: int) -> int:
    """What is in the table is a part of what has to come, each line once; return how many there are."""
    found = kept(folder)
    assert len(set(found)) == len(found)
    assert set(found) <= set(dead_letters_job.expected(numbers))
    return len(found)


def assert_whole_history(folder: Path, completed: int) -> None:
    """The job's history has each completed checkpoint once, those before the kill as well."""
    (job_id,) = jobs_with_history(str(folder / "checkpoints"))
    events = read_history(str(folder / "checkpoints"), job_id)
    ids = [event.checkpoint_id for event in events if event.event == "checkpoint completed"]
    assert (len(ids), len(set(ids))) == (completed, completed)


def test_dead_letters_of_a_job_killed_around_their_commit_are_there_once(tmp_path: Path) -> None:
    numbers = 1_000
    dead_letters_job.write_input(tmp_path / "input", numbers)
    arguments = ["--engine=local", f"--output={tmp_path}"]
    before = completed = 0
    # Before the commit to the table, and after it.
    for parallelism, point in ((1, "P10"), (3, "P11")):
        fault = f"{point}:kill9:nth=3"
        options = [*arguments, f"--parallelism={parallelism}"]
        with running(*options, log=tmp_path / "log", fault=fault, script="dead_letters_job.py") as job:
            assert job.finish() == -9, job.output()
        assert_whole_history(tmp_path, completed := completed + 3)
        found = assert_part(tmp_path, numbers)
        assert before < found < len(dead_letters_job.expected(numbers))
        before = found
    with running(*arguments, log=tmp_path / "log", script="dead_letters_job.py") as job:
        job.assert_finished()
    assert kept(tmp_path) == dead_letters_job.expected(numbers)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_dead_letters_of_a_job_killed_at_random_are_there_once(on: str, tmp_path: Path) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(_SEED)
    # More than the cycles read, but no more than the last run can read on a busy machine: there, an epoch on Spark takes 1.5 s.
    numbers = 30_000 if on == "local" else 15_000
    dead_letters_job.write_input(tmp_path / "input", numbers)
    before = 0
    for cycle in range(_CYCLES):
        fault = fatal(rng, 8) if rng.random() < 0.5 else None
        options = [f"--engine={on}", f"--output={tmp_path}", "--pause=0.001", f"--parallelism={rng.randint(1, 4)}"]
        # Most are killed at work, some while they start.
        at_work, patience = rng.random() < 0.8, rng.uniform(0.0, 3.0)
        with running(*options, log=tmp_path / f"log {cycle}", fault=fault, script="dead_letters_job.py") as job:
            if at_work:
                job.wait_until("new dead letters, or its end", lambda: len(kept(tmp_path)) > before or job.has_ended())  # noqa: B023
            status = job.work_for(patience)
            job.kill_all()
        found = assert_part(tmp_path, numbers)
        print(f"cycle {cycle}: {options}, {fault}, {patience:.1f} s, {status}, {found} dead letters")
        assert status != 0, "the job ended, choose more numbers"
        assert found >= before
        before = found
    last = [f"--engine={on}", f"--output={tmp_path}", "--parallelism=2"]
    with running(*last, log=tmp_path / "log", script="dead_letters_job.py") as job:
        job.assert_finished(600)
    assert kept(tmp_path) == dead_letters_job.expected(numbers)
