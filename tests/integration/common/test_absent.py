"""pytest understands the errors of names that PyFlink has and flinkish does not."""

from __future__ import annotations

from pathlib import Path

from tests.kit.child import PYTEST, python


def test_pytest_collects_a_file_that_imports_modules_with_absent_names(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(
        "import pytest\n"
        "import flinkish.table\n"
        "from flinkish.datastream.connectors import jdbc, pulsar\n"
        "\n"
        "try:\n"
        "    from flinkish.datastream.connectors.pulsar import PulsarSource\n"
        "except ImportError:\n"
        "    PulsarSource = None\n"
        "udf = pytest.importorskip('flinkish.table.udf')\n"
        "\n"
        "def test_it():\n"
        "    raise AssertionError\n"
    )

    run = python(*PYTEST, "--doctest-modules", "-c", "/dev/null", tmp_path, folder=tmp_path, status=None)

    assert "2 skipped" in run.stdout, run.stdout + run.stderr
    assert "error" not in run.stdout
