"""kill -9 of everything at each crash point; the same command, at the same or another parallelism, gives the golden output.

The fault makes the process that reaches the point write a marker file and wait; then driver, JVM, workers and slot hosts are all
killed with -9. That the fault happened is asserted by the marker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recovery import keyed_timers_job
from tests.recovery.processes import running
from tests.recovery.verifier import Findings, assert_golden, compare, table_rows

pytestmark = pytest.mark.kill

#: Where and when; the counts let some checkpoints complete before.
_POINTS = {
    "in the middle of an epoch": "P3:sleep=120000:nth=17",
    "in the middle of a later level": "P4:sleep=120000:nth=18",
    "sink files written, state not": "P6:sleep=120000:nth=19",
    "state files written, not committed": "P8:sleep=120000:nth=5",
    "manifest written, not committed": "P9:sleep=120000:nth=3",
    "checkpoint committed, sinks not": "P10:sleep=120000:nth=3",
    "sinks committed": "P11:sleep=120000:nth=3",
    "checkpoint committed, marker moved": "P12:sleep=120000:nth=3",
    "between two deletes of the clean-up": "P14:sleep=120000:nth=4",
}
#: At which parallelism the job goes on, by engine. A start of Spark is dear: kills in mid epoch and before a commit are in
#: test_every_operator.py.
_CASES = {
    "local": [
        ("in the middle of an epoch", 3),
        ("in the middle of a later level", 1),
        ("sink files written, state not", 2),
        ("state files written, not committed", 2),
        ("manifest written, not committed", 3),
        ("checkpoint committed, sinks not", 2),
        ("checkpoint committed, sinks not", 3),
        ("sinks committed", 3),
        ("checkpoint committed, marker moved", 1),
        ("between two deletes of the clean-up", 2),
    ],
    "spark": [("checkpoint committed, sinks not", 3)],
}
_SETTINGS = ["-Dhigh-availability.cluster-id=recovery", "-Dexecution.checkpointing.incremental=true"]


@pytest.mark.parametrize(
    ("on", "point", "restarted_at"),
    [
        pytest.param(on, point, parallelism, marks=[pytest.mark.spark] if on == "spark" else [])
        for on, cases in _CASES.items()
        for point, parallelism in cases
    ],
)
def test_a_killed_job_goes_on_exactly_where_it_was(on: str, point: str, restarted_at: int, tmp_path: Path) -> None:
    marker = tmp_path / "fault happened"
    command = [f"--engine={on}", f"--output={tmp_path}", *_SETTINGS]
    with running(*command, log=tmp_path / "log", fault=f"{_POINTS[point]}:once={marker}") as job:
        job.wait_until(f"fault {point}", marker.exists)
        job.kill_all()
        seen = table_rows(tmp_path / "table")
    # What was visible then stays, and is a part of what has to come.
    findings = compare(seen, keyed_timers_job.expected(), ordered=False)
    assert (findings.duplicated, findings.unexpected) == ((), ())
    assert findings.lost
    with running(*command, f"--parallelism={restarted_at}", log=tmp_path / "log") as job:
        job.assert_finished()
    assert_golden(tmp_path)


@pytest.mark.parametrize(
    ("on", "before", "after"),
    [
        ("local", "hashmap", "rocksdb"),
        ("local", "rocksdb", "hashmap"),
        ("local", "rocksdb", "rocksdb"),
        pytest.param("spark", "rocksdb", "rocksdb", marks=pytest.mark.spark),
    ],
)
def test_a_killed_job_goes_on_with_the_same_or_another_state_backend(on: str, before: str, after: str, tmp_path: Path) -> None:
    marker = tmp_path / "fault happened"
    command = [f"--engine={on}", f"--output={tmp_path}", *_SETTINGS]
    fault = f"{_POINTS['checkpoint committed, sinks not']}:once={marker}"
    with running(*command, f"-Dstate.backend.type={before}", log=tmp_path / "log", fault=fault) as job:
        job.wait_until("the fault", marker.exists)
        job.kill_all()
    with running(*command, f"-Dstate.backend.type={after}", "--parallelism=3", log=tmp_path / "log") as job:
        job.assert_finished()
    assert_golden(tmp_path)


def test_a_job_killed_again_and_again_while_it_restores_loses_nothing(tmp_path: Path) -> None:
    command = ["--engine=local", f"--output={tmp_path}", *_SETTINGS]
    for number, fault in enumerate(["P11:kill9:nth=3", "P15:kill9", "P15:kill9", "P10:kill9", "P9:kill9:nth=2"]):
        with running(*command, f"--parallelism={1 + number % 3}", log=tmp_path / "log", fault=fault) as job:
            assert job.finish() == -9, job.output()
    with running(*command, log=tmp_path / "log") as job:
        job.assert_finished()
    assert_golden(tmp_path)


@pytest.mark.parametrize(("backend", "folders"), [("hashmap", 1), ("rocksdb", 2)])
def test_the_temporary_folders_of_a_killed_job_are_removed_by_the_next_one(backend: str, folders: int, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = ["--engine=local", f"--output={tmp_path}", *_SETTINGS, f"-Dstate.backend.type={backend}"]
    with running(*command, log=tmp_path / "log", fault="P10:kill9", temporary=temporary) as job:
        assert job.finish() == -9, job.output()
        assert len(job.folders_left()) == folders
    with running(*command, log=tmp_path / "log", temporary=temporary) as job:
        job.assert_finished()
    assert list(temporary.iterdir()) == []


def test_the_verifier_finds_what_is_seeded() -> None:
    wanted = [(0, 1), (0, 2), (0, -2), (1, 1)]
    assert compare(wanted, wanted, ordered=True) == Findings()
    assert compare(wanted[1:], wanted, ordered=True) == Findings(lost=((0, 1),))
    assert compare([*wanted, (0, -2)], wanted, ordered=True) == Findings(duplicated=((0, -2),))
    assert compare([*wanted, (7, 7)], wanted, ordered=True) == Findings(unexpected=((7, 7),))
    assert compare([(0, 2), (0, 1), (0, -2), (1, 1)], wanted, ordered=True) == Findings(out_of_order=((0, 1),))
