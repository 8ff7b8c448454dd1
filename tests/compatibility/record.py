"""Records what PyFlink gives for the programs of this folder: python -m tests.compatibility.record PYTHON [PROGRAM[.CASE] ...]

PYTHON is the interpreter of an environment with apache-flink 2.3.0. Each case is a job of its own there and takes some seconds.
What PyFlink refuses or fails with is recorded as the last line of its error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.compatibility.kit import cases_of

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
#: Seconds; some jobs never end there.
_LIMIT = 45
#: Run by PyFlink's Python.
_RUNNER = """
import importlib, json, sys
sys.path.insert(0, ".")
import kit
module = importlib.import_module(sys.argv[1])
for name, function in kit.cases_of(module).items():
    if name not in sys.argv[2:]:
        continue
    try:
        found = {"results": kit.run(function)}
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if "Error" in line or "Exception" in line]
        found = {"error": (lines or [repr(error)])[-1][:200]}
    print("CASE " + json.dumps({"name": name, **found}), flush=True)
"""


def programs() -> list[str]:
    """Return the names of all programs."""
    return sorted(path.stem for path in (HERE / "programs").glob("*.py") if path.stem != "__init__")


def golden(program: str) -> dict[str, dict[str, object]]:
    """Return what was recorded for a program, by case."""
    path = GOLDEN / f"{program}.json"
    found: dict[str, dict[str, object]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _record(python: str, program: str, cases: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for source in (HERE / "kit.py", HERE / "programs" / f"{program}.py"):
            text = source.read_text(encoding="utf-8").replace("tests.compatibility.kit", "kit")
            (Path(folder) / source.name).write_text(re.sub(r"\bflinkish\b", "pyflink", text), encoding="utf-8")
        (Path(folder) / "runner.py").write_text(_RUNNER, encoding="utf-8")
        while cases:
            done = []
            for case in _run([python, "runner.py", program, *cases], folder):
                done.append(case.pop("name"))
                _note(program, done[-1], case)
            cases = [name for name in cases if name not in done]
            if cases:
                _note(program, cases.pop(0), {"error": f"no end within {_LIMIT} s"})


def _run(command: list[str], folder: str) -> Iterator[dict[str, object]]:
    """Yield what comes of each case, until one does not end."""
    # PyFlink starts its workers by the name `python`.
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COMPATIBILITY_PAUSE": "0.05"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None
        while True:
            watchdog = threading.Timer(_LIMIT, os.killpg, (run.pid, signal.SIGKILL))
            watchdog.start()
            line = run.stdout.readline()
            watchdog.cancel()
            if not line:
                return
            if line.startswith("CASE "):
                yield json.loads(re.sub(r" object at 0x\w+", "", line.removeprefix("CASE ")))


def _note(program: str, name: str, case: dict[str, object]) -> None:
    print(program, name, str(case)[:150], flush=True)
    text = json.dumps({**golden(program), name: case}, indent=1, sort_keys=True, ensure_ascii=False)
    (GOLDEN / f"{program}.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("python")
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    chosen: dict[str, list[str]] = {}
    for name in arguments.programs or programs():
        program, _, case = name.partition(".")
        every = cases_of(import_module(f"tests.compatibility.programs.{program}"))
        chosen.setdefault(program, []).extend([case] if case else every)
    for program, cases in chosen.items():
        _record(arguments.python, program, cases)


if __name__ == "__main__":
    main()
