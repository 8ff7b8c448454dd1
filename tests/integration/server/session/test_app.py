"""Requests to a session: what the Dispatcher answers itself, and what drivers and archives answer for their jobs."""

from __future__ import annotations

import http.client
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flinkish.common import redaction
from flinkish.server import proof
from flinkish.server.rest.routes import ROUTES
from flinkish.server.session import launch
from flinkish.server.session.driver_protocol import PROGRAM_VARIABLE, REPORT_PATH
from flinkish.server.session.handlers import SESSION_ROUTES
from flinkish.server.session.processes import Command, Processes
from flinkish.server.session.service import Service
from flinkish.server.session.storage import SessionStorage
from tests.kit.http import Asking
from tests.kit.waiting import wait_until
from tests.unit.server.session.support import (
    FakeProcess,
    FakeProcesses,
    Ids,
    answering,
    settings_of,
    write_archive,
)

UNKNOWN = "0" * 32
_TYPE = {"Content-Type": "multipart/form-data; boundary=x"}


class Client(Asking):
    """A service of fake drivers, and requests to it."""

    def __init__(self, folder: Path, processes: Any, token: str | None = None, **changes: str) -> None:
        settings = settings_of(folder, **changes)
        self.processes = processes
        self.service = Service(replace(settings, server=replace(settings.server, token=token)), processes=processes, ids=Ids())
        self.port = int(self.service.start().rpartition(":")[2])
        self.dispatcher = self.service.dispatcher

    def upload(self, name: str = "job.py", content: bytes = b"print(1)\n") -> tuple[int, Any]:
        return self.ask("POST", "/jars/upload", _form(name, content), _TYPE)

    def run(self, port: int = 1, state: str | None = "RUNNING", **request: Any) -> FakeProcess:
        """Start a job; its driver answers at the port."""
        program = self.upload()[1]["filename"].rpartition("/")[2]
        status, answer = self.ask("POST", f"/v1/jars/{program}/run", request)
        assert status == 200, answer
        driver = self.processes.last
        assert answer == {"jobid": driver.job_id}
        assert self.dispatcher.report(driver.report(state, port=port), driver.token)
        return driver


def _form(name: str, content: bytes) -> bytes:
    head = f'--x\r\nContent-Disposition: form-data; name="jarfile"; filename="{name}"\r\nContent-Type: application/x\r\n\r\n'
    return head.encode() + content + b"\r\n--x--\r\n"


@contextmanager
def serving(folder: Path, token: str | None = None, **changes: str) -> Iterator[Client]:
    client = Client(folder, FakeProcesses(), token, **changes)
    try:
        yield client
    finally:
        client.service.stop(False)
        assert client.service.wait(60)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("session")) as each:
        yield each


# -- programs


def test_a_program_is_uploaded_listed_and_deleted(client: Client) -> None:
    status, answer = client.upload("my-job.py")
    assert (status, answer["status"]) == (200, "success")
    program = answer["filename"].rpartition("/")[2]
    listed = next(each for each in client.get("/jars")["files"] if each["id"] == program)
    assert (listed["name"], listed["entry"]) == ("my-job.py", [{"name": "my-job.py", "description": None}])
    assert client.get("/jars")["address"].endswith(str(client.port))

    assert client.ask("DELETE", f"/jars/{program}") == (200, {})
    assert client.ask("DELETE", f"/jars/{program}")[0] == 400
    status, answer = client.ask("POST", f"/jars/{program}/run")
    assert (status, "upload it first" in answer["errors"][0]) == (500, True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("job.jar", b"", "Only .py and .zip files are run"),
        ("jo b.py", b"", "Only .py and .zip"),
        (".py", b"", "Only .py and .zip"),
        ("job.py", b"def f(:\n", "The script is not valid Python: job.py line 1"),
        ("job.zip", b"no zip", "job.zip is not a zip file"),
    ],
)
def test_what_is_no_program_is_refused(client: Client, name: str, content: bytes, message: str) -> None:
    status, answer = client.upload(name, content)

    assert status == 400
    assert message in answer["errors"][0]


def test_an_uploaded_name_leads_nowhere(client: Client) -> None:
    status, answer = client.upload("../../../tmp/evil.py")

    assert status == 400
    assert "Only .py and .zip files" in answer["errors"][0]
    assert [client.ask("POST", f"/jars/{name}/run")[0] for name in ("..%2f..%2fx.py", "evil.py", "a" * 32 + "_..")] == [400] * 3


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", {}),
        (b"x", {"Content-Type": "multipart/form-data"}),
        (b"--x\r\n\r\n", _TYPE),
        (b"--x--\r\n", _TYPE),
        (b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\nvalue\r\n--x--\r\n", _TYPE),
        (_form("a.py", b"1").replace(b"--x--\r\n", b"") + _form("b.py", b"2"), _TYPE),
    ],
)
def test_a_form_without_exactly_one_file_is_refused(client: Client, body: bytes, headers: dict[str, str]) -> None:
    assert client.ask("POST", "/jars/upload", body, headers)[0] == 400


def test_a_program_is_run_with_what_the_request_says(client: Client) -> None:
    driver = client.run(
        programArgsList=["a", "b c"],
        programArgs="--d 'e f'",
        parallelism=3,
        savepointPath="/sp",
        allowNonRestoredState=True,
        flinkConfiguration={"execution.checkpointing.interval": "1 s"},
        jobId="ab" * 16,
    )

    assert json.loads(driver.environment[PROGRAM_VARIABLE])["arguments"] == ["a", "b c", "--d", "e f"]
    properties = driver.environment["FLINKISH_PROPERTIES"]
    for expected in ("parallelism.default=3", "execution.state-recovery.path=/sp", "ignore-unclaimed-state=true", "interval=1 s"):
        assert expected in properties
    assert driver.job_id == "ab" * 16


def test_state_that_a_request_does_not_allow_to_be_left_out_is_not_left_out(client: Client) -> None:
    key = "execution.state-recovery.ignore-unclaimed-state"
    driver = client.run(allowNonRestoredState=False, flinkConfiguration={key: "true"})

    assert f"{key}=false" in driver.environment["FLINKISH_PROPERTIES"]


def test_a_dispatcher_ends_also_when_its_jobs_cannot_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(tmp_path, FakeProcesses())

    def fail() -> None:
        raise KeyError("a job")

    monkeypatch.setattr(client.dispatcher, "jobs", fail)
    client.service.stop(True)

    assert client.service.wait(60)


def test_flinks_page_sends_the_same_in_the_query(client: Client) -> None:
    program = client.upload()[1]["filename"].rpartition("/")[2]
    query = "program-args=x&parallelism=2&allowNonRestoredState=true&savepointPath=/sp"
    status, _ = client.ask("POST", f"/jars/{program}/run?{query}")
    assert status == 200
    properties = client.processes.last.environment["FLINKISH_PROPERTIES"]
    assert "parallelism.default=2" in properties
    assert "ignore-unclaimed-state=true" in properties
    assert json.loads(client.processes.last.environment[PROGRAM_VARIABLE])["arguments"] == ["x"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"parallelism": 0}, "parallelism must be at least 1"),
        ({"jobId": "../x"}, "jobId must be 32 hexadecimal digits"),
        ({"entryClass": "a.b"}, "is a script, so it has no entry class"),
        ({"entryClass": "a;b"}, "not the name of a module"),
        ({"programArgs": "'"}, "not quoted as for a shell"),
        ({"flinkConfiguration": {"parallelism.default": "x"}}, "parallelism.default"),
        ({"flinkConfiguration": {"rest.port": "1"}}, "which a program cannot change"),
        ({"parallelism": "x"}, "Request did not match expected format"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_anything_starts(client: Client, request_: Any, message: str) -> None:
    program = client.upload()[1]["filename"].rpartition("/")[2]
    before = len(client.processes.started)
    status, answer = client.ask("POST", f"/jars/{program}/run", request_)

    assert status == 400
    assert message in answer["errors"][0]
    assert len(client.processes.started) == before


def test_a_zip_file_is_run_by_its_module(client: Client) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("jobs/main.py", "print(1)")
    program = client.upload("jobs.zip", content.getvalue())[1]["filename"].rpartition("/")[2]

    assert client.ask("POST", f"/jars/{program}/run", {"entryClass": "jobs.main"})[0] == 200
    assert json.loads(client.processes.last.environment[PROGRAM_VARIABLE])["entry_class"] == "jobs.main"


_JOB = b"""
import sys
from flinkish.common import Configuration, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), sys.argv[1]).set_parallelism(1)
numbers.rebalance().sink_to(DiscardingSink()).name("out")
env.execute("planned")
open("ran", "w").close()
"""


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_plan_of_a_program_is_shown_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.chdir(tmp_path)
    client = Client(tmp_path, Processes(), **{"session.driver.start-timeout": "60 s"})
    try:
        program = client.upload("job.py", _JOB)[1]["filename"].rpartition("/")[2]
        query, body = "?program-args=ones&parallelism=3", {"programArgsList": ["ones"], "parallelism": 3}
        status, answer = client.ask(method, f"/jars/{program}/plan{query if method == 'GET' else ''}", body)
        assert status == 200, answer
        assert client.get("/jobs") == {"jobs": []}
    finally:
        client.service.stop(False)
        assert client.service.wait(60)
    plan = answer["plan"]
    assert (plan["name"], plan["type"], len(plan["jid"])) == ("planned", "STREAMING", 32)
    sink, source = plan["nodes"]
    assert (source["description"], source["parallelism"]) == ("Source: ones<br/>", 1)
    assert (sink["parallelism"], sink["inputs"]) == (
        3, [{"id": source["id"], "num": 0, "exchange": "pipelined_bounded", "ship_strategy": "REBALANCE"}]
    )  # fmt: skip
    # Neither the rest of the script nor anything that the process wrote.
    assert not (tmp_path / "ran").exists()
    assert list(client.dispatcher.settings.local.glob("plans/*")) == []


def test_a_program_without_a_plan_is_told_of_and_its_process_ended(client: Client) -> None:
    program = client.upload()[1]["filename"].rpartition("/")[2]
    path = f"/jars/{program}/plan"
    # The process lives, and the time limit is 0.
    status, answer = client.ask("POST", path)
    assert (status, "job.py has not come to its execute() within 0 ms" in answer["errors"][0]) == (500, True), answer
    assert not client.processes.last.alive

    start = client.processes.start

    def end_at_once(command: Command) -> tuple[int, float]:
        command.log.write_text("ValueError: password=hush\n")
        found = start(command)
        client.processes.last.alive = False
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.processes, "start", end_at_once)
        status, answer = client.ask("POST", path)
    assert status == 500
    assert (
        "job.py ended without a job, so it has no plan. The end of its log:\nValueError: password=******" in answer["errors"][0]
    )
    assert [client.ask("GET", f"/jars/{each}/plan")[0] for each in (f"{'a' * 32}_job.py", "..%2fx.py")] == [500, 400]
    assert client.ask("POST", path, {"parallelism": 0})[0] == 400


def test_java_graphs_are_refused_with_a_way_out(client: Client) -> None:
    status, answer = client.ask("POST", "/jobs", b"")
    assert (status, "serialised Java graph" in answer["errors"][0]) == (501, True)


# -- jobs


def test_a_jobs_paths_are_passed_on_to_its_driver(client: Client) -> None:
    with answering({}) as (port, seen):
        driver = client.run(port)
        path = f"/jobs/{driver.job_id}"
        seen.clear()
        status, answer = client.ask("GET", f"/v1{path}/vertices/{UNKNOWN}/metrics?get=0.a%20b,1.c")
        assert (status, answer) == (404, {"errors": ["no"]})
        client.ask("PATCH", f"{path}?mode=cancel")
        client.ask("POST", f"{path}/savepoints", {"target-directory": "/x"})

    token = "Bearer of the driver"
    assert seen == [
        ("GET", f"{path}/vertices/{UNKNOWN}/metrics?get=0.a+b%2C1.c", token, ""),
        ("PATCH", f"{path}?mode=cancel", token, "{}"),
        ("POST", f"{path}/savepoints", token, '{"target-directory": "/x"}'),
    ]


@pytest.mark.parametrize(("status", "after"), [(202, "CANCELED"), (409, "RESTARTING")])
def test_a_job_whose_driver_is_killed_while_it_cancels_is_not_started_again(tmp_path: Path, status: int, after: str) -> None:
    answers: dict[str, tuple[int, Any]] = {}
    with serving(tmp_path) as client, answering(answers) as (port, _):
        driver = client.run(port)
        answers[f"/jobs/{driver.job_id}"] = (status, {})
        assert client.ask("PATCH", f"/jobs/{driver.job_id}?mode=cancel")[0] == status
        driver.alive = False
        path = f"/jobs/{driver.job_id}/status"
        wait_until(after, lambda: client.ask("GET", path) == (200, {"status": after}), 120)


def test_the_cluster_has_all_jobs(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        one = client.run()
        two = client.run()
        client.dispatcher.report(two.report("FAILED", status="FAILED"), two.token)
        assert [each["state"] for each in client.get("/jobs/overview")["jobs"]] == ["RUNNING", "FAILED"]
        assert client.get("/jobs") == {"jobs": [{"id": one.job_id, "status": "RUNNING"}, {"id": two.job_id, "status": "FAILED"}]}
        overview = client.get("/overview")
        assert (overview["jobs-running"], overview["jobs-failed"], overview["slots-total"]) == (1, 1, 2)
        found = client.get("/applications/overview")["applications"]
        assert [(each["status"], each["jobs"]) for each in found] == [("RUNNING", {"RUNNING": 1}), ("FAILED", {"FAILED": 1})]
        assert client.get("/config")["features"]["web-submit"] is True


def test_metrics_of_all_jobs_are_combined_without_drivers_that_do_not_answer(tmp_path: Path) -> None:
    first = {f"/jobs/{number:032x}/metrics": (200, [{"id": "uptime", "value": str(10 * number)}]) for number in range(1, 20)}
    with serving(tmp_path) as client, answering(first) as (port, _):
        numbers = [int(client.run(port).job_id, 16) for _ in range(2)]
        client.run(1)
        (found,) = client.get("/jobs/metrics?get=uptime&agg=sum,max")

    assert found == {"id": "uptime", "sum": 10.0 * sum(numbers), "max": 10.0 * max(numbers)}


def test_metrics_of_the_task_managers_of_all_drivers_are_combined(tmp_path: Path) -> None:
    def answers(*loads: float) -> dict[str, tuple[int, Any]]:
        managers = {f"host:{load}-abcdef": load for load in loads}
        load = "Status.JVM.CPU.Load"
        return {
            "/taskmanagers": (200, {"taskmanagers": [{"id": name} for name in managers]}),
            "/taskmanagers/metrics": (200, [{"id": load}]),
            **{f"/taskmanagers/{name}/metrics": (200, [{"id": load, "value": str(value)}]) for name, value in managers.items()},
        }

    # Two task managers in one job and one in another: the mean is not that of the jobs.
    with serving(tmp_path) as client, answering(answers(1.0, 2.0)) as (two, _), answering(answers(6.0)) as (one, _):
        client.run(two)
        client.run(one)
        client.run(1)
        (found,) = client.get("/taskmanagers/metrics?get=Status.JVM.CPU.Load,unknown")
        names = client.get("/taskmanagers/metrics")
        chosen = client.get("/taskmanagers/metrics?get=Status.JVM.CPU.Load&agg=max&taskmanagers=host:1.0-abcdef,host:2.0-abcdef")
        assert client.ask("GET", "/taskmanagers/metrics?get=a&agg=bad")[0] == 400
        assert client.ask("GET", "/jobs/metrics?jobs=zz&get=uptime")[0] == 400
    assert found == {"id": "Status.JVM.CPU.Load", "min": 1.0, "max": 6.0, "avg": 3.0, "sum": 9.0, "skew": 66.667}
    assert names == [{"id": "Status.JVM.CPU.Load"}]
    assert chosen == [{"id": "Status.JVM.CPU.Load", "max": 2.0}]


def test_the_log_of_a_driver_is_read_after_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path) as client:
        driver = client.run(flinkConfiguration={"s3.secret-key": "hush-hush-hush"})
        log = driver.command.log
        log.write_text("it runs with hush-hush-hush\nTraceback: password=short\n")
        (log.parent / "other.log").write_text("of somebody else")
        client.dispatcher.report(driver.report("FAILED", status="FAILED"), driver.token)
        driver.alive = False

        names = [each["name"] for each in client.get("/jobmanager/logs")["logs"]]
        assert log.name in names
        assert "other.log" not in names
        text = "it runs with ******\nTraceback: password=******\n"
        assert client.get(f"/jobmanager/logs/{log.name}") == text
        assert client.ask("GET", "/jobmanager/logs/other.log")[0] == 404
        address = client.dispatcher.address
        for place in ("jobmanager", "taskmanagers/here:1-abcdef"):
            url = client.get(f"/jobs/{driver.job_id}/{place}/log-url")["url"]
            assert url == f"{address}/#/logs/server/{log.name}"

    # The next Dispatcher knows the secrets from the registry, not from the request.
    monkeypatch.setattr(redaction, "_known", (frozenset(), None))
    with serving(tmp_path) as again:
        assert again.get(f"/jobmanager/logs/{log.name}") == text


def test_a_log_that_has_become_long_is_begun_anew_and_its_earlier_part_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "LONGEST_LOG", 1_000)
    with serving(tmp_path) as client:
        log = client.run().command.log
        with log.open("a") as written:
            # As the driver's, which goes on to write to the same file.
            for part in range(3):
                written.write(f"part {part} {'x' * 1_000}\n")
                written.flush()
                wait_until("a new file", lambda: log.stat().st_size == 0, 120)
            written.write("the end\n")
        old = log.with_name(f"{log.name}.1")
        assert client.get(f"/jobmanager/logs/{log.name}") == "the end\n"
        assert client.get(f"/jobmanager/logs/{old.name}").startswith("part 2 ")
        assert sorted(file.name for file in log.parent.iterdir()) == [log.name, old.name]
        assert old.stat().st_mode & 0o777 == 0o600


def test_an_ended_job_is_answered_from_its_archive(client: Client) -> None:
    driver = client.run()
    path = f"/jobs/{driver.job_id}"
    answers = {
        path: {"state": "FINISHED"},
        f"{path}/metrics": [{"id": "uptime", "value": "7"}, {"id": "b", "value": "1"}],
        f"{path}/savepoints/{UNKNOWN}": {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/sp"}},
    }
    write_archive(SessionStorage(client.dispatcher.settings.root), driver, **answers)
    client.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    driver.alive = False
    wait_until("the end of the driver", lambda: client.dispatcher.driver(client.dispatcher.job(driver.job_id)) is None, 120)  # type: ignore[arg-type]

    assert client.get(path) == {"state": "FINISHED"}
    assert client.get(f"/v1{path}/status") == {"status": "FINISHED"}
    assert client.get(f"{path}/metrics") == [{"id": "uptime"}, {"id": "b"}]
    assert client.get(f"{path}/metrics?get=uptime,x") == [{"id": "uptime", "value": "7"}]
    assert client.get(f"{path}/savepoints/{UNKNOWN}")["operation"]["location"] == "file:/sp"
    assert client.ask("PATCH", path)[0] == 409
    status, answer = client.ask("POST", f"{path}/savepoints")
    assert status == 202
    assert client.get(f"{path}/savepoints/{answer['request-id']}")["status"]["id"] == "COMPLETED"


def test_a_job_between_two_drivers_is_restarting(client: Client) -> None:
    client.run()
    driver = client.run()
    client.processes.full = True
    try:
        driver.alive = False
        path = f"/jobs/{driver.job_id}"
        wait_until("the loss", lambda: client.get(f"{path}/status") == {"status": "RESTARTING"}, 120)
        assert client.get(path)["state"] == "RESTARTING"
        assert client.get(f"{path}/exceptions") == {"exceptionHistory": {"entries": [], "truncated": False}}
        status, answer = client.ask("GET", f"{path}/checkpoints")
        assert (status, "is being started again" in answer["errors"][0]) == (503, True)
        for operation in ("savepoints", "stop", "checkpoints"):  # none is accepted that the next driver would not know
            status, answer = client.ask("POST", f"{path}/{operation}")
            assert (status, "is being started again" in answer["errors"][0]) == (503, True)
        assert client.ask("PATCH", path) == (202, {})
        wait_until("the cancellation", lambda: client.get(f"{path}/status") == {"status": "CANCELED"}, 120)
    finally:
        client.processes.full = False
    assert client.ask("PATCH", path) == (202, {})


def test_a_driver_that_lives_and_does_not_answer_is_an_error_that_says_so(client: Client) -> None:
    driver = client.run(1)
    status, answer = client.ask("GET", f"/jobs/{driver.job_id}")

    assert status == 503
    assert "does not answer" in answer["errors"][0]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/jobs/{UNKNOWN}", 404),
        ("GET", f"/jobs/{UNKNOWN}/status", 500),
        ("GET", f"/jobs/{UNKNOWN}/metrics", 200),
        ("PATCH", f"/jobs/{UNKNOWN}", 404),
        ("POST", f"/jobs/{UNKNOWN}/stop", 202),
        ("GET", "/jobs/zzz", 400),
        ("GET", "/nope", 404),
        ("DELETE", "/cluster?jobs=perhaps", 400),
    ],
)
def test_what_is_not_known_is_answered_as_by_a_job_of_its_own(client: Client, method: str, path: str, status: int) -> None:
    assert client.ask(method, path)[0] == status


def test_task_managers_are_those_of_all_drivers(tmp_path: Path) -> None:
    answers: dict[str, tuple[int, Any]] = {"/taskmanagers": (200, {"taskmanagers": [{"id": "here:1-abcdef"}]})}
    with serving(tmp_path) as client, answering(answers) as (port, seen):
        driver = client.run(port, jobId="abcdef" + "0" * 26)
        client.run(1)
        assert client.get("/taskmanagers") == {"taskmanagers": [{"id": "here:1-abcdef"}]}
        answers["/taskmanagers/here:1-abcdef/log"] = (200, "a log")
        assert client.get("/taskmanagers/here:1-abcdef/log") == "a log"
        assert seen[-1][:2] == ("GET", "/taskmanagers/here:1-abcdef/log")
        assert driver.alive


# -- who may ask


def test_no_route_answers_without_the_token(tmp_path: Path) -> None:
    with serving(tmp_path, token="a-token-of-some-length") as client:
        for route in (*SESSION_ROUTES, *ROUTES):
            path = "/".join(UNKNOWN if part.startswith(":") else part for part in route.path.split("/"))
            assert client.ask(route.method, path)[0] == 401, route
        headers = {"Authorization": "Bearer a-token-of-some-length"}
        assert client.ask("GET", "/overview", headers=headers)[0] == 200


def test_programs_are_not_taken_if_that_is_switched_off(tmp_path: Path) -> None:
    with serving(tmp_path, **{"web.submit.enable": "false"}) as client:
        assert client.upload()[0] == 403
        assert client.get("/config")["features"]["web-submit"] is False


def test_the_port_for_drivers_takes_reports_with_the_drivers_token_only(client: Client) -> None:
    driver = client.run()
    port = int(driver.assignment.reports.rpartition(":")[2])

    def send(path: str, body: bytes, token: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("POST", path, body, {"Authorization": f"Bearer {token}"})
        status = connection.getresponse().status
        connection.close()
        return status

    body = msgspec.json.encode(driver.report())
    assert send(REPORT_PATH, body, driver.token) == 200
    assert send(REPORT_PATH, body, "x") == 409
    assert send(REPORT_PATH, b"{}", driver.token) == 400
    assert send(REPORT_PATH, b" " * 200_000, driver.token) == 413
    assert send("/overview", b"", driver.token) == 404


def test_a_dispatcher_proves_to_its_drivers_that_it_is_one(client: Client) -> None:
    driver = client.run()
    address, secret = driver.assignment.reports, driver.assignment.secret
    body = msgspec.json.encode(driver.report())
    assert proof.ask(address, "POST", REPORT_PATH, token=driver.token, secret=secret, body=body).status == 200
    with pytest.raises(OSError, match="not of this session"):
        proof.ask(address, "POST", REPORT_PATH, token=driver.token, secret="another", body=body)


# -- the end


def test_the_cluster_ends_and_cancels_its_jobs_before(tmp_path: Path) -> None:
    client = Client(tmp_path, FakeProcesses())
    answers: dict[str, tuple[int, Any]] = {}
    with answering(answers) as (port, seen):
        driver = client.run(port)
        answers[f"/jobs/{driver.job_id}"] = (202, {})
        assert client.ask("DELETE", "/cluster") == (200, {})
        wait_until("the cancellation", lambda: any(each[0] == "PATCH" for each in seen), 120)
        driver.alive = False
        assert client.service.wait(60)

    with serving(tmp_path) as again:
        assert again.get(f"/jobs/{driver.job_id}/status") == {"status": "CANCELED"}


def test_a_dispatcher_that_does_not_lead_does_not_end_as_if_it_had_cancelled_the_jobs(tmp_path: Path) -> None:
    with serving(tmp_path) as leader:
        driver = leader.run()
        other = Client(tmp_path, FakeProcesses())
        status, answer = other.ask("DELETE", "/cluster")
        assert status == 503
        assert f"the session's leader is {leader.dispatcher.address}. It ends with jobs=keep." in answer["errors"][0]
        assert other.ask("DELETE", "/cluster?jobs=keep") == (200, {})
        assert other.service.wait(60)
        assert leader.get("/jobs") == {"jobs": [{"id": driver.job_id, "status": "RUNNING"}]}


def test_the_cluster_ends_and_leaves_its_jobs_if_asked_to(tmp_path: Path) -> None:
    client = Client(tmp_path, FakeProcesses())
    driver = client.run()
    assert client.ask("DELETE", "/cluster?jobs=keep") == (200, {})
    assert client.service.wait(60)

    assert driver.alive
    with serving(tmp_path) as again:
        assert again.get("/overview")["jobs-running"] == 1


def test_an_error_that_comes_again_and_again_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(tmp_path, FakeProcesses())

    def fail() -> None:
        raise ValueError("what no one has thought of")

    client.service.stop(False)
    assert client.service.wait(60)
    monkeypatch.setattr(client.dispatcher, "step", fail)
    with caplog.at_level("WARNING", "flinkish.server.session"):
        for _ in range(3):
            client.service._step()

    assert sum("A step of the Dispatcher failed" in record.getMessage() for record in caplog.records) == 1
