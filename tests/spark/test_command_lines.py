"""No process that a command of flinkish starts has a secret on its command line, which every user of the machine can read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_COMMAND = [sys.executable, "-c", "from flinkish.cli.main import main; main()"]
#: Other test processes have others.
_SECRET = f"Zq9-planted-{os.getpid()}"
_KEY = "spark.hadoop.fs.s3a.secret.key"
_SCRIPT = f"""
import os
from flinkish.common.config_file import load_configuration
from flinkish.engine.spark.session import open_session
session, release = open_session(load_configuration(environment=os.environ))
print("it has the key:", session.sparkContext.getConf().get({_KEY!r}) == "{_SECRET[:8]}" + "{_SECRET[8:]}")
print("Hadoop has it:", session.sparkContext._jsc.hadoopConfiguration().get({_KEY[13:]!r}) == "{_SECRET[:8]}" + "{_SECRET[8:]}")
release()
"""


class Seen:
    """Command lines with the secret, by process id."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        self.looks = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.01):
            self.looks += 1
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit():
                    with suppress(OSError):
                        line = (folder / "cmdline").read_bytes()
                        if _SECRET.encode() in line:
                            self.found[int(folder.name)] = line.replace(b"\0", b" ").decode(errors="replace")


@contextmanager
def watched() -> Iterator[Seen]:
    """Look at the command lines of all processes again and again."""
    seen = Seen()
    thread = threading.Thread(target=seen.run)
    thread.start()
    try:
        yield seen
    finally:
        seen.ended.set()
        thread.join()
    assert seen.looks > 10


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, in which the temporary files are, too."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "job.py").write_text(_SCRIPT)
    monkeypatch.setenv("FLINKISH_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.delenv("FLINKISH_PROPERTIES", raising=False)
    return tmp_path


def run(*arguments: str, folder: Path) -> tuple[int, str]:
    """Run a command of flinkish; return its process id and its output."""
    with subprocess.Popen(
        [*_COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return process.pid, output


def test_run_passes_settings_of_spark_in_a_file(folder: Path) -> None:
    config = folder / "conf" / "config.yaml"
    config.write_text(f"{_KEY}: {_SECRET}\nspark.master: local[1]\n")
    config.chmod(0o600)
    with watched() as seen:
        _, output = run("run", "job.py", folder=folder)
    assert output.count("True") == 2, output
    assert seen.found == {}
    assert [path for path in (folder / "tmp").rglob("*.properties") if _SECRET in path.read_text()] == []


def test_submit_passes_settings_of_the_project_and_of_its_own_command_line_in_a_file(folder: Path) -> None:
    (folder / "conf" / "spark-defaults.conf").write_text(f"{_KEY} {_SECRET}\n")
    (folder / "conf" / "config.yaml").write_text("")
    given = ["--master", "local[1]", "--conf", f"spark.some.password={_SECRET}", f"-Dsome.password={_SECRET}"]
    with watched() as seen:
        own, output = run("submit", *given, "job.py", folder=folder)
    assert output.count("True") == 2, output
    # What the user has typed is there, and nothing repeats it.
    assert set(seen.found.values()) == {seen.found[own]}
    assert list((folder / "tmp").glob("flinkish-s*")) == []


_JOB = """
from flinkish.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
env.execute("once")
"""


def test_a_session_in_the_background_passes_nothing_on_the_command_lines_of_dispatcher_and_drivers(folder: Path) -> None:
    (folder / "conf" / "config.yaml").write_text("execution.engine: local\n")
    (folder / "job.py").write_text(_JOB)
    settings = {"rest.port": "0", "io.tmp.dirs": folder / "tmp", "security.checkpoint.hmac-key-file": folder / "key"}
    properties = [f"-D{key}={value}" for key, value in settings.items()]
    with watched() as seen:
        own, output = run("cluster", "start", "-d", *properties, f"-Da.password={_SECRET}", folder=folder)
        address = output.split("answers at ")[1].split()[0]
        try:
            client, _ = run("run", "-m", address, f"-Db.password={_SECRET}", "job.py", f"--password={_SECRET}", folder=folder)
        finally:
            run("cluster", "stop", "-m", address, folder=folder)
    # A process that a command starts has the command's own line until it runs its program.
    assert set(seen.found.values()) == {seen.found[own], seen.found[client]}


def test_a_driver_that_spark_submit_starts_for_a_session_has_no_option_of_the_session_on_its_command_line(folder: Path) -> None:
    options = f"[--master, 'local[1]', --conf, {_KEY}={_SECRET}]"
    (folder / "conf" / "config.yaml").write_text(
        f"session.driver.launcher: spark-submit\nsession.driver.spark-submit-options: {options}\n"
        f"rest.port: 0\nio.tmp.dirs: {folder / 'tmp'}\nsecurity.checkpoint.hmac-key-file: {folder / 'key'}\n"
    )
    (folder / "job.py").write_text(f"{_SCRIPT}\n{_JOB}")
    with watched() as seen:
        _, output = run("cluster", "start", "-d", folder=folder)
        address = output.split("answers at ")[1].split()[0]
        try:
            run("run", "-m", address, "job.py", folder=folder)
            printed = "".join(path.read_text() for path in (folder / "tmp").rglob("driver-*.out"))
            assert printed.count("True") == 2, printed
        finally:
            run("cluster", "stop", "-m", address, folder=folder)
    assert seen.found == {}
