"""Runs Python in a process of its own, to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

_ROOT = str(Path(__file__).resolve().parents[2])
#: What runs a command of flinkish, whether or not that is installed.
FLINKISH = ("-c", "from flinkish.cli.main import main; main()")
#: What runs a suite of its own with pytest.
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis")


def living(variable: str, value: str) -> list[psutil.Process]:
    """Return the living processes that have an environment variable of this value, whatever session they are in."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            if f"{variable}={value}".encode() in environment and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def python(
    *arguments: str | Path, folder: Path | None = None, status: int | None = 0, given: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a folder; return what it has written. It finds flinkish and the tests.

    Fails unless it exits with `status`; None = with any. `given`: its standard input; `environment`: further variables of it.
    """
    variables = {**os.environ, "PYTHONPATH": _ROOT, **environment}
    run = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=variables,
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert status in (None, run.returncode), f"it ended with {run.returncode}\n{run.stdout[-5_000:]}\n{run.stderr[-5_000:]}"
    return run
