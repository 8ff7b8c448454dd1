"""Runs the programs of programs.py on PyFlink, with the Python that PYFLINK_PYTHON names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def python() -> str | None:
    """Return the interpreter that has PyFlink, if there is one."""
    return os.environ.get("PYFLINK_PYTHON")


def seconds(program: str, records: int, mode: str) -> float | None:
    """Run a program in one of PyFlink's modes, process or thread; None if it failed, which is printed."""
    interpreter = python()
    assert interpreter is not None
    source = Path(__file__).with_name("programs.py").read_text(encoding="utf-8")
    # PyFlink starts its workers by the name `python`.
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(interpreter).parent), os.environ["PATH"]])}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "programs.py"
        script.write_text(re.sub(r"\bflinkish\b", "pyflink", source), encoding="utf-8")
        command = [interpreter, str(script), program, str(records), f"python.execution-mode={mode}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("SECONDS")), None)
    if line is None:
        print(done.stderr[-2_000:], file=sys.stderr)
        return None
    return float(line.split()[1])
