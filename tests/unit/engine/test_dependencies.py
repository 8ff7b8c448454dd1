"""Laying out files for the tasks, and taking them over in a process of the tasks' own."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.common import Configuration
from flinkish.common.errors import ConfigurationError, InvalidProgramError
from flinkish.engine.dependencies import dependencies_of, stage, working_folder
from flinkish.program.program import CachedFile, Program, PythonArchive
from flinkish.runtime.protocol import NO_DEPENDENCIES, Dependencies

PROGRAM = Program(job_name="test", transformations={}, configuration=Configuration())


def test_the_modules_of_the_program_itself_are_not_laid_out_because_the_engine_sends_them(tmp_path: Path) -> None:
    assert stage(Dependencies(own_modules="/a/program.zip"), tmp_path, copy=True) is None
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_brings_nothing_along_costs_nothing(tmp_path: Path) -> None:
    assert dependencies_of(PROGRAM) == NO_DEPENDENCIES
    assert stage(NO_DEPENDENCIES, tmp_path, copy=True) is None
    assert list(tmp_path.iterdir()) == []


LINK = 0o120777


def pack(path: Path, members: Sequence[tuple[str, str, int]]) -> PythonArchive:
    """Make a zip or tar file of (name, content or target of a link, mode)."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for name, content, mode in members:
                info = zipfile.ZipInfo("x")
                info.filename, info.external_attr = name, mode << 16
                file.writestr(info, content)
    else:
        with tarfile.open(path, "w:gz") as tar:
            for name, content, mode in members:
                member = tarfile.TarInfo(name)
                member.mode = mode & 0o777
                if mode == LINK:
                    member.type, member.linkname = tarfile.SYMTYPE, content
                    tar.addfile(member)
                else:
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content.encode()))
    return PythonArchive(path=str(path), target_directory="packed")


#: Each writes to, or lets others write to, HOME, a folder outside.
ATTACKS: dict[str, list[tuple[str, str, int]]] = {
    "absolute name": [("HOME/letter", "x", 0o644)],
    "absolute program": [("HOME/letter", "x", 0o755)],
    "name with dots": [("a/../../../../home/letter", "x", 0o644)],
    "absolute name of a link": [("HOME/letter", "target", LINK)],
    "link with dots in its name": [("../../../../home/letter", "target", LINK)],
    "absolute link": [("out", "HOME", LINK)],
    "link to a secret": [("out", "HOME/letter", LINK)],
    "link that climbs": [("a/out", "../../../../home", LINK)],
    "link that descends and climbs": [("a/b", "x", 0o644), ("a/out", "b/../../../../../home", LINK)],
    "link that climbs by way of another": [("a/b/c", "x", 0o644), ("up", ".", LINK), ("a/out", "../up/../../..", LINK)],
    "file behind a link": [("out", "HOME", LINK), ("out/letter", "x", 0o644)],
    "file in the place of a link": [("out", "HOME/letter", LINK), ("out", "x", 0o755)],
    "file behind a link that stays inside": [("in", ".", LINK), ("in/letter", "x", 0o644)],
    "link behind a link": [("a/b/in", "../..", LINK), ("a/b/in/out", "../../home", LINK)],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_archive_cannot_write_outside_of_its_folder(tmp_path: Path, attack: list[tuple[str, str, int]], kind: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter").write_text("mine")
    (home / "letter").chmod(0o600)
    members = [(name.replace("HOME", str(home)), content.replace("HOME", str(home)), mode) for name, content, mode in attack]
    archive = pack(tmp_path / f"evil.{kind}", members)
    with pytest.raises(InvalidProgramError, match=r"evil\.(zip|tar\.gz) (is refused|cannot be unpacked)"):
        stage(Dependencies(archives=(archive,)), tmp_path / "attempt", copy=False)
    assert [path.name for path in home.iterdir()] == ["letter"]
    assert ((home / "letter").read_text(), (home / "letter").stat().st_mode & 0o777) == ("mine", 0o600)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_does_not_write_through_the_links_of_another(tmp_path: Path, kind: str) -> None:
    first = pack(tmp_path / f"first.{kind}", [("a/b/file", "x", 0o644), ("in", "a/b", LINK)])
    second = pack(tmp_path / f"second.{kind}", [("in/file", "y", 0o644)])
    with pytest.raises(InvalidProgramError, match="in/file"):
        stage(Dependencies(archives=(first, second)), tmp_path / "attempt", copy=False)
    third = pack(tmp_path / f"third.{kind}", [("a/b/file", "z", 0o644)])
    work = stage(Dependencies(archives=(first, third)), tmp_path / "again", copy=False)
    assert work is not None
    assert (work / "packed" / "in" / "file").read_text() == "z"


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_links_within_an_archive_and_to_programs_are_kept_as_packed_environments_need_them(tmp_path: Path, kind: str) -> None:
    members = [
        ("lib/libx.so.1", "code", 0o644),
        ("lib/libx.so", "libx.so.1", LINK),
        ("lib64", "lib", LINK),
        ("bin/deep/so", "../../lib/./libx.so", LINK),
        ("bin/python", sys.executable, LINK),
        ("bin/tool", "#!/bin/sh", 0o755),
    ]
    work = stage(Dependencies(archives=(pack(tmp_path / f"env.{kind}", members),)), tmp_path / "attempt", copy=False)
    assert work is not None
    assert (work / "packed/lib64/libx.so").read_text() == (work / "packed/bin/deep/so").read_text() == "code"
    assert os.readlink(work / "packed/bin/python") == sys.executable
    assert os.access(work / "packed/bin/tool", os.X_OK)
    assert not os.access(work / "packed/lib/libx.so.1", os.X_OK)


def test_a_hard_link_in_a_tar_file_is_to_one_of_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    for linked, fits in (("a", True), (str(tmp_path / "secret"), False), ("../../../secret", False)):
        with tarfile.open(tmp_path / "x.tar", "w") as tar:
            member = tarfile.TarInfo("a")
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
            link = tarfile.TarInfo("b")
            link.type, link.linkname = tarfile.LNKTYPE, linked
            tar.addfile(link)
        archive = PythonArchive(path=str(tmp_path / "x.tar"), target_directory="packed")
        attempt = tmp_path / f"attempt-{fits}-{len(linked)}"
        if fits:
            work = stage(Dependencies(archives=(archive,)), attempt, copy=False)
            assert work is not None
            assert (work / "packed/b").read_text() == "x"
        else:
            with pytest.raises(InvalidProgramError, match="not in the archive"):
                stage(Dependencies(archives=(archive,)), attempt, copy=False)


def test_devices_in_a_tar_file_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        member = tarfile.TarInfo("pipe")
        member.type = tarfile.FIFOTYPE
        tar.addfile(member)
    archive = PythonArchive(path=str(tmp_path / "x.tar"), target_directory="packed")
    with pytest.raises(InvalidProgramError, match="device or a pipe"):
        stage(Dependencies(archives=(archive,)), tmp_path / "attempt", copy=False)


@pytest.mark.parametrize("name", ["packed/in/x", "packed/bin/python", "packed/lib", "shared/x", "other"])
@pytest.mark.parametrize("copy", [True, False])
def test_a_cached_file_is_not_put_through_a_link_or_onto_something_else(tmp_path: Path, name: str, copy: bool) -> None:
    members = [("lib/x", "x", 0o644), ("in", "lib", LINK), ("bin/python", sys.executable, LINK)]
    archive = pack(tmp_path / "env.zip", members)
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("x")
    cached = [CachedFile(name=each, path=str(tmp_path / "mine")) for each in ("shared", "other")]
    dependencies = Dependencies(
        archives=(archive,), cached_files=(*cached, CachedFile(name=name, path=str(tmp_path / "file"), executable=copy))
    )
    if name == "shared/x" and copy:
        stage(dependencies, tmp_path / "attempt", copy=copy)  # in the copy of that folder
    else:
        with pytest.raises(InvalidProgramError, match="has no place"):
            stage(dependencies, tmp_path / "attempt", copy=copy)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("target", ["/etc", "../up", "a/../../b"])
def test_a_target_outside_of_the_working_folder_is_refused(tmp_path: Path, target: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("a", "a")
    archive = PythonArchive(path=str(tmp_path / "a.zip"), target_directory=target)
    with pytest.raises(InvalidProgramError, match="inside of the tasks' working folder"):
        dependencies_of(replace(PROGRAM, python_archives=(archive,)))


@pytest.mark.parametrize("entry", ["a.txt", "name:x", "path:/a", "name:x,path:/a,mode:7"])
def test_a_malformed_entry_of_the_cached_files_is_named(entry: str) -> None:
    configuration = Configuration()
    configuration.set_string("pipeline.cached-files", entry)
    with pytest.raises(ConfigurationError, match=r"pipeline\.cached-files.*name:n,path:p"):
        dependencies_of(replace(PROGRAM, configuration=configuration))


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
