"""Jars that tests need and the project does not: fetched once into the user's cache."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

_SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "fetch_test_jars.py"
# As in the Makefile, an empty variable counts as none.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flinkish"


class MissingJarsError(Exception):
    """The jars are missing and could not be fetched."""


def jar_folder(name: str, version: str) -> Path:
    """Return the folder of some jars, which may not exist yet."""
    return _CACHE / f"{name}-{version}"


def fetch(name: str, folder: Path) -> None:
    """Fetch jars by their name in fetch_test_jars.py unless they are there; raises MissingJarsError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            command = [sys.executable, str(_SCRIPT), name, str(folder)]
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if result.returncode != 0:
                raise MissingJarsError(result.stdout[-2000:])
