"""Another process imports and opens what was laid out or packed for it."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.engine.dependencies import dependencies_of, pack_python_files, stage
from flinkish.program.program import CachedFile, PythonArchive
from flinkish.runtime.protocol import Dependencies
from tests.kit.child import python
from tests.unit.engine.test_dependencies import PROGRAM

TAKE_OVER = """
import os, sys
from pathlib import Path
from flinkish.engine.dependencies import take_over
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
    return dependencies_of(
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
    found = python("-c", TAKE_OVER, attempt)
    assert found.stdout == "file folder zip ['data', 'run'] text\n"


def test_python_files_are_packed_for_executors_that_share_no_folder(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("NAME = 'file'")
    (tmp_path / "folder" / "two" / "__pycache__").mkdir(parents=True)
    (tmp_path / "folder" / "two" / "__init__.py").write_text("NAME = 'folder'")
    (tmp_path / "folder" / "two" / "__pycache__" / "x.pyc").touch()
    with zipfile.ZipFile(tmp_path / "a:b.whl", "w") as file:
        file.writestr("three.py", "NAME = 'zip'")
    names = ("one.py", "folder", "a:b.whl")
    entries = pack_python_files([str(tmp_path / name) for name in names], tmp_path / "packed.zip")
    with zipfile.ZipFile(tmp_path / "packed.zip") as packed:
        assert not [name for name in packed.namelist() if "pycache" in name]
        packed.extractall(tmp_path / "executor")
    path = os.pathsep.join(str(tmp_path / "executor" / entry) for entry in entries)
    found = python("-c", "import one, two, three; print(one.NAME, two.NAME, three.NAME)", PYTHONPATH=path)
    assert found.stdout == "file folder zip\n"
