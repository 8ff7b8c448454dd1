"""Virtual environments packed for `--archives`."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any

import pytest

from flinkish.cli.packaging import pack_environment
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with one module and a part of Spark."""
    root = tmp_path / "environment"
    venv.create(root, symlinks=True)
    packages = next(root.glob("lib/python*/site-packages"))
    (packages / "thing.py").write_text("VALUE = 42\n")
    (packages / "pyspark" / "jars").mkdir(parents=True)
    (packages / "pyspark" / "__init__.py").touch()
    (packages / "pyspark" / "jars" / "large.jar").touch()
    return root


def _distribution(environment: Path, name: str, url: dict[str, object]) -> None:
    info = next(environment.glob("lib/python*/site-packages")) / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (info / "direct_url.json").write_text(json.dumps(url))


@pytest.mark.parametrize("name", ["e.tar.gz", "e.tgz", "e.tar"])
def test_a_packed_environment_runs_elsewhere_without_the_jars_of_spark(environment: Path, tmp_path: Path, name: str) -> None:
    _distribution(environment, "flinkish", {"url": "file:///here", "dir_info": {"editable": True}})
    _distribution(environment, "thing", {"url": "file:///there", "dir_info": {}})
    target = tmp_path / "folder" / name
    python = pack_environment(target, environment)
    assert python == Path(sys.executable).resolve()
    elsewhere = tmp_path / "elsewhere"
    with tarfile.open(target) as archive:
        archive.extractall(elsewhere, filter="fully_trusted")
    environment.rename(tmp_path / "gone")
    code = "import sys, thing, pyspark; print(thing.VALUE, sys.prefix, thing.__file__)"
    run = subprocess.run([elsewhere / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    (thing,) = elsewhere.glob("lib/python*/site-packages/thing.py")
    assert run.stdout.split() == ["42", str(elsewhere), str(thing)]
    assert not [*elsewhere.glob("lib/python*/site-packages/pyspark/jars")]


def test_an_archive_in_the_environment_is_not_packed_into_itself(environment: Path) -> None:
    target = environment / "e.tar"
    pack_environment(target, environment)
    with tarfile.open(target) as archive:
        assert "e.tar" not in archive.getnames()
        assert "pyvenv.cfg" in archive.getnames()
        assert ".e.tar.new" not in archive.getnames()


def test_an_archive_that_cannot_be_completed_leaves_the_former_one(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "e.tar"
    target.write_text("the former one")
    add = tarfile.TarFile.add

    def interrupted(self: tarfile.TarFile, name: str | Path, *arguments: Any, **named: Any) -> None:
        if Path(name).name == "thing.py":
            raise KeyboardInterrupt
        add(self, name, *arguments, **named)

    monkeypatch.setattr(tarfile.TarFile, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack_environment(target, environment)

    assert target.read_text() == "the former one"
    assert {each.name for each in tmp_path.iterdir()} == {"e.tar", "environment"}


def test_packages_in_folders_elsewhere_are_refused_by_name(environment: Path, tmp_path: Path) -> None:
    _distribution(environment, "mine", {"url": "file:///there", "dir_info": {"editable": True}})
    with pytest.raises(InvalidProgramError, match=r"(?s)folders elsewhere.*: mine.*Hint: install them without --editable"):
        pack_environment(tmp_path / "e.tar", environment)


def test_an_interpreter_without_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match=r"(?s)is not a virtual environment.*conda-pack"):
        pack_environment(tmp_path / "e.tar", Path(sys.base_prefix), Path(sys.base_prefix))


def test_a_name_that_spark_does_not_unpack_is_refused(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"e\.7z: an environment is packed into a file \.tar\.gz"):
        pack_environment(tmp_path / "e.7z", environment)
