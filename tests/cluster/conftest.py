"""Fixtures of the tests on a cluster."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import pytest

from tests.kit.child import FLINKISH

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def packed_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what flinkish needs and no more, packed by the command for it."""
    folder = tmp_path_factory.mktemp("environment")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    packages = next(environment.glob("lib/python*/site-packages"))
    for distribution in _with_requirements("flinkish", {"s3"}):
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.is_file() and distribution.name != "flinkish":
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(source, target)
                except OSError:
                    shutil.copy2(source, target)
    packed = folder / "packed.tar.gz"
    done = subprocess.run(
        [environment / "bin" / "python", *FLINKISH, "package", "--environment", packed],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return packed


def _with_requirements(name: str, extras: set[str]) -> list[metadata.Distribution]:
    """Return an installed distribution and all that it requires."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [(name, extras)]
    while wanted:
        name, extras = wanted.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[key] = metadata.distribution(name)
            for requirement in found[key].requires or ():
                extra = re.search(r"extra == ['\"]([^'\"]+)", requirement)
                parts = re.match(r"([\w.-]+)(?:\[([^\]]*)\])?", requirement)
                if parts is not None and (extra is None or extra[1] in extras):
                    wanted.append((parts[1], {part.strip() for part in (parts[2] or "").split(",")}))
    return list(found.values())
