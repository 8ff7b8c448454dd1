"""No process that a command of flinkish starts has a secret on its command line.

Drivers that spark-submit starts for a session: tests/server/test_session_on_spark.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.child import FLINKISH
from tests.kit.command_lines import HAS_KEY, KEY, SECRET, watched

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, in which the temporary files are, too."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "job.py").write_text(f"{HAS_KEY}release()\n")
    monkeypatch.setenv("FLINKISH_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.delenv("FLINKISH_PROPERTIES", raising=False)
    return tmp_path


def run(*arguments: str, folder: Path) -> tuple[int, str]:
    """Run a command of flinkish; return its process id and its output."""
    with subprocess.Popen(
        [sys.executable, *FLINKISH, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return process.pid, output


def test_run_passes_settings_of_spark_in_a_file(folder: Path) -> None:
    config = folder / "conf" / "config.yaml"
    config.write_text(f"{KEY}: {SECRET}\nspark.master: local[1]\n")
    config.chmod(0o600)
    with watched() as seen:
        _, output = run("run", "job.py", folder=folder)
    assert output.count("True") == 2, output
    assert seen.found == {}
    assert [path for path in (folder / "tmp").rglob("*.properties") if SECRET in path.read_text()] == []


def test_submit_passes_settings_of_the_project_and_of_its_own_command_line_in_a_file(folder: Path) -> None:
    (folder / "conf" / "spark-defaults.conf").write_text(f"{KEY} {SECRET}\n")
    (folder / "conf" / "config.yaml").write_text("")
    given = ["--master", "local[1]", "--conf", f"spark.some.password={SECRET}", f"-Dsome.password={SECRET}"]
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
        own, output = run("cluster", "start", "-d", *properties, f"-Da.password={SECRET}", folder=folder)
        address = output.split("answers at ")[1].split()[0]
        try:
            client, _ = run("run", "-m", address, f"-Db.password={SECRET}", "job.py", f"--password={SECRET}", folder=folder)
        finally:
            run("cluster", "stop", "-m", address, folder=folder)
    # A process that a command starts has the command's own line until it runs its program.
    assert set(seen.found.values()) == {seen.found[own], seen.found[client]}
