"""The driver of a session's job: the program that it is given."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from flinkish.cli import driver
from flinkish.common.config_file import PROPERTIES_VARIABLE
from flinkish.common.errors import InvalidProgramError
from flinkish.server.session import driver_protocol
from tests.kit.own_process import keep_process


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


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_an_error_of_flinkish_is_told_without_its_own_frames(
    tmp_path: Path, packed: bool, full: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "from flinkish.common import Configuration\nConfiguration().set_string(1, 'x')\n"
    if packed:
        program = driver_protocol.Program(file=str(zipped(tmp_path / "all.zip", **{"sub/job.py": script})), entry_class="sub.job")
    else:
        (tmp_path / "job.py").write_text(script)
        program = driver_protocol.Program(file=str(tmp_path / "job.py"))
    keep_process(monkeypatch)
    monkeypatch.setenv(PROPERTIES_VARIABLE, f"-Dexecution.full-traceback={str(full).lower()}")

    assert driver._run(program, None) == 1

    told = capsys.readouterr().err
    assert "Configuration" in told
    assert ("in job.py line 2: Configuration().set_string(1, 'x')" in told) is not full
    assert ("Traceback" in told) is full


def test_what_a_killed_driver_has_unpacked_is_replaced(tmp_path: Path) -> None:
    path = zipped(tmp_path / "job.zip", **{"job.py": "pass"})
    (driver.unpacked(path) / "left.py").touch()
    assert [file.name for file in driver.unpacked(path).iterdir()] == ["job.py"]


def test_names_that_leave_the_folder_stay_in_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    driver.unpacked(zipped(inner / "job.zip", **{"../../out.py": "pass"}))
    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.py")] == ["inner/job/out.py"]


def test_a_program_that_is_too_large_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = zipped(tmp_path / "job.zip", **{"job.py": " " * 1_001})
    with pytest.raises(InvalidProgramError, match=r"job\.zip has 1,001 bytes when it is unpacked; at most 1,000 are allowed"):
        driver.unpacked(path, largest=1_000)
    assert not (tmp_path / "job").exists()
