"""Drivers that are started by spark-submit: the options, the command, and the group of processes that is a driver."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from flinkish.common.errors import ConfigurationError
from flinkish.engine.processes import ProcessId
from flinkish.engine.spark.submission import CommandLine, SparkInstallation, SparkSubmit, parse_command_line, spark_submit
from flinkish.server.session import driver_protocol
from flinkish.server.session.processes import Command, Processes, submit_command
from tests.kit.waiting import wait_until
from tests.unit.server.session.support import Member, settings_of

_LAUNCHER = {"session.driver.launcher": "spark-submit"}
_OPTIONS = "session.driver.spark-submit-options"


def _line(command: Command) -> CommandLine:
    """Return what `flinkish submit` reads for a driver."""
    arguments = list(command.arguments)
    options = shlex.split(command.environment[driver_protocol.SUBMIT_VARIABLE])
    return parse_command_line([*options, *arguments[arguments.index("submit") + 1 :]])


def _submitted(line: CommandLine, tmp_path: Path) -> SparkSubmit:
    """Return the spark-submit that a driver's command leads to."""
    place = SparkInstallation(
        home=Path("/spark"), defaults={}, project_defaults={}, delta_jars=[tmp_path / "delta.jar"], log4j=None
    )
    return spark_submit(line, place, tmp_path / "flinkish.zip")


def test_spark_submit_starts_the_driver_on_this_machine_with_the_given_options(tmp_path: Path) -> None:
    options = "--master;spark://host:7077;--py-files;lib.zip;--conf;spark.cores.max=2;-Dparallelism.default=3"
    member = Member(tmp_path, **_LAUNCHER, **{_OPTIONS: options})
    driver = member.submit(arguments=("--password", "hunter2"))
    command = list(driver.command.arguments)
    script = Path(command[-1])
    assert command[:3] == [sys.executable, "-c", "from flinkish.cli.main import main; main()"]
    assert command[3:] == ["submit", "--deploy-mode", "client", str(script)]
    assert script.name == "flinkish_driver.py"
    assert driver.job_id in str(script)
    compile(script.read_text(), str(script), "exec")

    line = _line(driver.command)
    assert line.properties == ("parallelism.default=3",)
    assert line.job == str(script)
    assert line.arguments == ()
    made = _submitted(line, tmp_path)
    submitted = made.command(tmp_path / "file")
    assert submitted[0] == "/spark/bin/spark-submit"
    assert submitted[submitted.index("--master") + 1] == "spark://host:7077"
    assert submitted[submitted.index("--deploy-mode") + 1] == "client"
    assert submitted[submitted.index("--py-files") + 1] == f"lib.zip,{tmp_path / 'flinkish.zip'}"
    assert made.settings["spark.cores.max"] == "2"
    assert submitted[-1] == str(script)


def test_a_deploy_mode_in_the_settings_of_spark_does_not_move_drivers_into_the_cluster(tmp_path: Path) -> None:
    defaults = {"spark.submit.deployMode": "cluster", "spark.master": "spark://host:7077"}
    place = SparkInstallation(home=Path("/spark"), defaults=defaults, project_defaults={}, delta_jars=[], log4j=None)
    command = submit_command(Path("job.py"))
    line = parse_command_line(command[command.index("submit") + 1 :])
    submitted = spark_submit(line, place, tmp_path / "flinkish.zip").arguments
    # On its command line, spark-submit's options override its settings.
    assert submitted[submitted.index("--deploy-mode") + 1] == "client"


@pytest.mark.parametrize(
    "options",
    [
        "--deploy-mode;cluster",
        "--deploy-mode=cluster",
        "--master;yarn;--conf;spark.submit.deployMode=cluster",
        "-c;spark.submit.deployMode = cluster",
        "--conf=spark.submit.deployMode=cluster",
    ],
)
def test_the_deploy_mode_cluster_is_refused_by_name(options: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"(?s){_OPTIONS}: a session starts its drivers on its own machine.*--deploy-mode"
    ):
        settings_of(tmp_path, **_LAUNCHER, **{_OPTIONS: options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--master spark://host:7077;--verbose",
            r"'--master spark://host:7077' is an option and its value in one entry.*--master and spark://h",
        ),
        ("--master spark://host:7077", r"'--master spark://host:7077' is an option and its value in one entry"),
        ("--verbose;--master", r"the option '--master' has no value"),
        ("--master;yarn;job.py", r"'job\.py' is neither an option of spark-submit nor the value of one"),
        ("--master;yarn;driver.py", r"'driver\.py' is neither an option"),
    ],
)
def test_options_that_are_none_are_refused_when_the_session_starts(options: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"(?s){_OPTIONS}: {message}"):
        settings_of(tmp_path, **_LAUNCHER, **{_OPTIONS: options})


def test_values_of_options_may_have_spaces_and_dashes(tmp_path: Path) -> None:
    options = "--driver-java-options;-Xmx1g -Xss2m;--name=my jobs"
    assert settings_of(tmp_path, **_LAUNCHER, **{_OPTIONS: options}).submit_options == tuple(options.split(";"))
    assert settings_of(tmp_path, **_LAUNCHER).submit_options == ()


def test_options_that_would_have_no_effect_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"(?s){_OPTIONS} is set, but session\.driver\.launcher is not spark-submit"):
        settings_of(tmp_path, **{_OPTIONS: "--master;yarn"})
    assert settings_of(tmp_path).submit_options is None


def test_what_a_driver_writes_is_in_its_files_although_spark_submit_gives_it_one_pipe_for_all(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    log.write_text("of the JVM\n")
    driver = subprocess.run(
        [sys.executable, "-c", "print('1', flush=True); from flinkish.cli import driver; driver.main()"],
        env={**os.environ, driver_protocol.LOG_VARIABLE: str(log), driver_protocol.STDOUT_VARIABLE: str(output)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
        check=False,
    )
    assert (driver.returncode, driver.stdout, output.read_text()) == (1, b"1\n", "")
    assert log.read_text().startswith("of the JVM\nConfigurationError: only the Dispatcher of a session starts this")


_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""


def test_a_driver_below_spark_submit_is_killed_with_all_that_was_started_for_it(tmp_path: Path) -> None:
    processes = Processes()
    command = Command(
        arguments=[sys.executable, "-c", _PARENT],
        environment=os.environ,
        folder=tmp_path,
        log=tmp_path / "log",
        stdout=tmp_path / "out",
    )
    parent, created = processes.start(command)
    wait_until("the driver", lambda: (tmp_path / "out").read_text().endswith("\n"), 120)
    driver = ProcessId.of(int((tmp_path / "out").read_text()))
    assert driver is not None

    processes.kill(driver.pid, driver.created)
    wait_until("spark-submit ends", lambda: not processes.is_alive(parent, created), 120)
    wait_until("the driver ends", lambda: not processes.is_alive(driver.pid, driver.created), 120)
