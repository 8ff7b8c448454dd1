"""Folders for scratch files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError
from flinkish.common.ids import random_id
from flinkish.engine.executor import create_engine
from flinkish.engine.scratch import DiskFolder, make_folder, remove_orphans, temporary_folder

PREFIX = "flinkish-test"
#: No process has this pid: it is larger than the kernel's maximum.
GONE = 2**22 + 1


def test_scratch_files_are_refused_in_an_object_store() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"io\.tmp\.dirs = 's3://\*\*\*@bucket/x': scratch files .* not at s3",
    ):
        temporary_folder(Configuration.from_dict({"io.tmp.dirs": "s3://me:hush@bucket/x"}))
    assert temporary_folder(Configuration.from_dict({"io.tmp.dirs": "/mnt/a"})) == "/mnt/a"


def test_the_local_engine_has_its_scratch_files_below_the_folder_that_is_set(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    configuration = Configuration.from_dict({"execution.engine": "local", "io.tmp.dirs": str(temporary)})
    engine = create_engine(configuration, SystemClock(), random_id)
    root = engine.scratch_root()
    assert (root.parent, root.stat().st_mode & 0o777) == (temporary, 0o700)
    assert engine.scratch_root() == root
    engine.close()
    assert list(temporary.iterdir()) == []


def test_a_folder_below_a_relative_one_is_removed_from_wherever_the_program_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = DiskFolder("temporary", PREFIX)
    made = folder.path()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert made.is_dir()
    folder.remove()
    assert list((tmp_path / "temporary").iterdir()) == []


def _parts(folder: Path) -> tuple[int, int, int]:
    """Return the parts of a folder's name for the pid, the start time and the pid namespace."""
    pid, _, created, namespace, _ = folder.name.removeprefix(f"{PREFIX}-{os.getuid()}-").split("-")
    return int(pid), int(created, 16), int(namespace, 16)


def _name(pid: int, rest: str) -> str:
    return f"{PREFIX}-{os.getuid()}-{pid}-{rest}-abc"


def test_a_folder_of_an_earlier_version_stays_while_its_process_runs_and_goes_with_it(
    tmp_path: Path,
) -> None:
    mine = make_folder(tmp_path, PREFIX)
    # Their start times were seconds since the epoch.
    alive, gone = (tmp_path / _name(pid, f"1764000000-{_parts(mine)[2]}") for pid in (os.getpid(), GONE))
    for folder in (alive, gone):
        folder.mkdir()

    remove_orphans(tmp_path, PREFIX)

    assert (mine.exists(), alive.exists(), gone.exists()) == (True, True, False)


def test_a_folder_whose_name_has_another_format_is_never_removed(
    tmp_path: Path,
) -> None:
    pid, _, namespace = _parts(make_folder(tmp_path, PREFIX))
    others = [tmp_path / _name(each, f"f3-5-{namespace:x}") for each in (pid, GONE)]
    others += [
        tmp_path / _name(GONE, "f2"),
        tmp_path / f"{PREFIX}-{os.getuid()}-of-a-user",
    ]
    for folder in others:
        folder.mkdir()

    remove_orphans(tmp_path, PREFIX)

    assert all(folder.exists() for folder in others)


def test_earlier_versions_find_no_start_time_in_the_name_of_a_folder(
    tmp_path: Path,
) -> None:
    # They took what follows the pid for it, and left folders without one alone.
    folder = make_folder(tmp_path, PREFIX)

    assert not folder.name.removeprefix(f"{PREFIX}-{os.getuid()}-{os.getpid()}-").partition("-")[0].isdigit()


def test_folders_of_processes_that_have_ended_are_removed(tmp_path: Path) -> None:
    pid, created, namespace = _parts(make_folder(tmp_path, PREFIX))
    gone = tmp_path / _name(GONE, f"f2-{created:x}-{namespace:x}")
    reused = tmp_path / _name(pid, f"f2-{created - 100:x}-{namespace:x}")
    elsewhere = tmp_path / _name(GONE, f"f2-{created:x}-{namespace + 1:x}")
    for folder in (gone, reused, elsewhere):
        folder.mkdir()

    remove_orphans(tmp_path, PREFIX)

    assert (gone.exists(), reused.exists(), elsewhere.exists()) == (False, False, True)
