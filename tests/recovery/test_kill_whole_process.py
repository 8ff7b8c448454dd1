"""kill -9 of everything at each crash point; the same command, at another parallelism, gives the golden output in the end.

A job on the local engine is one process, which kills itself. On Spark: test_kill_parts.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recovery import keyed_timers_job
from tests.recovery.processes import running
from tests.recovery.verifier import Findings, assert_golden, compare, table_rows

pytestmark = pytest.mark.kill

#: When, at which parallelism and with which state backend the job was killed; the counts let some checkpoints complete before.
#: Each life goes on where the last one ended.
_LIVES = {
    "in the middle of an epoch": ("P3:kill9:nth=17", 2, "hashmap"),
    "in the middle of a later level": ("P4:kill9:nth=18", 3, "hashmap"),
    "sink files written, state not": ("P6:kill9:nth=19", 1, "hashmap"),
    "state files written, not committed": ("P8:kill9:nth=5", 2, "rocksdb"),
    "manifest written, not committed": ("P9:kill9:nth=3", 2, "rocksdb"),
    "checkpoint committed, sinks not": ("P10:kill9:nth=3", 3, "rocksdb"),
    "checkpoint committed, sinks not, again": ("P10:kill9:nth=3", 2, "hashmap"),
    "sinks committed": ("P11:kill9:nth=3", 2, "hashmap"),
    "while it restores": ("P15:kill9", 3, "hashmap"),
    "while it restores, again": ("P15:kill9", 1, "hashmap"),
    "checkpoint committed, marker moved": ("P12:kill9:nth=3", 2, "hashmap"),
    "between two deletes of the clean-up": ("P14:kill9:nth=4", 1, "hashmap"),
}
_RECORDS = 2_500
_SETTINGS = ["-Dhigh-availability.cluster-id=recovery", "-Dexecution.checkpointing.incremental=true"]


def test_a_job_killed_at_each_point_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    command = ["--engine=local", f"--output={tmp_path}", f"--records={_RECORDS}", *_SETTINGS]
    for point, (fault, parallelism, backend) in _LIVES.items():
        life = [f"--parallelism={parallelism}", f"-Dstate.backend.type={backend}"]
        with running(*command, *life, log=tmp_path / "log", fault=fault) as job:
            assert job.finish() == -9, f"{point}: {job.output()}"
        # What is visible is a part of what has to come.
        findings = compare(table_rows(tmp_path / "table"), keyed_timers_job.expected(_RECORDS), ordered=False)
        assert (findings.duplicated, findings.unexpected) == ((), ()), point
        assert findings.lost, point
    with running(*command, "--parallelism=3", log=tmp_path / "log") as job:
        job.assert_finished()
    assert_golden(tmp_path, _RECORDS)


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
