"""kill -9 of everything while windows are open, records wait for partners, calls are under way and lists are half full.

The job has one operator of each kind that keeps something; killed and started again, at the same or another parallelism, it gives
what an uninterrupted run gives: nothing lost, nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flinkish.datastream import StreamExecutionEnvironment
from tests.conftest import locally
from tests.kit.waiting import wait_for_checkpoints
from tests.recovery.conftest import Start
from tests.recovery.every_operator_job import RECORDS, STATEFUL, build, expected
from tests.recovery.folder_sink import committed_rows
from tests.recovery.ledgers import last_figures
from tests.recovery.processes import running
from tests.recovery.verifier import Findings, compare

_HA = "-Dhigh-availability.cluster-id=recovery"
_CALL = "while calls are under way"
#: Where the job is killed; the counts let some checkpoints complete before.
_POINTS = {
    "in the middle of a later level": "P4:sleep=120000:nth=16",
    "state files written, not committed": "P8:sleep=120000:nth=30",
    "checkpoint committed, sinks not": "P10:sleep=120000:nth=2",
}
#: The subtasks of a slot share a process there, those of the local engine one: the point is reached less often.
_ON_SPARK = {**_POINTS, "state files written, not committed": "P8:sleep=120000:nth=14"}
#: Where it is killed one time after the other, and at which parallelism it ran then; the last one ends by itself.
_LIVES = {
    "local": [
        (_CALL, 2),
        ("in the middle of a later level", 2),
        ("state files written, not committed", 3),
        ("checkpoint committed, sinks not", 1),
        ("", 3),
    ],
    "spark": [(_CALL, 2), ("state files written, not committed", 2), ("", 3)],
}


def _text(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows as lines, which can be counted: some hold lists."""
    return [(json.dumps(row),) for row in rows]


def findings(output: Path) -> Findings:
    """Compare what is visible with what has to come."""
    return compare(_text(map(_unversioned, committed_rows(output / "rows"))), _text(map(_unversioned, expected())), ordered=False)


def _unversioned(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of the tumbling windows as a changed program makes it."""
    if row[0] != "tumbling":
        return row
    _, key, start, _, _, (count, total) = row
    return "changed", key, start, count, total


def operators_in_checkpoint(output: Path) -> set[str]:
    """Return which operators have state in the checkpoint that a killed job left behind."""
    (root,) = (output / "checkpoints").glob("*/state")
    return set(DeltaTable(root).to_pyarrow_table(columns=["operator_uid"])["operator_uid"].to_pylist())


def assert_killed_in_the_middle(output: Path, before: int) -> int:
    """What is visible is a part of what has to come, and no less than before; all operators are in the middle of something."""
    found = findings(output)
    assert (found.duplicated, found.unexpected) == ((), ())
    assert found.lost
    assert operators_in_checkpoint(output) >= STATEFUL
    seen = len(expected()) - len(found.lost)
    assert seen >= before
    return seen


def assert_as_if_uninterrupted(output: Path, parallelism: int) -> None:
    assert findings(output) == Findings()
    assert sorted(int(file.name) for file in (output / "ledger" / "numbers").iterdir()) == list(range(RECORDS))
    totals, counts = last_figures(output / "ledger" / "totals"), last_figures(output / "census")
    assert (len(totals), sum(totals)) == (parallelism, RECORDS)
    assert counts == [RECORDS] * parallelism


def run_until_killed(on: str, output: Path, point: str, parallelism: int) -> None:
    marker = output / f"killed {point}"
    command = [f"--engine={on}", f"--output={output}", f"--parallelism={parallelism}", _HA]
    points = _POINTS if on == "local" else _ON_SPARK
    fault = None if point == _CALL else f"{points[point]}:once={marker}"
    held = [f"--held={marker}"] if point == _CALL else []
    with running(*command, *held, log=output / "log", fault=fault, script="every_operator_job.py") as job:
        job.wait_until(point, marker.exists)
        job.kill_all()


@pytest.mark.kill
@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])])
def test_a_job_killed_again_and_again_goes_on_with_all_that_its_operators_held(on: str, tmp_path: Path) -> None:
    *killed, (_, last) = _LIVES[on]
    seen = 0
    for point, parallelism in killed:
        run_until_killed(on, tmp_path, point, parallelism)
        seen = assert_killed_in_the_middle(tmp_path, seen)
    command = [f"--engine={on}", f"--output={tmp_path}", f"--parallelism={last}", _HA]
    with running(*command, log=tmp_path / "log", script="every_operator_job.py") as job:
        job.assert_finished()
    assert_as_if_uninterrupted(tmp_path, last)


def changed(env: StreamExecutionEnvironment, output: Path) -> None:
    build(env, output, changed=True)


@locally
def test_a_changed_program_goes_on_from_a_savepoint_at_another_parallelism(start: Start, tmp_path: Path) -> None:
    client = start(build=build)
    wait_for_checkpoints(client)
    savepoint = client.stop_with_savepoint(False).result(120)
    client.get_job_execution_result().result(120)
    before = list(committed_rows(tmp_path / "rows"))
    assert {row[0] for row in before} >= {"tumbling", "sliding"}
    client = start({"execution.state-recovery.path": savepoint}, parallelism=3, build=changed)
    client.get_job_execution_result().result(120)
    after = list(committed_rows(tmp_path / "rows"))[len(before) :]
    assert "changed" in {row[0] for row in after}
    assert "tumbling" not in {row[0] for row in after}
    assert_as_if_uninterrupted(tmp_path, 3)
