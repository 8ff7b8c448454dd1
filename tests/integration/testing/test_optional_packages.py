"""What is needed only sometimes is asked for only then, and by name."""

from __future__ import annotations

import configparser
import importlib
import os
import sys
import textwrap
from pathlib import Path

import pytest

from flinkish.common.errors import MissingPackageError
from flinkish.common.requirements import need
from flinkish.testing import tables
from tests.kit.child import PYTEST, python

ROOT = Path(__file__).parents[3]


def loaded_by(code: str) -> set[str]:
    """Return the modules of flinkish, and of others that take long, that code loads."""
    show = "print(*[name for name in sys.modules if name.split('.')[0] in {'flinkish', 'pyspark', 'pyarrow', 'hypothesis'}])"
    result = python("-c", f"import sys\n{code}\n{show}")
    return set(result.stdout.split())


def test_the_plugin_loads_nothing_for_those_who_do_not_use_it() -> None:
    assert loaded_by("import flinkish.testing.pytest_plugin") == {
        "flinkish",
        "flinkish.testing",
        "flinkish.testing.pytest_plugin",
    }


def test_a_name_of_the_package_loads_what_it_needs() -> None:
    loaded = loaded_by("from flinkish.testing import OneInputHarness, StreamRecord, Watermark")
    assert "flinkish.testing.harness" in loaded
    assert not loaded & {"flinkish.testing.job", "pyspark", "hypothesis"}


def test_all_names_of_the_package_are_there() -> None:
    package = importlib.import_module("flinkish.testing")
    assert {name: getattr(package, name) for name in package.__all__}
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("package", ["chispa", "hypothesis"])
def test_a_missing_package_is_named_with_what_installs_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"needs the package {package}(.|\n)*pip install 'flinkish\[testing\]'"):
        need(package, "this", "testing")


def test_strategies_need_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "flinkish.testing.strategies", raising=False)
    with pytest.raises(MissingPackageError, match="strategies needs the package hypothesis"):
        importlib.import_module("flinkish.testing.strategies")


def test_tables_need_chispa(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "chispa", None)
    with pytest.raises(MissingPackageError, match="comparing tables needs the package chispa"):
        tables.assert_delta_table_equal(tmp_path, [])


def test_an_error_within_a_package_is_not_taken_for_its_absence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import no_such_module_at_all\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        need("broken_package", "this", "testing")


def entry_point() -> str:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = [line.strip() for line in setup["options.entry_points"]["pytest11"].splitlines()]
    (entry,) = [line for line in lines if line and not line.startswith("#")]
    return entry


SUITE = """
    import pytest
    from flinkish.common import Types, WatermarkStrategy

    @pytest.fixture
    def flinkish_engine():
        return "local"

    def double(env, job):
        numbers = env.from_source(job.source("numbers", Types.LONG()), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.map(lambda number: 2 * number).sink_to(job.sink("doubled"))

    def test_a_job(flinkish_job):
        job = flinkish_job(double, parallelism=2)
        job.source("numbers").emit_all([1, 2])
        assert job.sink("doubled").take_values() == [2, 4]

    def test_environments(flinkish_env, flinkish_local_env, flinkish_make_env, flinkish_checkpoints):
        settings = {"execution.checkpointing.dir": flinkish_checkpoints}
        for env in flinkish_env, flinkish_local_env, flinkish_make_env(3, settings):
            assert sorted(env.from_collection([1, 2]).map(lambda n: n + 1).execute_and_collect("one", 10)) == [2, 3]
        assert flinkish_make_env(3).get_parallelism() == 3
        assert list(flinkish_checkpoints.iterdir()) == []

    def test_operators(flinkish_one_input, flinkish_two_inputs):
        one = flinkish_one_input(lambda stream: stream.map(str), Types.LONG())
        two = flinkish_two_inputs(lambda a, b: a.union(b).map(str))
        one.process_element(1)
        two.process_element2("x")
        assert one.take_values() + two.take_values() == ["1", "x"]

    @pytest.mark.spark
    def test_marked():
        pass
"""


def test_the_fixtures_of_the_plugin_serve_a_suite(tmp_path: Path) -> None:
    suite, installed = tmp_path / "suite", tmp_path / "installed"
    suite.mkdir()
    (suite / "test_suite.py").write_text(textwrap.dedent(SUITE), encoding="utf-8")
    # Named twice, by the entry point and as in our own conftest.py.
    (suite / "conftest.py").write_text('pytest_plugins = ["flinkish.testing.pytest_plugin"]\n', encoding="utf-8")
    install(installed)
    path = os.pathsep.join([str(installed), str(ROOT)])
    result = python(*PYTEST, "-W", "error", "--strict-markers", suite, folder=suite, status=None, PYTHONPATH=path)
    assert "4 passed" in result.stdout, result.stdout + result.stderr


def install(folder: Path) -> None:
    """Make what pip makes of our entry points, in a folder to be put on the path."""
    metadata = folder / "plugin_of_flinkish-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-flinkish\nVersion: 1\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{entry_point()}\n", encoding="utf-8")


def test_without_its_own_engine_a_suite_runs_on_both(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text("def test_both(flinkish_env): ...\n", encoding="utf-8")
    result = python(*PYTEST, "-p", "flinkish.testing.pytest_plugin", "--collect-only", tmp_path, folder=tmp_path)
    assert [line.partition("::")[2] for line in result.stdout.splitlines()[:2]] == ["test_both[local]", "test_both[spark]"]
