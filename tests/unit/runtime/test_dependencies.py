"""Laying out files for the tasks, and taking them over in a process of the tasks' own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.common import Configuration
from flinkish.common.errors import ConfigurationError, InvalidProgramError
from flinkish.common.execution_config import ExecutionConfig
from flinkish.datastream.program import CachedFile, Program, PythonArchive
from flinkish.runtime.dependencies import NO_DEPENDENCIES, Dependencies, stage, working_folder

PROGRAM = Program(
    job_name="test",
    transformations={},
    configuration=Configuration(),
    execution_config=ExecutionConfig(),
    parallelism=1,
    max_parallelism=-1,
    chaining=True,
    chaining_with_different_max_parallelism=True,
    buffer_timeout=100,
)
TAKE_OVER = """
import os, sys
from pathlib import Path
from flinkish.runtime.dependencies import take_over
take_over(Path(sys.argv[1]))
import one, two, three
print(one.NAME, two.NAME, three.NAME, sorted(os.listdir()), open("data/a.txt").read())
"""


@pytest.fixture
def brought(tmp_path: Path) -> Dependencies:
    (tmp_path / "one.py").write_text("NAME = 'file'", encoding="utf-8")
    (tmp_path / "folder" / "__pycache__").mkdir(parents=True)
    (tmp_path / "folder" / "two.py").write_text("NAME = 'folder'", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as file:
        file.writestr("three.py", "NAME = 'zip'")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as file:
        file.writestr("a.txt", "text")
        tool = zipfile.ZipInfo("bin/tool")
        tool.external_attr = 0o755 << 16
        file.writestr(tool, "#!/bin/sh\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    return Dependencies.of(
        replace(
            PROGRAM,
            python_files=tuple(str(tmp_path / name) for name in ("one.py", "folder", "x.whl")),
            python_archives=(PythonArchive(path=str(tmp_path / "data.zip"), target_directory="data"),),
            cached_files=(CachedFile(name="run", path=str(tmp_path / "run.sh"), executable=True),),
        )
    )


@pytest.mark.parametrize("copy", [True, False])
def test_a_process_that_takes_over_imports_and_opens_what_was_laid_out(tmp_path: Path, brought: Dependencies, copy: bool) -> None:
    attempt = tmp_path / "attempt"
    work = stage(brought, attempt, copy=copy)
    assert work is not None
    assert os.access(work / "data" / "bin" / "tool", os.X_OK)
    assert os.access(work / "run", os.X_OK)
    assert not os.access(tmp_path / "run.sh", os.X_OK)
    if copy:  # nothing of the driver's machine is needed any more
        for name in ("one.py", "x.whl", "data.zip", "run.sh", "folder/two.py"):
            (tmp_path / name).unlink()
        assert not list(attempt.rglob("__pycache__"))
    found = subprocess.run(
        [sys.executable, "-c", TAKE_OVER, str(attempt)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert found.stdout == "file folder zip ['data', 'run'] text\n"


def test_a_program_that_brings_nothing_along_costs_nothing(tmp_path: Path) -> None:
    assert Dependencies.of(PROGRAM) == NO_DEPENDENCIES
    assert stage(NO_DEPENDENCIES, tmp_path, copy=True) is None
    assert list(tmp_path.iterdir()) == []


def test_an_archive_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        member = tarfile.TarInfo("../../escaped")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    archive = PythonArchive(path=str(tmp_path / "evil.tar"), target_directory="evil")
    with pytest.raises(InvalidProgramError, match=r"evil\.tar cannot be unpacked"):
        stage(Dependencies(archives=(archive,)), tmp_path / "attempt", copy=False)
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize("target", ["/etc", "../up", "a/../../b"])
def test_a_target_outside_of_the_working_folder_is_refused(tmp_path: Path, target: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("a", "a")
    archive = PythonArchive(path=str(tmp_path / "a.zip"), target_directory=target)
    with pytest.raises(InvalidProgramError, match="inside of the tasks' working folder"):
        Dependencies.of(replace(PROGRAM, python_archives=(archive,)))


@pytest.mark.parametrize("entry", ["a.txt", "name:x", "path:/a", "name:x,path:/a,mode:7"])
def test_a_malformed_entry_of_the_cached_files_is_named(entry: str) -> None:
    configuration = Configuration()
    configuration.set_string("pipeline.cached-files", entry)
    with pytest.raises(ConfigurationError, match=r"pipeline\.cached-files.*name:n,path:p"):
        Dependencies.of(replace(PROGRAM, configuration=configuration))


def test_two_jobs_of_one_process_do_not_share_their_working_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    seen: list[str] = []

    def other() -> None:
        with working_folder(tmp_path / "b"):
            seen.append(os.getcwd())

    before = os.getcwd()
    with working_folder(tmp_path / "a"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        assert os.getcwd() == str(tmp_path / "a")
    thread.join()
    assert seen == [str(tmp_path / "b")]
    assert os.getcwd() == before
