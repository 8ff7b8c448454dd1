"""Requests that are not as they should be, in the words and with the status codes of Flink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.common.job_status import JobStatus
from tests.unit.server.support import UNKNOWN, Server, endless_job, make_env, served


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as each:
        yield each


@pytest.mark.parametrize("path", ["/config", "/v1/config", "/config/", "/v1/config/"])
def test_every_path_answers_with_and_without_the_version_and_a_slash_behind(server: Server, path: str) -> None:
    assert server.get(path)["flink-version"] == "2.3.0"


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nope", 404, "Unable to load requested file /nope."),
        ("POST", "/overview", 404, "Not found: /overview"),
        ("GET", "/v2/jobs", 404, "Unable to load requested file /v2/jobs."),
        ("GET", "/v1jobs", 404, "Unable to load requested file /v1jobs."),
        ("HEAD", "/overview", 404, None),
        ("OPTIONS", "/overview", 404, "Not found: /overview"),
        ("GET", "/jobs/zzz", 400, "path parameter (jobid) is not an id of 32 hexadecimal digits: 'zzz'"),
        ("GET", f"/jobs/{UNKNOWN}", 404, f"Job {UNKNOWN} not found"),
        ("GET", f"/jobs/{UNKNOWN}/config", 404, f"Job {UNKNOWN} not found"),
        ("GET", f"/jobs/{UNKNOWN}/checkpoints", 404, f"Job {UNKNOWN} not found"),
        ("GET", f"/jobs/{UNKNOWN}/vertices/{UNKNOWN}/watermarks", 404, f"Job {UNKNOWN} not found"),
        ("GET", f"/jobs/{UNKNOWN}/status", 500, "Internal server error."),
        ("PATCH", f"/jobs/{UNKNOWN}?mode=cancel", 404, f"Job {UNKNOWN} not found"),
        ("GET", f"/jobs/{UNKNOWN}/savepoints/{UNKNOWN}", 404, "There is no savepoint operation"),
        ("GET", f"/jobs/{UNKNOWN}/checkpoints/{UNKNOWN}", 404, "There is no checkpoint operation"),
        ("GET", "/jobs/metrics?get=uptime&agg=bad", 400, "(agg) is not known: 'bad'"),
        ("GET", "/jobs/metrics?jobs=ZZ", 400, "(jobs) is not a list of ids of 32 hexadecimal digits: 'ZZ'"),
        ("GET", "/jobmanager/logs/none.txt", 404, "This file does not exist"),
        ("POST", "/jobs", 501, "flinkish cannot run"),
    ],
)
def test_an_error_has_flinks_status_and_form(server: Server, method: str, path: str, status: int, message: str | None) -> None:
    got, answer = server.ask(method, path)

    assert got == status
    if message is not None:
        assert list(answer) == ["errors"]
        assert any(message in text for text in answer["errors"]), answer


@pytest.mark.parametrize("path", ["metrics", f"vertices/{UNKNOWN}/metrics", f"vertices/{UNKNOWN}/subtasks/metrics"])
def test_metrics_of_an_unknown_job_are_an_empty_list(server: Server, path: str) -> None:
    assert server.get(f"/jobs/{UNKNOWN}/{path}") == []


def test_a_trigger_id_is_that_of_one_job(server: Server) -> None:
    first, second, trigger = "1" * 32, "2" * 32, "cd" * 16
    server.ask("POST", f"/jobs/{first}/savepoints", {"triggerId": trigger})

    assert server.ask("GET", f"/jobs/{second}/savepoints/{trigger}")[0] == 404
    server.ask("POST", f"/jobs/{second}/savepoints", {"triggerId": trigger})
    causes = [server.get(f"/jobs/{job}/savepoints/{trigger}")["operation"]["failure-cause"] for job in (first, second)]
    assert [job in cause["stack-trace"] for job, cause in zip((first, second), causes, strict=True)] == [True, True]


@pytest.mark.parametrize("body", ["{bad", '{"formatType":"XX"}', '{"cancel-job":3}', "[]", '{"triggerId":"../../x"}'])
def test_a_body_that_does_not_fit_is_refused(server: Server, body: str) -> None:
    status, answer = server.ask("POST", f"/jobs/{UNKNOWN}/savepoints", body)

    assert (status, list(answer)) == (400, ["errors"])


@pytest.mark.parametrize(("path", "kind"), [("savepoints", "savepoints"), ("stop", "savepoints"), ("checkpoints", "checkpoints")])
def test_an_operation_on_an_unknown_job_is_accepted_and_fails(server: Server, path: str, kind: str) -> None:
    status, answer = server.ask("POST", f"/jobs/{UNKNOWN}/{path}", {"triggerId": "ab" * 16})
    again = server.ask("POST", f"/jobs/{UNKNOWN}/{path}", {"triggerId": "ab" * 16})

    assert (status, answer) == (202, {"request-id": "ab" * 16}) == again
    result = server.get(f"/jobs/{UNKNOWN}/{kind}/{'ab' * 16}")
    assert result["status"] == {"id": "COMPLETED"}
    assert result["operation"]["failure-cause"]["class"] == "JobNotFoundError"


def test_a_job_is_cancelled_by_patch_and_by_the_pages_get(tmp_path: Path) -> None:
    with served() as server:
        for method, path in (("PATCH", "?mode=cancel"), ("GET", "/yarn-cancel")):
            client = endless_job(make_env(tmp_path))
            job_id = client.get_job_id()
            assert server.ask(method, f"/jobs/{job_id}{path}") == (202, {})
            client.cancel().result(120)
            assert server.get(f"/jobs/{job_id}/status") == {"status": JobStatus.CANCELED.name}
            # As in Flink, cancelling a cancelled job is no error.
            assert server.ask(method, f"/jobs/{job_id}{path}") == (202, {})
            assert server.ask("PATCH", f"/jobs/{job_id}?mode=stop")[0] == 308
            assert server.ask("PATCH", f"/jobs/{job_id}?mode=xyz")[0] == 400
        assert server.get("/overview")["jobs-cancelled"] == 2
