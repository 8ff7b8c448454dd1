"""A program that was built and not executed is spoken of at its end, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.child import python

BUILT = """
from flinkish.datastream import StreamExecutionEnvironment

def build():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(lambda value: value).print()
    return env
"""
WARNING = "flinkish: the program has ended without execute(), so these operators have not run: 'Map', "


def ended(folder: Path, script: str, *command: str) -> tuple[int, str]:
    """Run a script to its end; return its exit code and what it wrote on stderr."""
    path = folder / "job.py"
    path.write_text(script)
    run = python(*(command or ("job.py",)), folder=folder, status=None, FLINKISH_PROPERTIES="-Dexecution.engine=local")
    return run.returncode, run.stderr


def test_python_script_says_on_stderr_what_was_not_executed(tmp_path: Path) -> None:
    code, errors = ended(tmp_path, f"{BUILT}\nbuild()\n")
    assert code == 0
    assert errors.startswith(WARNING)
    assert "Hint: call execute()" in errors


def test_it_is_said_once_for_each_program_also_where_a_helper_made_the_environment(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(BUILT)
    script = "from helper import build\nbuild().from_collection([1]).filter(bool)\nbuild()\n"
    _, errors = ended(tmp_path, script)
    assert errors.count("has ended without execute()") == 1
    assert "'Filter'" in errors


@pytest.mark.parametrize(
    ("script", "command"),
    [
        (f"{BUILT}\nbuild().explain()", ()),
        (f"{BUILT}\nbuild().get_execution_plan()", ()),
        (f"{BUILT}\nbuild().execute()", ()),
        (f"{BUILT}\nlist(build().from_collection([1]).execute_and_collect())", ()),
        (
            "from flinkish.datastream import StreamExecutionEnvironment as E\nE.get_execution_environment().from_collection([1])",
            (),
        ),
        (f"{BUILT}\nbuild()", ("-c", "exec(open('job.py').read())")),
        (f"{BUILT}\nbuild()", ("-c", "import job")),
        (
            f"{BUILT}\ndef test_it():\n    build()\n",
            ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "job.py"),
        ),
        (
            f"{BUILT}\nimport unittest\nclass Test(unittest.TestCase):\n    def test_it(self):\n        build()\nunittest.main()",
            (),
        ),
        (
            f"{BUILT}\nfrom flinkish.testing import OneInputHarness\n"
            "with OneInputHarness(lambda numbers: numbers.map(str)) as harness:\n    harness.process_element(1)\n",
            (),
        ),
        (f"{BUILT}\nbuild()", ("-i", "job.py")),
        (f"{BUILT}\nimport os\nenv = build()\nif not os.fork():\n    raise SystemExit(0)\nos.wait()\nenv.explain()", ()),
    ],
    ids=["explain", "plan", "execute", "collect", "source", "exec", "import", "pytest", "unittest", "harness", "shell", "fork"],
)
def test_nothing_is_said_of_other_uses(tmp_path: Path, script: str, command: tuple[str, ...]) -> None:
    assert "has ended without execute()" not in ended(tmp_path, script, *command)[1]


def test_nothing_is_said_after_an_error(tmp_path: Path) -> None:
    code, errors = ended(tmp_path, f"{BUILT}\nbuild()\n1 / 0\n")
    assert code == 1
    assert "ZeroDivisionError" in errors
    assert "has ended without execute()" not in errors
