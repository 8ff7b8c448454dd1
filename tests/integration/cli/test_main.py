"""`flinkish package`, whose file another Python imports from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.child import python
from tests.unit.cli.test_main import invoke


@pytest.mark.usefixtures("same_logging")
def test_package_writes_a_zip_that_flinkish_can_be_imported_from(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "flinkish.zip"
    assert invoke("package", target).output == f"Packed flinkish into {target}\n"
    code = "import flinkish, flinkish.datastream; print(flinkish.__file__)"
    run = python("-c", code, folder=tmp_path, PYTHONPATH=str(target))
    assert run.stdout.strip() == f"{target}/flinkish/__init__.py"
