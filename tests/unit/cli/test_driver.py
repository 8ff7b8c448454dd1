"""The driver of a session's job: the program that it is given."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from flinkish.cli import driver
from flinkish.common.errors import InvalidProgramError


def zipped(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_a_zip_file_is_unpacked_so_that_modules_find_files_beside_them(tmp_path: Path) -> None:
    path = zipped(tmp_path / "job.zip", **{"job.py": "pass", "data/names.csv": "ann"})
    folder = driver.unpacked(path)
    assert folder == tmp_path / "job"
    assert (folder / "data" / "names.csv").read_text() == "ann"


def test_what_a_killed_driver_has_unpacked_is_replaced(tmp_path: Path) -> None:
    path = zipped(tmp_path / "job.zip", **{"job.py": "pass"})
    (driver.unpacked(path) / "left.py").touch()
    assert [file.name for file in driver.unpacked(path).iterdir()] == ["job.py"]


def test_names_that_leave_the_folder_stay_in_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    driver.unpacked(zipped(inner / "job.zip", **{"../../out.py": "pass"}))
    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.py")] == ["inner/job/out.py"]


def test_a_program_that_is_too_large_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_LARGEST_PROGRAM", 1_000)
    path = zipped(tmp_path / "job.zip", **{"job.py": " " * 1_001})
    with pytest.raises(InvalidProgramError, match=r"job\.zip has 1,001 bytes when it is unpacked; at most 1,000 are allowed"):
        driver.unpacked(path)
    assert not (tmp_path / "job").exists()
