"""A job on columns is killed as a whole and started again at another parallelism: each row is in the table once."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.recovery import columns_job
from tests.recovery.processes import running

pytestmark = pytest.mark.kill


def rows(table: Path) -> list[tuple[int, int, str | None]]:
    found = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted((row["n"], row["double"], row["name"]) for row in found)


@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_killed_job_on_columns_loses_nothing_and_doubles_nothing(on: str, tmp_path: Path) -> None:
    columns_job.write_files(tmp_path / "files")
    command = [f"--engine={on}", f"--output={tmp_path}"]
    # In the middle of an epoch of a task; before, and after, the commit of a checkpoint to the table.
    for number, (point, parallelism) in enumerate([("P4", 2), ("P10", 3), ("P12", 1)]):
        marker = tmp_path / f"killed at {point}"
        fault = f"{point}:sleep=120000:nth={3 + number}:once={marker}"
        with running(*command, f"--parallelism={parallelism}", log=tmp_path / "log", fault=fault, script="columns_job.py") as job:
            job.wait_until(f"fault {fault}", marker.exists)
            job.kill_all()
    found = rows(tmp_path / "table")
    assert len(found) == len(set(found)) < len(columns_job.expected())
    with running(*command, "--parallelism=2", log=tmp_path / "log", script="columns_job.py") as job:
        job.assert_finished()
    assert rows(tmp_path / "table") == columns_job.expected()
