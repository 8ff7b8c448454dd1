"""Record what the examples print on Flink: `python -m tests.jobs.record_examples PYTHON`, with the python of a PyFlink 2.3.0.

Nothing but the imports is changed. What comes out goes to example_outputs/, which test_examples.py compares with.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "jobs" / "examples"
OUTPUTS = Path(__file__).with_name("example_outputs")
#: What the examples share, no example itself.
HELPER = "example_io"


def names() -> list[str]:
    """Return the names of all examples."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != HELPER)


def expected(name: str) -> list[str]:
    """Return the lines that an example prints on Flink."""
    return (OUTPUTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def main(python: str) -> None:
    """Run each example on Flink and keep what it prints."""
    OUTPUTS.mkdir(exist_ok=True)
    # Flink starts Python workers by the name `python`.
    environment = {**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        for name in (HELPER, *names()):
            text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
            (Path(folder) / f"{name}.py").write_text(text.replace("flinkish", "pyflink"), encoding="utf-8")
        for name in names():
            command = [python, str(Path(folder) / f"{name}.py")]
            result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
            if result.returncode:
                sys.exit(f"{name} failed:\n{result.stderr}")
            (OUTPUTS / f"{name}.txt").write_text(result.stdout, encoding="utf-8")
            print(f"{name}: {len(result.stdout.splitlines())} lines")


if __name__ == "__main__":
    main(sys.argv[1])
