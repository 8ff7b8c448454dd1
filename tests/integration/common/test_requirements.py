from __future__ import annotations

import configparser
import sys
from pathlib import Path

import pytest

import flinkish
from flinkish.common.requirements import REQUIREMENTS
from flinkish.engine.spark.package import pack
from tests.kit.child import python

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return flinkish alone, as `spark-submit --py-files` brings it."""
    path = tmp_path_factory.mktemp("package") / "flinkish.zip"
    pack(path)
    return path


def last_lines(package: Path, code: str, *folders: Path) -> list[str]:
    """Run code in a Python without installed packages; return the last lines of its standard error."""
    path = ":".join(map(str, (package, *folders)))
    run = python("-S", "-c", f"import sys; sys.path[:0] = {path.split(':')!r}\n{code}", status=None)
    return run.stderr.splitlines()[-2:]


def test_the_table_has_what_setup_cfg_requires() -> None:
    configuration = configparser.ConfigParser()
    configuration.read(PROJECT / "setup.cfg")
    lines = configuration["options"]["install_requires"].splitlines()
    assert list(REQUIREMENTS.values()) == [line for line in lines if line and not line.startswith("#")]
    assert set(REQUIREMENTS) | {"numpy"} == flinkish._NEEDED


@pytest.mark.parametrize("module", ["flinkish.datastream", "flinkish.engine.spark.shim", "flinkish.engine.slots.slot_host"])
def test_a_python_without_the_packages_gets_one_sentence_that_names_all(package: Path, module: str) -> None:
    error, hint = last_lines(package, f"import {module}")
    assert error.startswith(
        f"flinkish.common.errors.MissingPackageError: flinkish needs these packages that {sys.executable} on "
    )
    assert all(requirement in error for requirement in REQUIREMENTS.values())
    assert hint.startswith("Hint: install them for that Python on each machine (pip install ")


def test_only_what_is_missing_is_named(package: Path, tmp_path: Path) -> None:
    for name in set(REQUIREMENTS) - {"msgspec"}:
        (tmp_path / f"{name}.py").touch()
    import yaml

    (tmp_path / "yaml.py").unlink()
    (tmp_path / "yaml").symlink_to(Path(yaml.__file__).parent)
    error, _ = last_lines(package, "import flinkish.checkpoint.manifest", tmp_path)
    assert error.endswith("does not have: msgspec>=0.19"), error


def test_who_only_looks_for_a_package_gets_the_usual_answer(package: Path) -> None:
    code = (
        "import flinkish, importlib.util\n"
        "found = importlib.util.find_spec('pyarrow')\n"
        "try:\n    import pyarrow\nexcept ModuleNotFoundError as error:\n    sys.exit(f'{found} {type(error).__name__}')"
    )
    assert last_lines(package, code) == ["None ModuleNotFoundError"]
