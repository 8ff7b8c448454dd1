"""Python files, archives and cached files that a program brings along for its functions, on both engines."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import DependencyError, InvalidProgramError, UnsupportedError
from tests.conftest import MakeEnvironment
from tests.kit.environments import env_of
from tests.kit.results import collect


@pytest.fixture(autouse=True)
def path_as_before() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def test_python_files_folders_and_zips_can_be_imported_in_functions(make_env: MakeEnvironment, tmp_path: Path) -> None:
    name = f"brought_{tmp_path.name}".lower()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / f"{name}_file.py").write_text("VALUE = 'file'\n", encoding="utf-8")
    (tmp_path / "folder" / f"{name}_package").mkdir(parents=True)
    (tmp_path / "folder" / f"{name}_package" / "__init__.py").write_text("VALUE = 'folder'\n", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as file:
        file.writestr(f"{name}_zipped.py", "VALUE = 'zip'\n")

    def load(ending: str) -> Any:
        import importlib

        return importlib.import_module(f"{name}_{ending}").VALUE

    env = make_env()
    env.add_python_file(str(tmp_path / "files" / f"{name}_file.py"))
    env.add_python_file(str(tmp_path / "folder"))
    env.add_python_file(f"file://{tmp_path / 'modules.zip'}")
    assert sorted(collect(env.from_collection(["file", "package", "zipped"]).map(load))) == ["file", "folder", "zip"]


def test_archives_and_cached_files_lie_in_the_working_folder_of_functions(make_env: MakeEnvironment, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "words.zip", "w") as zipped:
        zipped.writestr("en/words.txt", "hello")
    (tmp_path / "model.txt").write_text("model", encoding="utf-8")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "model.txt", "model.txt")
    (tmp_path / "tool.sh").write_text("#!/bin/sh\necho tool\n", encoding="utf-8")

    def read(path: str) -> str:
        if os.access(path, os.X_OK):
            return subprocess.run([f"./{path}"], capture_output=True, text=True, check=True).stdout.strip()
        with open(path, encoding="utf-8") as file:
            return file.read()

    env = make_env()
    env.add_python_archive(str(tmp_path / "words.zip"))
    env.add_python_archive(str(tmp_path / "model.tar.gz"), "models/first")
    env.register_cached_file(str(tmp_path / "tool.sh"), "tool", executable=True)
    env.register_cached_file(str(tmp_path / "model.txt"), "cached.txt")
    paths = ["words.zip/en/words.txt", "models/first/model.txt", "tool", "cached.txt"]
    before = os.getcwd()
    assert sorted(collect(env.from_collection(paths).map(read))) == ["hello", "model", "model", "tool"]
    # this process is where it was
    assert os.getcwd() == before


def test_cached_files_can_be_named_in_the_configuration(make_env: MakeEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    env = make_env(settings={"pipeline.cached-files": f"name:first,path:{tmp_path / 'a.txt'}"})
    assert collect(env.from_collection(["first"]).map(lambda name: Path(name).read_text(encoding="utf-8"))) == ["a"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark_session")
def test_the_interpreter_that_is_set_runs_the_functions_on_spark(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as file:
        link = zipfile.ZipInfo("bin/my-python")
        link.external_attr = 0o120777 << 16
        file.writestr(link, sys.executable)
    env = env_of({"execution.engine": "spark"})
    env.add_python_archive(str(tmp_path / "packed.zip"), "packed")
    env.set_python_executable("packed/bin/my-python")

    def interpreter(_: int) -> str:
        import sys

        return sys.executable

    (used,) = collect(env.from_collection([1]).map(interpreter))
    assert Path(used).parts[-4:] == ("work", "packed", "bin", "my-python")


def write_wheel(folder: Path, name: str, module: str, *requires: str) -> None:
    """Write a wheel with one module into a folder of packages."""
    folder.mkdir(exist_ok=True)
    metadata = "".join(f"Requires-Dist: {other}\n" for other in requires)
    contents = {
        f"{name}.py": module,
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}",
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*contents, f"{name}-1.0.dist-info/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as file:
        for path, text in {**contents, f"{name}-1.0.dist-info/RECORD": record}.items():
            file.writestr(path, text)


def test_packages_of_a_requirements_file_are_installed_for_the_job_and_removed_with_it(
    make_env: MakeEnvironment, tmp_path: Path
) -> None:
    name = f"needed_{tmp_path.name}".lower()
    write_wheel(tmp_path / "cache", name, f"import {name}_too\nVALUE = {name}_too.VALUE + 1\n", f"{name}_too")
    write_wheel(tmp_path / "cache", f"{name}_too", "VALUE = 1\n")
    (tmp_path / "requirements.txt").write_text(f"# wanted\n{name}==1.0\n", encoding="utf-8")

    def load(number: int) -> Any:
        import importlib

        module = importlib.import_module(name)
        return number, module.VALUE, module.__file__

    env = make_env()
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "cache"))
    loaded = collect(env.from_collection([1, 2]).rebalance().map(load))
    assert sorted(value[:2] for value in loaded) == [(1, 2), (2, 2)]
    # Once for the job, and gone with it.
    (folder,) = {Path(value[2]).parent for value in loaded}
    assert folder.name == "packages"
    assert not folder.parent.exists()
    assert str(folder) not in sys.path


def test_the_error_has_the_output_of_pip_if_packages_cannot_be_installed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("no-such-package==7\n", encoding="utf-8")
    (tmp_path / "cache").mkdir()
    env = env_of({"io.tmp.dirs": tmp_path / "tmp"})
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "cache"))
    env.from_collection([1]).print()
    with pytest.raises(
        DependencyError, match=r"(?s)requirements.txt.*No matching distribution found for no-such-package==7.*pip"
    ):
        env.execute()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_dependencies_that_cannot_be_sent_are_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_text("no zip", encoding="utf-8")
    (tmp_path / "words.txt").write_text("x", encoding="utf-8")
    refused: list[tuple[type[Exception], str, Any]] = [
        (InvalidProgramError, "neither a zip nor a tar file", lambda env: env.add_python_archive(str(tmp_path / "no.zip"))),
        (InvalidProgramError, "neither a .py file", lambda env: env.add_python_file(str(tmp_path / "no.zip"))),
        (
            InvalidProgramError,
            "inside of the tasks' working folder",
            lambda env: env.register_cached_file(str(tmp_path / "words.txt"), "../words"),
        ),
        (
            InvalidProgramError,
            "is no folder",
            lambda env: env.set_python_requirements(str(tmp_path / "words.txt"), str(tmp_path / "words.txt")),
        ),
        (UnsupportedError, "hdfs", lambda env: env.add_python_file("hdfs://name/x.py")),
    ]
    for kind, text, prepare in refused:
        env = env_of()
        prepare(env)
        env.from_collection([1]).print()
        with pytest.raises(kind, match=text):
            env.execute()
