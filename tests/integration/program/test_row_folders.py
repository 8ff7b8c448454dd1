"""Temporary folders of rows are private, and those of killed processes are removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.common import Configuration
from flinkish.common.errors import EngineError
from flinkish.program.row_folders import hold_rows, remove_rows, row_folder
from tests.kit.child import python


def settings(folder: Path, **given: str) -> Configuration:
    return Configuration.from_dict({"io.tmp.dirs": str(folder), **given})


def killed(folder: Path, job_id: str, ending: str = "os.kill(os.getpid(), signal.SIGKILL)") -> Path:
    """Return the folder that a process has held until its end, with a row in it."""
    script = (
        "import os, signal\nfrom pathlib import Path\nfrom flinkish.common import Configuration\n"
        "from flinkish.program.row_folders import hold_rows, row_folder\n"
        f"settings = Configuration.from_dict({{'io.tmp.dirs': {str(folder)!r}}})\n"
        f"held = hold_rows(settings, {job_id!r})\n(row_folder(settings, {job_id!r}) / 'row').touch()\n{ending}\n"
    )
    python("-c", script, status=None)
    return row_folder(settings(folder), job_id)


def test_only_its_owner_can_read_it_whatever_the_umask_is(tmp_path: Path) -> None:
    held = hold_rows(settings(tmp_path), "a")
    assert held is not None
    assert row_folder(settings(tmp_path), "a").stat().st_mode & 0o777 == 0o700
    remove_rows(settings(tmp_path), "a")
    held.release()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_job_with_rows(tmp_path: Path) -> None:
    left = killed(tmp_path, "a")
    assert (left / "row").exists()
    held = hold_rows(settings(tmp_path), "b")
    assert held is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == [left.name[:-1] + "b", left.name[:-1] + "b.lock"]


def test_the_folder_of_a_running_process_stays(tmp_path: Path) -> None:
    first = hold_rows(settings(tmp_path), "a")
    killed(tmp_path, "b", ending="")
    second = hold_rows(settings(tmp_path), "c")
    assert (first, second) != (None, None)
    names = {path.name[-1] for path in tmp_path.iterdir() if path.is_dir()}
    assert names == {"a", "c"}


def test_a_folder_that_a_savepoint_needs_stays_after_a_kill(tmp_path: Path) -> None:
    left = killed(tmp_path, "a", ending="held.release()")
    hold_rows(settings(tmp_path), "b")
    assert (left / "row").exists()


def test_a_job_that_is_started_again_while_its_first_process_still_runs_does_not_wait_for_it(tmp_path: Path) -> None:
    first, second = hold_rows(settings(tmp_path), "a"), hold_rows(settings(tmp_path), "a")
    assert first is not None
    assert second is not None


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    row_folder(settings(tmp_path), "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="belongs to someone else or is a link"):
        hold_rows(settings(tmp_path), "a")


def test_rows_beside_checkpoints_are_not_held(tmp_path: Path) -> None:
    assert hold_rows(settings(tmp_path, **{"execution.checkpointing.dir": str(tmp_path / "c")}), "a") is None
