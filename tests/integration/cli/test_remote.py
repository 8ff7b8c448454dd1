"""Programs that are sent to a session cluster, by flinkish run -m and by Flink's flink run."""

from __future__ import annotations

import io
import os
import sys
import types
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from flinkish.cli import flink_run, remote
from flinkish.cli.client import Address, RestClient, UnreachableError
from flinkish.cli.remote import packed
from flinkish.cli.tables import time_text
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, ServerError
from flinkish.program import executor_loader
from tests.integration.cli.fake_server import FakeServer, fake_server
from tests.kit.own_process import set_arguments

JOB = "a" * 32
PROGRAM = "b" * 32 + "_job.py"


pytestmark = pytest.mark.usefixtures("same_logging")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A session cluster on which every program runs and finishes."""
    monkeypatch.setattr(remote, "_FIRST_GAP", 0.001)
    monkeypatch.delenv("FLINKISH_REST_TOKEN", raising=False)
    with fake_server() as server:
        server.answer("POST /jars/upload", {"filename": f"/session/programs/{PROGRAM}", "status": "success"})
        server.answer(f"POST /jars/{PROGRAM}/run", {"jobid": JOB})
        server.answer(f"DELETE /jars/{PROGRAM}", {})
        states = ["INITIALIZING", "RUNNING", "RUNNING", "FINISHED"]
        server.answer(f"GET /jobs/{JOB}", *[{"state": state, "duration": 61_000} for state in states])
        yield server


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("print('runs there, not here')")
    return path


def uploaded(server: FakeServer) -> tuple[str, bytes]:
    """Return name and content of the file in the form that was sent."""
    asked = server.find("POST /jars/upload")
    head = f"Content-Type: {asked.headers['Content-Type']}\r\n\r\n".encode()
    (part,) = message_from_bytes(head + asked.body).get_payload()
    return str(part.get_filename()), part.get_payload(decode=True)


def test_run_sends_the_script_and_follows_its_job_to_the_end(cluster: FakeServer, script: Path) -> None:
    result = cluster.invoke("run", script, "--input", "x")

    assert result.exit_code == 0, result.output
    assert uploaded(cluster) == ("job.py", script.read_bytes())
    assert cluster.find(f"POST /jars/{PROGRAM}/run").json == {"programArgsList": ["--input", "x"]}
    assert result.stdout == (
        f"Job has been submitted with JobID {JOB}\nProgram execution finished\n"
        f"Job with JobID {JOB} has finished.\nJob Runtime: 1 min 1 s\n"
    )
    assert result.stderr == f"Job {JOB} is INITIALIZING.\nJob {JOB} is RUNNING.\n"
    assert "runs there" not in result.output
    # The list of programs is as it was before.
    assert f"DELETE /jars/{PROGRAM}" in cluster.requests()


def test_run_tells_each_failure_after_which_its_job_starts_again(cluster: FakeServer, script: Path) -> None:
    def at(state: str, count: int, failed: int) -> dict[str, Any]:
        failure = {"count": count, "last-failure": f"operator 'a': ValueError: {failed}", "last-failure-time": failed}
        return {"state": state, "duration": 1, "restarts": failure}

    # The job is seen only while it runs; what happens between two looks is told all the same.
    states = [at("RUNNING", 1, 5_000), at("RUNNING", 1, 5_000), at("RUNNING", 3, 9_000), at("FINISHED", 4, 11_000)]
    cluster.answer(f"GET /jobs/{JOB}", {"state": "RUNNING", "duration": 1}, *states)

    result = cluster.invoke("run", script)

    assert result.stderr == (
        f"Job {JOB} is RUNNING.\n"
        f"Job {JOB}: 1 restart, last failure {time_text(5_000)}: operator 'a': ValueError: 5000\n"
        f"Job {JOB}: 3 restarts, last failure {time_text(9_000)}: operator 'a': ValueError: 9000\n"
    )


def test_detached_run_returns_with_the_id(cluster: FakeServer, script: Path) -> None:
    result = cluster.invoke("run -d", script)

    assert (result.exit_code, result.output) == (0, f"Job has been submitted with JobID {JOB}\n")
    assert f"GET /jobs/{JOB}" not in cluster.requests()


def test_the_options_of_run_reach_the_cluster(cluster: FakeServer, script: Path) -> None:
    flags = "-d -p 3 -s sp@7 -n --engine local --traceback -C file:///a.jar -C file:///b.jar -Dpipeline.name=x"
    result = cluster.invoke(f"run {flags}", script, "-Dexecution.checkpointing.interval=1 s", "a", "--", "-Dof=script")

    assert result.exit_code == 0, result.output
    assert cluster.find(f"POST /jars/{PROGRAM}/run").json == {
        "programArgsList": ["a", "-Dof=script"],
        "parallelism": 3,
        "savepointPath": os.path.abspath("sp@7"),
        "allowNonRestoredState": True,
        "flinkConfiguration": {
            "execution.engine": "local",
            "execution.full-traceback": "true",
            "pipeline.classpaths": "file:///a.jar;file:///b.jar",
            "pipeline.name": "x",
            "execution.checkpointing.interval": "1 s",
        },
    }


def test_settings_of_the_connection_are_not_those_of_the_program(cluster: FakeServer, script: Path) -> None:
    assert cluster.invoke("run -d -Drest.address=elsewhere -Dsecurity.ssl.rest.enabled=false", script).exit_code == 0
    assert cluster.find(f"POST /jars/{PROGRAM}/run").json == {}


@pytest.mark.parametrize("savepoint", ["s3://bucket/savepoint-1", "file:///savepoints/1"])
def test_the_url_of_a_savepoint_is_sent_as_it_is(cluster: FakeServer, script: Path, savepoint: str) -> None:
    assert cluster.invoke(f"run -d -s {savepoint}", script).exit_code == 0
    assert cluster.find(f"POST /jars/{PROGRAM}/run").json == {"savepointPath": savepoint}


def test_what_the_script_imports_is_sent_with_it_in_one_file(cluster: FakeServer, tmp_path: Path) -> None:
    script = tmp_path / "my-job.py"
    script.write_text("import one, two, three")
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "folder" / "two").mkdir(parents=True)
    (tmp_path / "folder" / "two" / "__init__.py").write_text("2")
    with zipfile.ZipFile(tmp_path / "three.zip", "w") as archive:
        archive.writestr("three/__init__.py", "3")

    result = cluster.invoke(
        "run -d", "--py-files", f"{tmp_path}/one.py,{tmp_path}/folder", "-pyfs", f"file://{tmp_path}/three.zip", script
    )

    assert result.exit_code == 0, result.output
    name, content = uploaded(cluster)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = {each: archive.read(each).decode() for each in archive.namelist()}
    assert name == "my_job.zip"
    assert found == {"my_job.py": "import one, two, three", "one.py": "1", "two/__init__.py": "2", "three/__init__.py": "3"}
    assert cluster.find(f"POST /jars/{PROGRAM}/run").json == {"entryClass": "my_job"}


@pytest.mark.parametrize(
    ("files", "error", "text"),
    [
        ("none.py", InvalidArgumentError, "there is no file none.py"),
        ("s3://bucket/a.zip", InvalidArgumentError, "only files of this machine"),
        ("data.txt", InvalidArgumentError, "data.txt is not a .py file"),
        ("a/x.py,b/x.py", InvalidProgramError, "two files named x.py: of a/x.py and of b/x.py"),
    ],
)
def test_files_that_cannot_be_sent_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Path, files: str, error: type[Exception], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.py", "b/x.py", "data.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("")
    with pytest.raises(error, match=text), packed(script, files.split(",")):
        pass


@pytest.mark.parametrize(("name", "sent"), [("my job.py", "my_job.py"), ("ä.py", "_.py"), ("job", "job.py"), (".x.py", "x.py")])
def test_a_script_is_sent_under_a_name_that_servers_accept(cluster: FakeServer, tmp_path: Path, name: str, sent: str) -> None:
    path = tmp_path / name
    path.write_text("")
    assert cluster.invoke("run -d", path).exit_code == 0
    assert uploaded(cluster)[0] == sent


def test_a_job_that_fails_fails_the_command_with_its_reason(cluster: FakeServer, script: Path) -> None:
    cluster.answer(f"GET /jobs/{JOB}", {"state": "RUNNING"}, {"state": "FAILED"})
    entries = [{"exceptionName": "ValueError", "stacktrace": "Traceback:\nValueError: boom\n"}]
    cluster.answer(f"GET /jobs/{JOB}/exceptions?maxExceptions=1", {"exceptionHistory": {"entries": entries}})

    result = cluster.invoke("run", script)

    assert result.exit_code == 1
    assert f"JobExecutionError: job {JOB} has failed: Traceback:\nValueError: boom\n" in result.stderr
    assert "finished" not in result.stdout


def test_a_job_that_is_cancelled_fails_the_command(cluster: FakeServer, script: Path) -> None:
    cluster.answer(f"GET /jobs/{JOB}", {"state": "CANCELED"})
    result = cluster.invoke("run", script)
    assert (result.exit_code, f"Job {JOB} was cancelled." in result.stderr) == (1, True)


def test_a_script_that_fails_before_its_job_is_told_with_the_end_of_its_log(cluster: FakeServer, script: Path) -> None:
    cluster.answer(f"POST /jars/{PROGRAM}/run", {"errors": ["job.py ended without a job.\nModuleNotFoundError: lib"]}, status=500)

    result = cluster.invoke("run", script)

    assert result.exit_code == 1
    assert (
        "InvalidProgramError: the program was not started: job.py ended without a job.\nModuleNotFoundError: lib" in result.stderr
    )
    assert "Hint: --py-files" in result.stderr
    assert f"DELETE /jars/{PROGRAM}" in cluster.requests()


def test_the_server_of_one_job_takes_no_programs(cluster: FakeServer, script: Path) -> None:
    del cluster.answers["POST /jars/upload"]
    result = cluster.invoke("run", script)
    assert result.exit_code == 1
    assert "belongs to a running job, not to a session cluster" in result.stderr
    assert "flinkish cluster start" in result.stderr


def test_a_job_manager_of_flink_takes_no_programs_of_flinkish(cluster: FakeServer, script: Path) -> None:
    # As recorded from Flink 2.3.0.
    error = "org.apache.flink.runtime.rest.handler.RestHandlerException: Only Jar files are allowed."
    cluster.answer("POST /jars/upload", {"errors": [error]}, status=400)
    result = cluster.invoke("run", script)
    assert result.exit_code == 1
    assert "is a JobManager of Flink, which cannot run programs of flinkish" in result.stderr


@pytest.mark.parametrize(
    ("cancel", "text"), [(False, f"The job goes on. To cancel it: flinkish cancel {JOB}"), (True, "Cancelled job")]
)
def test_ctrl_c_leaves_the_job_or_cancels_it(
    cluster: FakeServer, capsys: pytest.CaptureFixture[str], cancel: bool, text: str
) -> None:
    cluster.answer(f"PATCH /jobs/{JOB}?mode=cancel", {}, status=202)

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    client = RestClient(Address(f"http://127.0.0.1:{cluster.port}"))
    assert remote.follow(client, JOB, cancel_on_interrupt=cancel, sleep=interrupt) == 130
    assert text in capsys.readouterr().err
    assert (f"PATCH /jobs/{JOB}?mode=cancel" in cluster.requests()) == cancel


def test_a_server_that_is_away_for_a_while_is_waited_for(cluster: FakeServer) -> None:
    away = (503, {"errors": ["this Dispatcher does not lead"]})
    here = (200, {"state": "RUNNING"})
    cluster.answers[f"GET /jobs/{JOB}"] = [here, away, away, (200, {"state": "FINISHED", "duration": 1})]
    times = iter(range(0, 1000, 50))
    client = RestClient(Address(f"http://127.0.0.1:{cluster.port}"))

    assert remote.follow(client, JOB, cancel_on_interrupt=False, sleep=lambda _: None, clock=lambda: float(next(times))) == 0

    cluster.answers[f"GET /jobs/{JOB}"] = [here, away]
    with pytest.raises(ServerError, match=f"nothing is known of job {JOB} for 120 s"):
        remote.follow(client, JOB, cancel_on_interrupt=False, sleep=lambda _: None, clock=lambda: float(next(times)))


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (TimeoutError(), "it is not known whether the program was started: no server answers"),
        (ConnectionResetError(), "otherwise it may run twice"),
        (ConnectionRefusedError(), "ServerError: no server answers at"),
    ],
)
def test_a_server_that_does_not_answer_a_start_may_have_started_the_program(
    cluster: FakeServer, script: Path, monkeypatch: pytest.MonkeyPatch, reason: OSError, text: str
) -> None:
    def silent(self: RestClient, path: str, *_: Any, **__: Any) -> None:
        raise UnreachableError(self.address.url, reason)

    monkeypatch.setattr(RestClient, "post", silent)
    result = cluster.invoke("run -d", script)

    assert result.exit_code == 1
    assert text in result.stderr
    assert f"DELETE /jars/{PROGRAM}" in cluster.requests()


@pytest.mark.parametrize("flag", ["-d", "-sae"])
def test_options_of_a_cluster_are_refused_without_one(script: Path, flag: str) -> None:
    from click.testing import CliRunner

    from flinkish.cli.main import cli

    result = CliRunner().invoke(cli, ["run", flag, str(script)])
    assert result.exit_code == 2
    assert "need -m HOST:PORT" in result.output
    assert "runs there" not in result.output


# -- flink run -----------------------------------------------------------------------------------------------------------------

#: As read from Flink 2.3.0: flink run -d -m 127.0.0.1:PORT -s /tmp/sp -n -p 3 -Dpipeline.name=hello -py job.py
RECORDED = {
    "pipeline.name": "hello",
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.rpc.port": "9999",
    "execution.target": "remote",
    "rest.retry.max-attempts": "1",
    "python.client.executable": "/usr/bin/python3",
    "security.ssl.rest.enabled": "false",
    "rest.address": "127.0.0.1",
    "rest.port": "9999",
    "rest.path": "",
    "execution.state-recovery.claim-mode": "NO_CLAIM",
    "execution.attached": "false",
    "execution.shutdown-on-attached-exit": "false",
    "pipeline.jars": "['file:/opt/flink/opt/flink-python-2.3.0.jar']",
    "parallelism.default": "3",
    "execution.state-recovery.ignore-unclaimed-state": "true",
    "execution.state-recovery.path": "/tmp/sp",
}


@pytest.fixture
def flink(monkeypatch: pytest.MonkeyPatch, cluster: FakeServer, script: Path) -> dict[str, str]:
    """A process that flink run has started; the options can be changed."""
    given = {**RECORDED, "rest.port": str(cluster.port)}
    monkeypatch.setenv(executor_loader.GATEWAY_VARIABLE, "12345")
    monkeypatch.setattr(flink_run, "read_options", lambda: given)
    set_arguments(monkeypatch, script, "--input", "x")
    module = types.ModuleType("__main__")
    module.__file__ = str(script)
    monkeypatch.setitem(sys.modules, "__main__", module)
    return given


def execute() -> int:
    """Execute a program as the script does; return the exit code with which that ends."""
    with pytest.raises(SystemExit) as end:
        executor_loader.load_executor().execute_async(None)  # type: ignore[arg-type]
    return int(end.value.code or 0)


@pytest.mark.usefixtures("flink")
def test_flink_run_sends_the_script_with_its_options(cluster: FakeServer, script: Path, capsys: Any) -> None:
    assert execute() == 0
    assert uploaded(cluster) == ("job.py", script.read_bytes())
    request = cluster.find(f"POST /jars/{PROGRAM}/run").json
    claim = request["flinkConfiguration"].pop("execution.state-recovery.claim-mode", "NO_CLAIM")
    assert claim == "NO_CLAIM"
    assert request == {
        "programArgsList": ["--input", "x"],
        "parallelism": 3,
        "savepointPath": "/tmp/sp",
        "allowNonRestoredState": True,
        "flinkConfiguration": {"pipeline.name": "hello"},
    }
    assert capsys.readouterr().out == f"Job has been submitted with JobID {JOB}\n"
    assert f"GET /jobs/{JOB}" not in cluster.requests()


def test_attached_flink_run_follows_the_job(cluster: FakeServer, flink: dict[str, str], capsys: Any) -> None:
    flink["execution.attached"] = "true"
    assert execute() == 0
    assert "Program execution finished" in capsys.readouterr().out

    cluster.answer(f"GET /jobs/{JOB}", {"state": "CANCELED"})
    assert execute() == 1


def test_flink_run_sends_python_files_and_jars(cluster: FakeServer, flink: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("")
    flink["python.files"] = str(tmp_path / "lib.py")
    flink["pipeline.jars"] = "['file:/opt/flink-python-2.3.0.jar', 'file:/my.jar']"
    assert execute() == 0
    assert uploaded(cluster)[0] == "job.zip"
    request = cluster.find(f"POST /jars/{PROGRAM}/run").json
    assert request["entryClass"] == "job"
    assert request["flinkConfiguration"]["pipeline.jars"] == "file:/my.jar"


def test_a_module_of_flink_run_is_sent_with_its_files(
    cluster: FakeServer, flink: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "main.py").write_text("")
    flink["python.files"] = str(tmp_path / "lib")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", types.SimpleNamespace(name="main"))
    assert execute() == 0
    assert uploaded(cluster)[0] == "main.zip"
    assert cluster.find(f"POST /jars/{PROGRAM}/run").json["entryClass"] == "main"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"execution.target": "yarn-session"}, "UnsupportedError: flink run has the target 'yarn-session'"),
        ({"rest.port": "1"}, "ServerError: no server answers at http://127.0.0.1:1"),
    ],
)
def test_flink_run_elsewhere_is_told(flink: dict[str, str], capsys: Any, change: dict[str, str], text: str) -> None:
    flink.update(change)
    assert execute() == 1
    assert text in capsys.readouterr().err


def test_a_gateway_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv(executor_loader.GATEWAY_VARIABLE, "1")
    assert execute() == 1
    assert (
        "EngineError: the options of `flink run` cannot be read from its gateway (PYFLINK_GATEWAY_PORT=1)"
        in capsys.readouterr().err
    )


def test_the_last_line_tells_of_records_that_were_too_late(cluster: FakeServer, script: Path) -> None:
    late = "Job 'x' dropped records because they were too late: 3 of 7 at 'Window' (uid 1)."
    cluster.answer(f"GET /jobs/{JOB}", {"state": "FINISHED", "duration": 61_000, "late-records": late})

    assert cluster.invoke("run", script).stderr.splitlines()[-1] == late
