"""The commands about jobs, against a server that gives prepared answers, which are those recorded from Flink 2.3.0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from flinkish.cli import client
from flinkish.cli.main import cli
from flinkish.cli.tables import time_text
from tests.integration.cli.fake_server import FakeServer, fake_server, job

A, B, C = "a" * 32, "b" * 32, "c" * 32
TRIGGER = "0190c4580e6efee602a01354b73bf5f2"
RUNS = {"status": {"id": "IN_PROGRESS"}, "operation": None}
JAVA_FAILURE = (
    "java.util.concurrent.CompletionException: org.apache.flink.SomeException: Could not do it\n"
    "\tat java.base/java.util.concurrent.CompletableFuture.encodeThrowable(CompletableFuture.java:332)\n"
    "Caused by: java.io.FileNotFoundException: Cannot find it\n\tat a.B.c(B.java:1)\n\t... 3 more\n"
    "Caused by: java.io.IOException: the last reason\n\tat a.B.c(B.java:1)\n"
)


def done(**operation: Any) -> dict[str, Any]:
    return {"status": {"id": "COMPLETED"}, "operation": operation}


def failed(trace: str) -> dict[str, Any]:
    return done(**{"failure-cause": {"class": "E", "stack-trace": trace, "serialized-throwable": ""}})


pytestmark = pytest.mark.usefixtures("same_logging")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setattr(client, "_FIRST_GAP", 0.001)
    monkeypatch.delenv("FLINKISH_REST_TOKEN", raising=False)
    with fake_server() as each:
        each.answer("GET /jobs/overview", {"jobs": [job(A)]})
        yield each


# -- logs ----------------------------------------------------------------------------------------------------------------------


def test_logs_prints_the_log_of_a_job_of_a_session_and_of_a_job_with_a_server_of_its_own(server: FakeServer) -> None:
    server.answer("GET /jobmanager/logs", {"logs": [{"name": f"driver-{B}.log"}, {"name": f"driver-{B}.out"}]})
    server.answer("GET /jobs", {"jobs": [{"id": A, "status": "RUNNING"}]})
    server.answer(f"GET /jobmanager/logs/driver-{B}.log", "the log: ü\n".encode())
    server.answer(f"GET /jobmanager/logs/driver-{B}.out", b"printed\n")
    server.answer("GET /jobmanager/log", b"of the driver itself\n")

    assert server.invoke("logs", B).output == "the log: ü\n"
    assert server.invoke("logs --stdout", B).output == "printed\n"
    assert server.invoke("logs", A).output == "of the driver itself\n"
    server.answer(
        "GET /jobs/overview", {"jobs": [job(A), job(B, name="flight delays"), job(C, name="twice"), job(A, name="twice")]}
    )
    assert server.invoke("logs", "flight delays").output == "the log: ü\n"
    assert f"several jobs are called 'twice': {C}, {A}" in server.invoke("logs", "twice").output
    result = server.invoke("logs", C)
    assert (result.exit_code, f"job {C}" in result.output) == (1, True), result.output


# -- list ----------------------------------------------------------------------------------------------------------------------


def test_list_shows_running_and_scheduled_jobs_oldest_first(server: FakeServer) -> None:
    jobs = [
        job(B, "RESTARTING", "younger", **{"start-time": 1795228900000}),
        job(A, "RUNNING", "a name of several words"),
        job(C, "FINISHED"),
    ]
    server.answer("GET /jobs/overview", {"jobs": jobs})

    result = server.invoke("list")

    lines = result.output.splitlines()
    assert (result.exit_code, len(lines)) == (0, 5), result.output
    assert lines[0] == "------------------ Running/Restarting Jobs -------------------"
    assert lines[1].split("  ")[0] == "JOB ID"
    assert [line.split()[:2] for line in lines[2:4]] == [[A, "RUNNING"], [B, "RESTARTING"]]
    assert "a name of several words" in lines[2]
    assert "5 min 6 s" in lines[2]
    assert "3/4" in lines[2]
    assert lines[4] == "No scheduled jobs."


def test_list_shows_when_the_last_checkpoint_was(server: FakeServer) -> None:
    now = 1795228846605 + 306461
    completed = {"id": 101, "latest_ack_timestamp": now - 2000}
    server.answer(f"GET /jobs/{A}/checkpoints", {"latest": {"completed": completed, "savepoint": None}})
    assert "101, 2 s ago" in server.invoke("list").output

    savepoint = {"id": 102, "latest_ack_timestamp": now - 1000}
    server.answer(f"GET /jobs/{A}/checkpoints", {"latest": {"completed": completed, "savepoint": savepoint}})
    assert "102, 1 s ago" in server.invoke("list").output

    server.answer(f"GET /jobs/{A}/checkpoints", {"latest": {"completed": None, "savepoint": None}})
    assert "none yet" in server.invoke("list").output


@pytest.mark.parametrize(
    ("flags", "shown"),
    [("", {A, B}), ("-a", {A, B, C}), ("-r", {A}), ("-s", {B}), ("-r -s", {A, B}), ("-a -r", {A, C})],
)
def test_the_flags_of_list_choose_jobs_by_their_state(server: FakeServer, flags: str, shown: set[str]) -> None:
    server.answer("GET /jobs/overview", {"jobs": [job(A, "CANCELLING"), job(B, "INITIALIZING"), job(C, "FAILED")]})

    result = server.invoke(f"list {flags}", status=0)

    assert {each for each in (A, B, C) if each in result.output} == shown


def test_list_without_jobs_says_so(server: FakeServer) -> None:
    server.answer("GET /jobs/overview", {"jobs": []})
    assert server.invoke("list -a").output == "No running jobs.\nNo scheduled jobs.\nNo terminated jobs.\n"


TROUBLE = {"count": 33, "last-failure": "operator 'price': ValueError: 7", "last-failure-time": 1795228850000}


def test_list_tells_what_fails_in_a_job_that_restarts(server: FakeServer) -> None:
    loops = job(B, restarts={**TROUBLE, "restarting-since": 1795228846605})
    server.answer("GET /jobs/overview", {"jobs": [job(A), loops, job(C, restarts={**TROUBLE, "count": 1})]})

    lines = server.invoke("list -r").output.splitlines()

    since, last = time_text(1795228846605), time_text(1795228850000)
    assert lines[-2:] == [
        f"{B}: restarting since {since}, 33 restarts, last failure {last}: operator 'price': ValueError: 7",
        f"{C}: 1 restart, last failure {last}: operator 'price': ValueError: 7",
    ]
    assert len([line for line in lines if line.startswith(A)]) == 1


# -- cancel --------------------------------------------------------------------------------------------------------------------


def test_cancel_cancels(server: FakeServer) -> None:
    server.answer(f"PATCH /jobs/{A}?mode=cancel", {}, status=202)

    result = server.invoke("cancel", A.upper())

    assert (result.exit_code, result.output) == (0, f"Cancelling job {A}.\nCancelled job {A}.\n")


@pytest.mark.parametrize(
    ("status", "text"),
    [(404, f"JobNotFoundError: the server at http://127.0.0.1:PORT knows no job {A}"), (409, f"job {A} has already ended")],
)
def test_cancel_of_a_job_that_does_not_run_fails(server: FakeServer, status: int, text: str) -> None:
    server.answer(f"PATCH /jobs/{A}?mode=cancel", {"errors": ["Job could not be found.\n\tat a.B"]}, status=status)

    result = server.invoke("cancel", A, status=1)

    assert text.replace("PORT", str(server.port)) in result.stderr
    assert "\tat" not in result.stderr
    assert "Cancelled" not in result.output


@pytest.mark.parametrize(("arguments", "directory"), [([A], None), (["/folder", A], "/folder")])
def test_cancel_with_a_savepoint_takes_one_first(server: FakeServer, arguments: list[str], directory: str | None) -> None:
    server.answer(f"POST /jobs/{A}/savepoints", {"request-id": TRIGGER}, status=202)
    server.answer(f"GET /jobs/{A}/savepoints/{TRIGGER}", RUNS, done(location="file:/sp/savepoint-1"))

    result = server.invoke("cancel", "-s", *arguments, status=0)

    assert server.find(f"POST /jobs/{A}/savepoints").json == {
        "target-directory": directory,
        "cancel-job": True,
        "formatType": "CANONICAL",
    }
    assert f"Cancelled job {A}. Savepoint stored in file:/sp/savepoint-1.\n" in result.stdout
    assert "DEPRECATION WARNING" in result.stderr


# -- stop, savepoint, checkpoint -----------------------------------------------------------------------------------------------


def test_stop_waits_for_its_savepoint(server: FakeServer) -> None:
    server.answer(f"POST /jobs/{A}/stop", {"request-id": TRIGGER}, status=202)
    server.answer(f"GET /jobs/{A}/savepoints/{TRIGGER}", RUNS, RUNS, done(location="file:/sp/savepoint-1"))

    result = server.invoke("stop", A, status=0)

    assert result.stdout == (
        f'Suspending job "{A}" with a CANONICAL savepoint.\nTriggering stop-with-savepoint for job {A}.\n'
        "Savepoint completed. Path: file:/sp/savepoint-1\n"
    )
    assert server.find(f"POST /jobs/{A}/stop").json == {"targetDirectory": None, "drain": False, "formatType": "CANONICAL"}


@pytest.mark.parametrize("flags", ["-d -p /sp -type native", "--drain --savepointPath /sp --type NATIVE"])
def test_stop_drains_into_a_folder(server: FakeServer, flags: str) -> None:
    server.answer(f"POST /jobs/{A}/stop", {"request-id": TRIGGER}, status=202)
    server.answer(f"GET /jobs/{A}/savepoints/{TRIGGER}", done(location="file:/sp/savepoint-1"))

    result = server.invoke(f"stop {flags}", A)

    assert result.stdout.startswith(f'Draining job "{A}" with a NATIVE savepoint.\n')
    assert server.find(f"POST /jobs/{A}/stop").json == {"targetDirectory": "/sp", "drain": True, "formatType": "NATIVE"}


@pytest.mark.parametrize(("verb", "path"), [("stop", "stop"), ("savepoint", "savepoints")])
def test_detached_operations_print_the_trigger_id_and_do_not_wait(server: FakeServer, verb: str, path: str) -> None:
    server.answer(f"POST /jobs/{A}/{path}", {"request-id": TRIGGER}, status=202)

    result = server.invoke(f"{verb} -detached", A, status=0)

    assert f"triggerId: {TRIGGER}\n" in result.stdout
    assert server.requests() == ["GET /jobs/overview", f"POST /jobs/{A}/{path}"]


def test_savepoint_takes_a_folder(server: FakeServer) -> None:
    server.answer(f"POST /jobs/{A}/savepoints", {"request-id": TRIGGER}, status=202)
    server.answer(f"GET /jobs/{A}/savepoints/{TRIGGER}", RUNS, done(location="s3://bucket/savepoint-1"))

    result = server.invoke("savepoint", A, "s3://bucket")

    assert result.stdout == (
        f"Triggering savepoint for job {A}.\nSavepoint completed. Path: s3://bucket/savepoint-1\n"
        "You can resume your program from this savepoint with the run command.\n"
    )
    assert server.find(f"POST /jobs/{A}/savepoints").json == {
        "target-directory": "s3://bucket",
        "cancel-job": False,
        "formatType": "CANONICAL",
    }


@pytest.mark.parametrize(
    ("flag", "kind", "text"), [("", "CONFIGURED", "Checkpoint 120"), ("-full", "FULL", "Checkpoint(FULL) 120")]
)
def test_checkpoint_prints_its_id(server: FakeServer, flag: str, kind: str, text: str) -> None:
    server.answer(f"POST /jobs/{A}/checkpoints", {"request-id": TRIGGER}, status=202)
    server.answer(f"GET /jobs/{A}/checkpoints/{TRIGGER}", RUNS, done(checkpointId=120))

    result = server.invoke(f"checkpoint {flag}", A)

    assert f"{text} for job {A} completed.\n" in result.stdout
    assert server.find(f"POST /jobs/{A}/checkpoints").json == {"checkpointType": kind}


def test_savepoint_disposes_a_savepoint(server: FakeServer) -> None:
    server.answer("POST /savepoint-disposal", {"request-id": TRIGGER})
    server.answer(f"GET /savepoint-disposal/{TRIGGER}", RUNS, done())

    result = server.invoke("savepoint -d", "/sp/savepoint-1", status=0)

    assert result.stdout == "Disposing savepoint '/sp/savepoint-1'.\nSavepoint '/sp/savepoint-1' disposed.\n"
    assert server.find("POST /savepoint-disposal").json == {"savepoint-path": "/sp/savepoint-1"}


@pytest.mark.parametrize(
    ("trace", "shown"),
    [
        ("CheckpointError: disk full\nHint: make room.", "failed: CheckpointError: disk full\nHint: make room.\n"),
        (
            JAVA_FAILURE,
            "failed: java.util.concurrent.CompletionException: org.apache.flink.SomeException: Could not do it\n"
            "Caused by: java.io.IOException: the last reason\n",
        ),
    ],
)
def test_a_failed_operation_prints_its_reason_without_javas_trace(server: FakeServer, trace: str, shown: str) -> None:
    server.answer(f"POST /jobs/{A}/savepoints", {"request-id": TRIGGER}, status=202)
    server.answer(f"GET /jobs/{A}/savepoints/{TRIGGER}", failed(trace))

    result = server.invoke("savepoint", A, status=1)

    assert result.stderr.endswith(shown)
    assert "completed" not in result.output


@pytest.mark.parametrize("verb", ["stop", "savepoint", "checkpoint"])
@pytest.mark.parametrize(
    ("jobs", "text"), [([], f"knows no job {A}"), ([job(A, "FINISHED")], f"job {A} has already ended: it is FINISHED")]
)
def test_an_operation_on_a_job_that_does_not_run_is_refused_at_once(server: FakeServer, verb: str, jobs: Any, text: str) -> None:
    server.answer("GET /jobs/overview", {"jobs": jobs})

    result = server.invoke(verb, A, status=1)

    assert text in result.stderr
    assert server.requests() == ["GET /jobs/overview"]


def test_an_operation_that_takes_too_long_goes_on_without_the_command(server: FakeServer) -> None:
    server.answer(f"POST /jobs/{A}/savepoints", {"request-id": TRIGGER}, status=202)
    server.answer(f"GET /jobs/{A}/savepoints/{TRIGGER}", RUNS)

    result = server.invoke("savepoint --timeout 0.05", A, status=1)

    assert f"has not ended after 0.05 s; it goes on, its trigger id is {TRIGGER}" in result.stderr
    assert "Hint: " in result.stderr


def test_progress_is_told_while_an_operation_takes_long(server: FakeServer) -> None:
    server.answer(f"GET /jobs/{A}/savepoints/{TRIGGER}", *[RUNS] * 6, done(location="there"))
    times = iter(range(0, 100, 3))
    told: list[float] = []

    rest = client.RestClient(client.Address(f"http://127.0.0.1:{server.port}"))
    gaps: list[float] = []
    path = f"/jobs/{A}/savepoints/{TRIGGER}"
    result = client.wait_for(
        rest, path, what="it", timeout=60, progress=told.append, sleep=gaps.append, clock=lambda: float(next(times))
    )

    assert result == {"location": "there"}
    assert told == [3, 6, 9, 12, 15, 18]
    assert gaps == [0.001 * 2**n for n in range(6)]


def test_an_operation_is_waited_for_while_another_dispatcher_takes_over(server: FakeServer) -> None:
    away = (503, {"errors": ["this Dispatcher does not lead"]})
    path = f"/jobs/{A}/savepoints/{TRIGGER}"
    server.answers[f"GET {path}"] = [(200, RUNS), away, away, (200, done(location="there"))]
    rest = client.RestClient(client.Address(f"http://127.0.0.1:{server.port}"))

    assert client.wait_for(rest, path, what="it", timeout=60, progress=lambda _: None) == {"location": "there"}
    server.answers[f"GET {path}"] = [(404, {"errors": ["its driver was lost"]})]
    with pytest.raises(client.RefusedError, match="its driver was lost"):
        client.wait_for(rest, path, what="it", timeout=60, progress=lambda _: None)


def test_an_operation_that_was_lost_with_its_driver_is_told_with_what_to_do(server: FakeServer) -> None:
    path = f"/jobs/{A}/savepoints/{TRIGGER}"
    server.answers[f"GET {path}"] = [(200, RUNS), (404, {"errors": ["There is no savepoint operation"]})]
    rest = client.RestClient(client.Address(f"http://127.0.0.1:{server.port}"))

    with pytest.raises(client.RefusedError, match="There is no savepoint operation\\nHint: the process that did it has ended"):
        client.wait_for(rest, path, what="it", timeout=60, progress=lambda _: None)


# -- servers that do not answer as they should ---------------------------------------------------------------------------------


def test_no_server_is_told_with_what_to_do() -> None:
    with fake_server() as server:
        port = server.port
    result = CliRunner().invoke(cli, ["list", "-m", f"127.0.0.1:{port}"])

    assert result.exit_code == 1
    assert f"ServerError: no server answers at http://127.0.0.1:{port}: Connection refused\nHint: " in result.stderr


def test_a_server_that_ends_while_it_is_waited_for_is_told(server: FakeServer) -> None:
    rest = client.RestClient(client.Address("http://127.0.0.1:1"))
    with pytest.raises(client.ServerError, match="stopped answering before the end of the stop"):
        client.wait_for(rest, "/x/y", what="the stop", timeout=1, progress=lambda _: None)


@pytest.mark.parametrize(
    ("given", "text"),
    [(None, "needs a token\nHint: set FLINKISH_REST_TOKEN"), ("wrong-token-of-mine", "does not accept the token\nHint: check")],
)
def test_a_server_with_a_token_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, given: str | None, text: str) -> None:
    if given is not None:
        monkeypatch.setenv("FLINKISH_REST_TOKEN", given)
    with fake_server(token="the-right-token") as server:
        server.answer("GET /jobs/overview", {"jobs": []})
        result = server.invoke("list", status=1)
        assert text in result.stderr
        assert "wrong-token" not in result.stderr
        monkeypatch.setenv("FLINKISH_REST_TOKEN", "the-right-token")
        assert server.invoke("list").exit_code == 0


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (404, b"<html>"), (500, b'{"error": 1}')])
def test_an_answer_of_something_else_is_recognized(server: FakeServer, status: int, body: bytes) -> None:
    server.answer("GET /jobs/overview", body, status=status)

    result = server.invoke("list", status=1)

    assert "is not a server of jobs" in result.stderr


def test_a_redirect_is_not_followed_with_the_token(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKISH_REST_TOKEN", "a-token-of-some-length")
    server.answer("GET /jobs/overview", b"", status=302)

    assert server.invoke("list").exit_code == 1
    assert server.requests() == ["GET /jobs/overview"]


# -- what is typed -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["cancel", "stop", "savepoint", "checkpoint"])
def test_what_is_no_id_of_a_job_is_refused_before_a_server_is_asked(server: FakeServer, verb: str) -> None:
    result = server.invoke(verb, "my-job", status=1)

    assert "'my-job' is not the id of a job" in result.stderr
    assert server.requests() == []


@pytest.mark.parametrize("verb", ["cancel", "savepoint"])
def test_a_missing_id_is_told_as_flink_does(server: FakeServer, verb: str) -> None:
    result = server.invoke(verb, status=1)
    assert "Missing JobID. Specify a Job" in result.stderr


def test_a_savepoint_is_not_disposed_and_taken_at_once(server: FakeServer) -> None:
    result = server.invoke("savepoint -d /sp/1", A)
    assert (result.exit_code, server.requests()) == (1, [])


@pytest.mark.parametrize(
    ("given", "settings", "url"),
    [
        (None, {}, "http://localhost:8081"),
        (None, {"rest.address": "host", "rest.port": "9000"}, "http://host:9000"),
        (None, {"rest.port": "0"}, "http://localhost:8081"),
        ("host", {"rest.port": "9000"}, "http://host:8081"),
        ("host:1234", {"rest.address": "other"}, "http://host:1234"),
        ("https://host/below/", {}, "https://host:8081/below"),
        ("[::1]:9", {}, "http://[::1]:9"),
    ],
)
def test_the_address_is_that_of_m_or_of_the_configuration(given: str | None, settings: dict[str, str], url: str) -> None:
    assert client.find_address(given, client.Configuration.from_dict(settings), {}).url == url


@pytest.mark.parametrize("given", ["", "ftp://host", "host:port", "user:secret@host:1", "host:1?x", "host:99999", "a b"])
def test_an_address_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(client.InvalidArgumentError, match="is not the address of a server"):
        client.find_address(given, client.Configuration(), {})


def test_the_token_is_not_shown() -> None:
    address = client.find_address(None, client.Configuration(), {"FLINKISH_REST_TOKEN": "very secret token"})
    assert address.token == "very secret token"
    assert "very secret" not in repr(address)
