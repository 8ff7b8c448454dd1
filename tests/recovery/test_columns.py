"""A job on columns is killed as a whole and started again at another parallelism: each row is in the table once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.tables import rows_of
from tests.recovery import columns_job
from tests.recovery.processes import running

pytestmark = pytest.mark.kill


def rows(table: Path) -> list[tuple[int, int, str | None]]:
    return sorted(rows_of(table, "n", "double", "name"))


#: Where the job is killed one time after the other, in which of its visits there, and at which parallelism it runs then: in the
#: middle of an epoch of a task; before, and after, a checkpoint's commit to the table. These two are in the driver, which is the
#: same on both engines.
_KILLED = {"local": [("P4", 3, 2), ("P10", 4, 3), ("P12", 3, 1)], "spark": [("P4", 8, 3)]}


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])], indirect=True)
def test_a_killed_job_on_columns_loses_nothing_and_doubles_nothing(engine: str, tmp_path: Path) -> None:
    columns_job.write_files(tmp_path / "files")
    command = [f"--engine={engine}", f"--output={tmp_path}"]
    for point, time, parallelism in _KILLED[engine]:
        marker = tmp_path / f"killed at {point}"
        fault = f"{point}:sleep=120000:nth={time}:once={marker}"
        with running(*command, f"--parallelism={parallelism}", log=tmp_path / "log", fault=fault, script="columns_job.py") as job:
            job.wait_until(f"fault {fault}", marker.exists)
            job.kill_all()
    found = rows(tmp_path / "table")
    assert 0 < len(found) == len(set(found)) < len(columns_job.expected())
    columns_job.main([*command, "--parallelism=2"])
    assert rows(tmp_path / "table") == columns_job.expected()
