"""flinkish cluster and flinkish history."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flinkish.checkpoint.history import JobHistory, jobs_with_history, read_history
from flinkish.cli import cluster_commands
from flinkish.cli.main import cli
from flinkish.common.clock import ManualClock
from flinkish.common.errors import ConfigurationError, EngineError
from flinkish.common.ids import CheckpointId, Generation
from tests.integration.cli.fake_server import FakeServer, fake_server, job

A, B, C = "a" * 32, "b" * 32, "c" * 32


pytestmark = pytest.mark.usefixtures("same_logging")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.delenv("FLINKISH_REST_TOKEN", raising=False)
    with fake_server() as each:
        yield each


def stop(server: FakeServer, *flags: str) -> Any:
    return CliRunner().invoke(cli, ["cluster", "stop", "-m", f"127.0.0.1:{server.port}", *flags])


# -- cluster -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "mode"), [([], "cancel"), (["--keep-jobs"], "keep")])
def test_a_cluster_is_stopped_with_or_without_its_jobs(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, flags: list[str], mode: str
) -> None:
    server.answer(f"DELETE /cluster?jobs={mode}", {})
    server.answer("GET /config", {"errors": ["it ends"]}, status=503)
    asked = cluster_commands.UnreachableError
    looks = iter([None, None])

    def sleep(_seconds: float) -> None:
        if next(looks, asked) is asked:
            # The process has ended.
            monkeypatch.setattr("flinkish.cli.client.RestClient.get", _unreachable)

    monkeypatch.setattr(cluster_commands, "sleep", sleep)
    result = stop(server, *flags)

    assert result.exit_code == 0, result.output
    assert result.stdout == f"Stopped the session cluster at http://127.0.0.1:{server.port}.\n"
    assert server.requests() == [f"DELETE /cluster?jobs={mode}", *["GET /config"] * 3]


def _unreachable(*_: Any) -> None:
    raise cluster_commands.UnreachableError("http://x", "Connection refused")


def test_a_cluster_that_answers_too_slowly_has_not_ended(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer("DELETE /cluster?jobs=cancel", {})
    monkeypatch.setattr("flinkish.cli.client.RestClient.get", _slow)
    result = stop(server, "--timeout", "0.1")
    assert result.exit_code == 1
    assert "has not ended after 0.1 s" in result.stderr


def _slow(*_: Any) -> None:
    raise cluster_commands.UnreachableError("http://x", TimeoutError())


def set_python(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Have a shell script run as the Python of new processes."""
    stand_in = folder / "python"
    stand_in.write_text(f"#!/bin/sh\n{script}\n")
    stand_in.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(stand_in))


@pytest.mark.parametrize("call", ["sleep", "monotonic"])
def test_ctrl_c_ends_a_cluster_that_is_being_started(call: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_python(monkeypatch, tmp_path, "echo $$\nexec sleep 60")
    logs = tmp_path / "logs"
    usual = getattr(cluster_commands, call)

    def interrupted(*given: float) -> object:
        if any(file.read_text() for file in logs.iterdir()):
            raise KeyboardInterrupt
        return usual(*given)

    monkeypatch.setattr(cluster_commands, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster_commands.start_detached((f"env.log.dir={logs}", f"security.checkpoint.hmac-key-file={tmp_path}/key"))
    [log] = logs.iterdir()
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text()), 0)


def test_a_cluster_that_does_not_end_is_told(server: FakeServer) -> None:
    server.answer("DELETE /cluster?jobs=cancel", {})
    server.answer("GET /config", {})
    result = stop(server, "--timeout", "0.1")
    assert result.exit_code == 1
    assert "has not ended after 0.1 s" in result.stderr


def test_the_server_of_one_job_is_not_stopped_as_a_cluster(server: FakeServer) -> None:
    result = stop(server)
    assert result.exit_code == 1
    assert "belongs to a running job, not to a session cluster\nHint: `flinkish cancel`" in result.stderr


def test_a_detached_cluster_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = 'echo starting "$@" "$FLINKISH_PROPERTIES"\necho "Dispatcher: http://localhost:5"\nexec sleep 60'
    set_python(monkeypatch, tmp_path, script)
    properties = (f"env.log.dir={tmp_path}/logs", f"security.checkpoint.hmac-key-file={tmp_path}/key")

    process, address, log = cluster_commands.start_detached(properties)

    try:
        assert address == "http://localhost:5"
        # Its command line, which every user of the machine can read, has no properties.
        command, _, properties_passed = log.read_text().splitlines()[0].partition(" env.log.dir=")
        assert command == "starting -m flinkish.server.session"
        assert properties_passed == f"{tmp_path}/logs {properties[1]}"
        assert log.stat().st_mode & 0o077 == 0
        # It has a session of its own, so that Ctrl-C in the terminal does not reach it.
        assert os.getsid(process) == process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("echo 'ConfigurationError: the port is taken'", "ConfigurationError: the port is taken"),
        ("", r"its log \S+\.log is empty"),
    ],
)
def test_a_detached_cluster_that_ends_at_once_fails_with_its_log(
    says: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_python(monkeypatch, tmp_path, f"{says}\nexit 3")
    with pytest.raises(EngineError, match=rf"exit code 3:\n{told}"):
        cluster_commands.start_detached((f"env.log.dir={tmp_path}", f"security.checkpoint.hmac-key-file={tmp_path}/key"))


# -- history -------------------------------------------------------------------------------------------------------------------


def test_history_lists_the_jobs_that_a_server_has_seen_end(server: FakeServer) -> None:
    ended = {"end-time": 1795228950000, "duration": 3_700_000}
    jobs = [job(A), job(B, "FAILED", "later", **ended), job(C, "FINISHED", "earlier", **{**ended, "end-time": 1795228940000})]
    server.answer("GET /jobs/overview", {"jobs": jobs})

    lines = server.invoke("history").stdout.splitlines()

    assert [line.split()[:3] for line in lines[1:]] == [[C, "FINISHED", "earlier"], [B, "FAILED", "later"]]
    assert "1 h 1 min" in lines[1]

    server.answer("GET /jobs/overview", {"jobs": [job(A)]})
    assert server.invoke("history").stdout == "No terminated jobs.\n"


def test_history_of_a_job_shows_its_checkpoints_and_failures(server: FakeServer) -> None:
    server.answer(
        f"GET /jobs/{A}",
        {"name": "mine", "state": "FAILED", "start-time": 1795228846605, "end-time": 1795228946605, "duration": 100_000},
    )
    common = {"trigger_timestamp": 1795228850000, "checkpoint_type": "CHECKPOINT", "state_size": 7_919, "end_to_end_duration": 42}
    done = {**common, "id": 4, "status": "COMPLETED", "external_path": "/checkpoints/x@4"}
    failed = {**common, "id": 5, "status": "FAILED", "failure_message": "disk full"}
    counts = {"completed": 4, "failed": 1, "restored": 2}
    server.answer(f"GET /jobs/{A}/checkpoints", {"counts": counts, "history": [failed, done]})
    entry = {"timestamp": 1795228860000, "exceptionName": "ValueError", "stacktrace": "Traceback:\nValueError: boom\n"}
    server.answer(f"GET /jobs/{A}/exceptions", {"exceptionHistory": {"entries": [entry]}})

    result = server.invoke("history", A, status=0)

    assert f"mine ({A}): FAILED\n" in result.stdout
    assert "Checkpoints: 4 completed, 1 failed; 2 restored.\n" in result.stdout
    rows = [line for line in result.stdout.splitlines() if "CHECKPOINT  " in line]
    assert [row.split()[2:] for row in rows] == [
        ["5", "CHECKPOINT", "FAILED", "7.9", "KB", "42", "ms", "disk", "full"],
        ["4", "CHECKPOINT", "COMPLETED", "7.9", "KB", "42", "ms", "/checkpoints/x@4"],
    ]
    assert result.stdout.endswith(" failure:\nTraceback:\nValueError: boom\n")


def test_history_of_an_unknown_job_is_told(server: FakeServer) -> None:
    result = server.invoke("history", A)
    assert (result.exit_code, f"knows no job {A}" in result.stderr) == (1, True)


def test_history_is_read_from_tables_without_a_server(tmp_path: Path) -> None:
    for name, end in ((A, "FINISHED"), (B, None)):
        notes = JobHistory(tmp_path, name, generation=Generation(1), clock=ManualClock(5_000))
        notes.note("attempt started", "attempt 0 from the beginning")
        notes.note("checkpoint completed", "periodic", checkpoint_id=CheckpointId(7))
        notes.note("attempt failed", "attempt 0 in ValueError: boom")
        if end is not None:
            notes.note("job ended", end)
        notes.flush()
    (tmp_path / C).mkdir()

    assert jobs_with_history(str(tmp_path)) == [A, B]
    assert [event.event for event in read_history(str(tmp_path), B)] == [
        "attempt started",
        "checkpoint completed",
        "attempt failed",
    ]
    listed = CliRunner().invoke(cli, ["history", "--dir", str(tmp_path)])
    shown = CliRunner().invoke(cli, ["history", "--dir", str(tmp_path), A])
    unknown = CliRunner().invoke(cli, ["history", "--dir", str(tmp_path), C])

    assert listed.exit_code == 0, listed.output
    rows = [line.split() for line in listed.stdout.splitlines()[1:]]
    assert [(row[0], row[1], row[-2:]) for row in rows] == [(A, "FINISHED", ["7", "1"]), (B, "-", ["7", "1"])]
    assert [line.partition("  ")[2] for line in shown.stdout.splitlines()] == [
        "attempt started: attempt 0 from the beginning",
        "checkpoint completed 7: periodic",
        "attempt failed: attempt 0 in ValueError: boom",
        "job ended: FINISHED",
    ]
    assert unknown.exit_code == 1
    assert f"JobNotFoundError: job {C} has no history below {tmp_path}" in unknown.stderr


def test_a_job_whose_metrics_were_noted_after_its_end_has_ended(tmp_path: Path) -> None:
    notes = JobHistory(tmp_path, A, generation=Generation(1), clock=ManualClock(5_000))
    notes.note("job ended", "FAILED")
    notes.note("metrics", "53 metrics")
    notes.flush()

    listed = CliRunner().invoke(cli, ["history", "--dir", str(tmp_path)])

    assert listed.stdout.splitlines()[1].split()[:2] == [A, "FAILED"]


def test_a_folder_of_checkpoints_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        jobs_with_history(str(tmp_path / "none"))
    result = CliRunner().invoke(cli, ["history", "--dir", str(tmp_path), "-m", "x:1"])
    assert (result.exit_code, "either --dir or -m" in result.stderr) == (1, True)
