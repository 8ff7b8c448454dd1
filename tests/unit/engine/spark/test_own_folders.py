"""Scratch folders of executors that share none with the driver."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from flinkish.common.errors import EngineError
from flinkish.engine.spark import scratch
from flinkish.engine.spark.scratch import check_cluster_settings, check_own_folders, make_own_folder, uri_in_own
from flinkish.program.program import CachedFile
from flinkish.runtime.protocol import Dependencies
from tests.spark.toy import toy_program


def test_the_place_is_another_one_for_each_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_own_folder(tmp_path)
    folder = root / "3" / "spark"
    assert root.parent == tmp_path
    assert root.stat().st_mode & 0o777 == 0o700
    assert uri_in_own(root, folder) == f"file:///proc/self/cwd/{root.name}/3/spark"
    monkeypatch.chdir(tmp_path)
    folder.mkdir(parents=True)
    assert os.path.samefile(uri_in_own(root, folder).removeprefix("file://"), folder)


def test_a_working_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=rf"(?s)working folder, {tmp_path}/file.*Hint: start the driver in a folder"):
        make_own_folder(tmp_path / "file")


def test_a_cluster_without_a_shared_folder_is_accepted_where_executors_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    check_cluster_settings("spark://host:7077", None, speculation=False)
    monkeypatch.setattr(scratch, "_WORKING_FOLDER", Path("/nowhere"))
    with pytest.raises(EngineError, match=r"(?s)The master is yarn.*Hint: set io.tmp.dirs"):
        check_cluster_settings("yarn", None, speculation=False)


@pytest.mark.parametrize(("master", "folder"), [("local[2]", None), ("local-cluster[2,1,1024]", None), ("yarn", Path("/mnt/x"))])
def test_reachable_scratch_folders_are_accepted(master: str, folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_WORKING_FOLDER", Path("/nowhere"))
    check_cluster_settings(master, folder, speculation=False)


def test_speculation_is_refused() -> None:
    with pytest.raises(EngineError, match=r"spark\.speculation"):
        check_cluster_settings("local", None, speculation=True)


def test_what_needs_a_shared_folder_is_refused(tmp_path: Path) -> None:
    program = toy_program(tmp_path)
    check_own_folders(program, temporary_checkpoints=False)
    with pytest.raises(EngineError, match=r"(?s)execution\.checkpointing\.dir is not set.*s3://"):
        check_own_folders(program, temporary_checkpoints=True)
    # Spark sends these.
    modules = dataclasses.replace(program, dependencies=Dependencies(own_modules="/a/program.zip"))
    check_own_folders(modules, temporary_checkpoints=False)
    files = dataclasses.replace(program, dependencies=Dependencies(python_files=("/a/module.py",)))
    check_own_folders(files, temporary_checkpoints=False)
    cached = CachedFile(name="a", path="/a", executable=False)
    files = dataclasses.replace(program, dependencies=Dependencies(python_files=("/a/module.py",), cached_files=(cached,)))
    with pytest.raises(EngineError, match=r"(?s)has archives, cached files.*Hint: set io\.tmp\.dirs .*--archives"):
        check_own_folders(files, temporary_checkpoints=False)
