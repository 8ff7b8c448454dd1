"""`flinkish package`, whose file another Python imports from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.test_main import invoke


@pytest.mark.usefixtures("same_logging")
def test_package_writes_a_zip_that_flinkish_can_be_imported_from(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "flinkish.zip"
    assert invoke("package", target).output == f"Packed flinkish into {target}\n"
    code = "import flinkish, flinkish.datastream; print(flinkish.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(target)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == f"{target}/flinkish/__init__.py"
