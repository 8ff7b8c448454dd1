from __future__ import annotations

import os
import shlex
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flinkish.cli import entry
from flinkish.cli.main import cli, split_arguments
from flinkish.common.config_file import PROPERTIES_VARIABLE, parse_properties
from flinkish.program import executor_loader
from tests.kit.own_process import keep_process, set_arguments


class ScriptedExecutor:
    """Stands in for the installed executor: tells what it was asked."""

    def execute_async(self, program: Any) -> Any:
        raise AssertionError(f"{program} was run")

    def execution_plan_json(self, program: Any) -> str:
        return f"JSON of {program}"

    def explain(self, program: Any) -> str:
        return f"trees of {program}"


@pytest.fixture(autouse=True)
def same_process_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what running a script changes."""
    keep_process(monkeypatch)
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    executor_loader.replace_executor(ScriptedExecutor())
    yield
    executor_loader.replace_executor(None)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job.py"


def invoke(*arguments: object, status: int | None = None) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert status in (None, result.exit_code), result.output
    return result


def handed_on() -> dict[str, str]:
    """Return the properties that the environments of the script get."""
    return parse_properties(shlex.split(os.environ[PROPERTIES_VARIABLE])).to_dict()


def test_run_runs_the_script_as_main_with_its_arguments(job: Path) -> None:
    job.write_text(
        "import sys\nprint(__name__, __file__ == sys.argv[0], sys.argv[1:], sys.modules['__main__'].__dict__ is globals())"
    )
    result = invoke("run", job, "--input", "x", "-p", "3")
    assert result.output == "__main__ True ['--input', 'x', '-p', '3'] True\n"
    assert result.exit_code == 0


def test_a_script_imports_what_lies_beside_it(job: Path) -> None:
    (job.parent / "beside_the_job.py").write_text("value = 5")
    job.write_text("import beside_the_job\nprint(beside_the_job.value)")
    assert invoke("run", job).output == "5\n"


def test_a_script_still_is_main_after_it_has_run(job: Path) -> None:
    job.write_text("class Event: pass")
    invoke("run", job)
    assert sys.modules["__main__"].Event.__module__ == "__main__"


def test_properties_reach_the_configuration_from_both_sides_of_the_script(job: Path) -> None:
    job.write_text("import sys\nprint(sys.argv[1:])")
    result = invoke(
        "run", "-Dpipeline.name=my job", "-D", "state.backend.type=rocksdb", "-p", 3, job, "-Dexecution.engine=local", "x"
    )
    assert result.output == "['x']\n"
    assert handed_on() == {
        "parallelism.default": "3",
        "pipeline.name": "my job",
        "state.backend.type": "rocksdb",
        "execution.engine": "local",
    }


def test_an_option_wins_over_the_property_of_its_key_and_that_over_the_environment(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in Flink: CliFrontend applies ProgramOptions to the configuration after the -D properties.
    monkeypatch.setenv(PROPERTIES_VARIABLE, "-Dparallelism.default=1 -Dpipeline.name=x")
    job.write_text("")
    assert invoke("run", "-p", 2, "-Dparallelism.default=3", "-Dpipeline.name=y", job, "-Dparallelism.default=4").exit_code == 0
    assert handed_on() == {"parallelism.default": "2", "pipeline.name": "y"}
    monkeypatch.setenv(PROPERTIES_VARIABLE, "")
    options = ("-s", "/a", "-C", "file:///a.jar", "--master", "local[2]", "--engine", "local")
    keys = ("execution.state-recovery.path", "pipeline.classpaths", "spark.master", "execution.engine")
    assert invoke("run", *options, *(f"-D{key}=spark" for key in keys), job).exit_code == 0
    assert handed_on() == dict(zip(keys, ("/a", "file:///a.jar", "local[2]", "local"), strict=True))


def test_the_master_of_spark_and_archives_have_short_options(job: Path) -> None:
    job.write_text("")
    archives = "environment.tar.gz#environment"
    assert invoke("run", "--master", "spark://host:7077", "--archives", archives, job).exit_code == 0
    assert handed_on() == {"spark.master": "spark://host:7077", "spark.archives": archives}


def test_a_script_imports_the_python_files_given_for_it(job: Path) -> None:
    for name in ("one", "two"):
        (job.parent / name).mkdir()
        (job.parent / name / f"sent_{name}.py").write_text(f"value = {name!r}")
    job.write_text("import sent_one, sent_two\nprint(sent_one.value, sent_two.value)")
    files = f"{job.parent}/one/sent_one.py,{job.parent}/two"
    assert invoke("run", "--py-files", files, job).output == "one two\n"
    assert handed_on() == {"python.files": files}


@pytest.mark.parametrize("command", ["explain", "info"])
def test_a_script_that_is_explained_imports_the_python_files_given_for_it(command: str, job: Path) -> None:
    (job.parent / "folder").mkdir()
    (job.parent / "folder" / "sent_three.py").write_text("name = 'three'")
    job.write_text(
        "import sent_three\n"
        "from flinkish.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(str).name(sent_three.name).print()\n"
        "env.execute()"
    )
    result = invoke(command, "--engine", "local", "-pyfs", job.parent / "folder", job)
    assert (result.exit_code, "three" in result.output) == (0, True), result.output


def test_a_python_file_that_is_not_there_is_told_before_the_script_runs(job: Path) -> None:
    job.write_text("print('was run')")
    result = invoke("run", "-pyfs", job.parent / "missing.py", job, status=1)
    assert "InvalidProgramError: the Python file" in result.output
    assert "was run" not in result.output


@pytest.mark.parametrize("option", ["--master", "--archives"])
def test_short_options_of_spark_are_refused_with_a_session_cluster(option: str, job: Path) -> None:
    job.write_text("")
    result = invoke("run", "-m", "host:8081", option, "x", job, status=2)
    assert "session.driver.spark-submit-options" in result.output


def test_a_malformed_property_is_refused_before_the_script_runs(job: Path) -> None:
    job.write_text("print('was run')")
    result = invoke("run", "-Dnonsense", job, status=1)
    assert "ConfigurationError: bad property 'nonsense'" in result.output
    assert "was run" not in result.output


@pytest.mark.parametrize(
    ("arguments", "own", "properties"),
    [
        (["a", "-Dk.e-y=v=w", "b"], ["a", "b"], ["-Dk.e-y=v=w"]),
        (["-Da=b", "--", "-Dc=d", "--"], ["-Dc=d", "--"], ["-Da=b"]),
        (["-D", "-Debug", "--D=x", "-D=x"], ["-D", "-Debug", "--D=x", "-D=x"], []),
        ([], [], []),
    ],
)
def test_properties_are_told_from_the_scripts_own_arguments(arguments: list[str], own: list[str], properties: list[str]) -> None:
    assert split_arguments(arguments) == (own, properties)


def test_an_error_of_flinkish_shows_its_text_and_the_line_of_the_script(job: Path) -> None:
    job.write_text(
        "from flinkish.common.errors import InvalidProgramError\n"
        "def build():\n"
        "    raise InvalidProgramError('no such thing', hint='use another.')\n"
        "build()\n"
    )
    result = invoke("run", job, status=1)
    lines = result.output.splitlines()
    assert lines[:2] == ["InvalidProgramError: no such thing", "Hint: use another."]
    assert lines[2].startswith("in job.py line 3: raise InvalidProgramError(")


def test_an_error_of_the_script_shows_its_traceback_without_the_launcher(job: Path) -> None:
    job.write_text("def fail():\n    return 1 / 0\nfail()\n")
    result = invoke("run", job, status=1)
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{job}", line 3, in <module>'
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "cli/script.py" not in result.stderr


def test_the_exit_code_of_the_script_is_kept(job: Path) -> None:
    job.write_text("import sys\nsys.exit(7)")
    assert invoke("run", job).exit_code == 7


def test_an_interrupt_ends_with_130_and_without_a_traceback(job: Path) -> None:
    job.write_text("raise KeyboardInterrupt")
    result = invoke("run", job)
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize("text", ["def f(:\n", "x = 'a\0b'"])
def test_a_script_that_is_not_python_is_refused(job: Path, text: str) -> None:
    job.write_text(text)
    result = invoke("run", job, status=1)
    assert "InvalidProgramError: the job script is not valid Python: " in result.output


def test_a_script_that_is_not_there_is_refused(job: Path) -> None:
    result = invoke("run", job, status=2)
    assert "does not exist" in result.output


BUILDING = """
from flinkish.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(lambda value: value).print()
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit", "import sys\nsys.exit(0)"])
def test_a_script_that_executes_nothing_of_what_it_has_built_fails(job: Path, end: str) -> None:
    job.write_text(BUILDING + end)
    result = invoke("run", job, status=1)
    assert f"{job}: the program has ended without execute(), so these operators have not run: 'Map', " in result.output
    assert "Hint: call execute()" in result.output


@pytest.mark.parametrize(
    "end",
    ["print(env.explain())", "print(env.get_execution_plan())", "try:\n    env.execute()\nexcept AssertionError:\n    pass"],
)
def test_a_script_that_makes_any_use_of_what_it_has_built_does_not_fail(job: Path, end: str) -> None:
    job.write_text(BUILDING + end)
    assert invoke("run", job).exit_code == 0


def test_what_was_built_before_a_failure_is_not_spoken_of(job: Path) -> None:
    job.write_text(f"{BUILDING}\nimport sys\nsys.exit(3)")
    result = invoke("run", job)
    assert (result.exit_code, result.output) == (3, "")
    job.write_text("")
    assert invoke("run", job).exit_code == 0


EXECUTING = """
from flinkish.program.executor_loader import load_executor
print("before")
load_executor().execute_async("the program")
print("after")
"""


def test_explain_shows_the_first_job_and_ends_the_script(job: Path) -> None:
    job.write_text(EXECUTING)
    result = invoke("explain", job)
    assert result.output == "before\ntrees of the program\n"
    assert result.exit_code == 0


def test_explain_shows_the_json_plan(job: Path) -> None:
    job.write_text(EXECUTING)
    assert invoke("explain", "--json", job).output == "before\nJSON of the program\n"


def test_explain_is_not_caught_by_the_script(job: Path) -> None:
    job.write_text(
        "from flinkish.program.executor_loader import load_executor\n"
        "try:\n    load_executor().execute_async('it')\nexcept Exception:\n    print('caught')\n"
    )
    assert invoke("explain", job).output == "trees of it\n"


def test_explain_says_so_if_no_job_is_executed(job: Path) -> None:
    job.write_text("print('nothing')")
    result = invoke("explain", job, status=1)
    assert "executed no job: there is nothing to explain" in result.output


def test_explain_puts_the_usual_executor_back(job: Path) -> None:
    job.write_text(EXECUTING)
    before = executor_loader.load_executor()
    invoke("explain", job)
    assert executor_loader.load_executor() is before


def test_version_names_what_it_runs_on() -> None:
    output = invoke("version").output
    assert output.startswith("flinkish ")
    assert "pyspark 4.2.0" in output
    assert "Python 3." in output


def test_a_savepoint_and_state_to_leave_behind_are_given_as_with_flink(job: Path) -> None:
    job.write_text("")
    assert invoke("run", "-s", "/savepoints/1", "-n", job).exit_code == 0
    assert handed_on() == {
        "execution.state-recovery.path": "/savepoints/1",
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }


def test_a_folder_that_cannot_be_written_is_named_by_package(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("package", tmp_path / "file" / "flinkish.zip", status=1)
    assert str(tmp_path / "file") in result.output


def test_submit_refuses_a_script_that_is_not_there(tmp_path: Path) -> None:
    result = invoke("submit", "--master", "yarn", tmp_path / "no.py", status=1)
    assert f"there is no file {tmp_path / 'no.py'}" in result.output


def test_traceback_asks_for_the_frames_of_flinkish_in_errors_of_jobs(job: Path) -> None:
    job.write_text("")
    assert invoke("run", "--traceback", job).exit_code == 0
    assert handed_on() == {"execution.full-traceback": "true"}


class _Interrupted(types.ModuleType):
    """A module that Ctrl-C interrupts while it is imported."""

    def __getattr__(self, name: str) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["command", "start"])
def test_ctrl_c_ends_a_command_with_130_and_no_traceback(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    set_arguments(monkeypatch, "flinkish", "version")
    if where == "command":
        monkeypatch.setattr(cli, "invoke", interrupted)
    else:
        monkeypatch.setitem(sys.modules, "flinkish.cli.main", _Interrupted("flinkish.cli.main"))
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "code", "told"), [(["lst"], 2, "No such command"), (["--help"], 0, ""), (["version"], 0, "")]
)
def test_the_exit_code_is_that_of_the_command(
    arguments: list[str], code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_arguments(monkeypatch, "flinkish", *arguments)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert (ended.value.code or 0) == code
    captured = capsys.readouterr()
    assert told in captured.err
    assert "lst" in captured.err or "flinkish" in captured.out
